"""Horizontal bars as plain HTML: they reflow on a narrow screen, and their text can be searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from reports.answer import RESOURCE_NAMES, kind_text
from reports.breakdown import GroupTotal
from reports.causes import whisker
from reports.glossary import pool_about, pool_name
from reports.palette import (
    FREE_COLOR,
    POOL_COLORS,
    RESOURCE_COLORS,
    WEIGHT_COLOR,
    WORKSPACE_COLOR,
)
from reports.quantity import count_text, share_text
from simulator.basis.units import format_bytes, format_time_ps
from simulator.cost.result import MemoryUse

SHOWN_GROUPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A coloured stretch of a bar, in the unit of the whole; `about` says what it is."""

    label: str
    amount: int
    color: str
    about: str = ""


def group_bars(groups: Sequence[GroupTotal], total_ps: int, abouts: Mapping[str, str]) -> str:
    """One bar a group, coloured by what binds its part of the step; the smallest ones together.

    What a group does, by its key in `abouts`, shows when its bar is pointed at.
    """
    shown = list(groups) if len(groups) <= SHOWN_GROUPS + 1 else list(groups[:SHOWN_GROUPS])
    rest = groups[len(shown) :]
    longest = max((group.critical_ps for group in shown), default=0)
    rows = [
        _row(kind_text(group), [group], total_ps, longest, _hidden(group), abouts.get(group.key))
        for group in shown
    ]
    if rest:
        longest_rest = max(longest, sum(group.critical_ps for group in rest))
        label = f"{count_text(len(rest), 'other')} together"
        rows.append(_row(label, rest, total_ps, longest_rest, ""))
    return f'<div class="bars">{"".join(rows)}</div>'


def resource_legend(resources: Iterable[str]) -> str:
    """Colour and name of each resource."""
    items = "".join(
        f'<span class="key"><i style="background:{RESOURCE_COLORS[name]}"></i>'
        f"{escape(RESOURCE_NAMES[name])}</span>"
        for name in resources
    )
    return f'<p class="legend">{items}</p>'


def memory_bar(memory: MemoryUse) -> str:
    """What the rank's memory holds, as one bar with its legend; says by how much it overflows."""
    parts = [Part(label="weights", amount=memory.weight_bytes, color=WEIGHT_COLOR)]
    for index, (pool, size) in enumerate(memory.state_bytes_by_pool.items()):
        color = POOL_COLORS[index % len(POOL_COLORS)]
        about = pool_about(pool)
        parts.append(Part(label=f"state: {pool_name(pool)}", amount=size, color=color, about=about))
    parts.append(Part(label="workspace", amount=memory.workspace_bytes, color=WORKSPACE_COLOR))
    free = memory.capacity_bytes - memory.used_bytes
    if free >= 0:
        parts.append(Part(label="free", amount=free, color=FREE_COLOR))
    whole = max(memory.capacity_bytes, memory.used_bytes)
    rows = "".join(
        f'<tr><td><i style="background:{part.color}"></i>{escape(part.label)}'
        f"<small>{escape(part.about)}</small></td><td>{format_bytes(part.amount)}</td>"
        f"<td>{share_text(part.amount, memory.capacity_bytes)}</td></tr>"
        for part in parts
    )
    over = (
        f'<p class="alarm">Over capacity by {format_bytes(-free, exact=True)}.</p>'
        if free < 0
        else ""
    )
    return (
        f'<div class="track tall">{_stretches(parts, whole)}</div>{over}'
        f'<table class="parts"><tbody>{rows}</tbody>'
        f"<tfoot><tr><td>capacity</td><td>{format_bytes(memory.capacity_bytes)}</td>"
        "<td></td></tr></tfoot></table>"
    )


def _row(
    label: str,
    groups: Sequence[GroupTotal],
    total_ps: int,
    longest_ps: int,
    remark: str,
    about: str | None = None,
) -> str:
    by_bound: dict[str, int] = {}
    for group in groups:
        for name, part_ps in group.critical_ps_by_bound.items():
            by_bound[name] = by_bound.get(name, 0) + part_ps
    parts = [
        Part(
            label=f"{RESOURCE_NAMES[name]}, {format_time_ps(part_ps)}",
            amount=part_ps,
            color=RESOURCE_COLORS[name],
            about=f"{label}: {about}" if about else label,
        )
        for name, part_ps in sorted(by_bound.items(), key=lambda item: -item[1])
    ]
    amount = sum(by_bound.values())
    title = f' title="{escape(about)}"' if about else ""
    return (
        f'<div class="bar"{title}><span class="name">{escape(label)}</span>'
        f'<span class="track">{_stretches(parts, longest_ps)}{_whisker(groups, longest_ps)}</span>'
        f'<span class="value"><span>{format_time_ps(amount)}</span> '
        f"<b>{share_text(amount, total_ps)}</b>{remark}</span></div>"
    )


def _whisker(groups: Sequence[GroupTotal], longest_ps: int) -> str:
    low_ps, high_ps = (sum(getattr(g, name) for g in groups) for name in ("low_ps", "high_ps"))
    return whisker(low_ps, high_ps, longest_ps)


def _hidden(group: GroupTotal) -> str:
    """Time of launches that others cover."""
    covered_ps = group.duration_ps - group.critical_ps
    return f" <small>+ {format_time_ps(covered_ps)} hidden</small>" if covered_ps > 0 else ""


def _stretches(parts: Sequence[Part], whole: int) -> str:
    return "".join(
        f'<i style="width:{100 * part.amount / whole:.4f}%;background:{part.color}" '
        f'title="{escape(_title(part))}"></i>'
        for part in parts
        if part.amount and whole
    )


def _title(part: Part) -> str:
    return "\n".join(text for text in (part.about, part.label) if text)
