"""Where the time of a step goes by cause: one bar for the step and one an operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from reports.answer import CAUSE_NAMES, kind_text
from reports.breakdown import GroupTotal
from reports.certainty import interval_text
from reports.palette import CAUSE_COLORS
from reports.quantity import share_text
from simulator.basis.units import format_time_ps

SHOWN_OPERATIONS = 12


def cause_bars(total: GroupTotal, groups: Sequence[GroupTotal]) -> str:
    """Bars of the whole step and of its largest operations, each kind on a scale of its own."""
    shown = [group for group in groups if group.critical_ps][:SHOWN_OPERATIONS]
    if not shown:
        return '<p class="note">No launch takes any time.</p>'
    rows = [_row("step", total, _scale(total))]
    longest = max(_scale(group) for group in shown)
    rows += [_row(kind_text(group), group, longest) for group in shown]
    return f'{_legend(total.critical_ps_by_cause)}<div class="bars">{"".join(rows)}</div>'


def causes_sentence(total: GroupTotal) -> str:
    """The causes of the step's time, the largest first."""
    parts = sorted(total.critical_ps_by_cause.items(), key=lambda item: -item[1])
    texts = [
        f"{CAUSE_NAMES[name]} {share_text(part_ps, total.critical_ps)}" for name, part_ps in parts
    ]
    return f"Waits for: {', '.join(texts)}."


def whisker(low_ps: int, high_ps: int, whole_ps: int) -> str:
    """A line from the low to the high end of an interval over a bar; it ends with the bar's track.

    What goes beyond the track is cut off there; the title has the numbers.
    """
    if not whole_ps or high_ps <= low_ps:
        return ""
    left = min(100.0, 100 * low_ps / whole_ps)
    right = min(100.0, 100 * high_ps / whole_ps)
    title = escape(f"p10 to p90: {interval_text(low_ps, high_ps)}")
    return f'<u style="left:{left:.3f}%;width:{right - left:.3f}%" title="{title}"></u>'


def _scale(group: GroupTotal) -> int:
    """Width that shows a group's interval, up to half as much again as its time."""
    return max(group.critical_ps, min(group.high_ps, group.critical_ps * 3 // 2))


def _row(label: str, group: GroupTotal, whole_ps: int) -> str:
    stretches = "".join(
        f'<i style="width:{100 * part_ps / whole_ps:.4f}%;background:{CAUSE_COLORS[name]}" '
        f'title="{escape(f"{label}: {CAUSE_NAMES[name]}, {format_time_ps(part_ps)}")}"></i>'
        for name, part_ps in group.critical_ps_by_cause.items()
    )
    name, part_ps = max(group.critical_ps_by_cause.items(), key=lambda item: item[1])
    share = share_text(part_ps, group.critical_ps, digits=0)
    return (
        f'<div class="bar"><span class="name">{escape(label)}</span>'
        f'<span class="track">{stretches}{whisker(group.low_ps, group.high_ps, whole_ps)}</span>'
        f'<span class="value"><span>{format_time_ps(group.critical_ps)}</span> '
        f"<small>{share} {escape(CAUSE_NAMES[name])}</small></span></div>"
    )


def _legend(causes: Mapping[str, int]) -> str:
    items = "".join(
        f'<span class="key"><i style="background:{CAUSE_COLORS[name]}"></i>'
        f"{escape(CAUSE_NAMES[name])}</span>"
        for name in causes
    )
    return f'<p class="legend">{items}</p>'
