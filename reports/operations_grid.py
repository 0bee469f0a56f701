"""Every operation of a step as an HTML table, the largest part of the step first."""

from __future__ import annotations

from html import escape

from reports.breakdown import GroupTotal, StepBreakdown
from reports.palette import RESOURCE_COLORS
from reports.peak_shares import dram_share_text, matrix_share_text
from reports.quantity import flops_text, rate_text, share_text, traffic_text
from simulator.basis.units import format_rate, format_time_ps
from simulator.cost.result import StepResult

_HEADINGS = {
    "": ("launches",),
    "time": ("of the step", "share", "of launches"),
    "bound by": ("",),
    "DRAM": ("moved", "rate", "of peak"),
    "matrix math": ("work", "rate", "of peak"),
    "link": ("sent",),
}


def operations_grid(breakdown: StepBreakdown) -> str:
    """Rows of all operations, and their total; what they do shows when pointed at."""
    result = breakdown.result
    rows = "".join(
        _row(group, group.key, result, about=result.abouts.get(group.key, ""))
        for group in breakdown.by_operation
    )
    total = _row(breakdown.total, "step", result, over_ps=result.total_ps)
    return (
        f'<p class="note">{_caption(result)}</p>'
        '<p class="hint">The table scrolls sideways →</p>'
        f'<div class="scroll" tabindex="0"><table class="grid"><thead>{_head()}</thead>'
        f"<tbody>{rows}</tbody><tfoot>{total}</tfoot></table></div>"
    )


def _caption(result: StepResult) -> str:
    count = result.question.count
    whose = f"one chip of {count:,}" if count > 1 else "the chip"
    return (
        f"DRAM, matrix math and link are of {whose}. Rates count over the time of the launches; "
        f"peaks are {format_rate(result.peaks.dram_bytes_per_s)} of DRAM, and of matrix math that "
        "of the number format used."
    )


def _head() -> str:
    """Two rows: what is counted, and how."""
    top = ['<th rowspan="2">operation</th>']
    below = []
    for group, headings in _HEADINGS.items():
        if headings == ("",):
            top.append(f'<th rowspan="2" class="bound">{group}</th>')
        elif not group:
            top += [f'<th rowspan="2">{heading}</th>' for heading in headings]
        else:
            top.append(f'<th colspan="{len(headings)}" class="over">{group}</th>')
            below += [f"<th>{heading}</th>" for heading in headings]
    return f'<tr>{"".join(top)}</tr><tr class="below">{"".join(below)}</tr>'


def _row(
    group: GroupTotal,
    label: str,
    result: StepResult,
    *,
    about: str = "",
    over_ps: int | None = None,
) -> str:
    """One row; rates count over the launches' own time unless another one is given."""
    over_ps = group.duration_ps if over_ps is None else over_ps
    cells = [
        f"{group.launches:,}" if group.launches else "–",
        format_time_ps(group.critical_ps) if group.critical_ps else "–",
        share_text(group.critical_ps, result.total_ps) if group.critical_ps else "hidden",
        format_time_ps(group.duration_ps) if group.launches else "–",
        traffic_text(group.dram_bytes),
        rate_text(group.dram_bytes, over_ps, "B/s"),
        dram_share_text(group, result.peaks, over_ps),
        flops_text(group.total_flops),
        rate_text(group.total_flops, over_ps, "FLOP/s"),
        matrix_share_text(group, result.peaks, over_ps),
        traffic_text(group.amounts["link_bytes"]),
    ]
    html = [f"<td>{cell}</td>" for cell in cells]
    html.insert(4, _bound(group))
    title = f' title="{escape(about)}"' if about else ""
    return f"<tr><th{title}>{escape(label)}</th>{''.join(html)}</tr>"


def _bound(group: GroupTotal) -> str:
    """The resource that binds most of the group's time, with its part where there are several."""
    parts = group.critical_ps_by_bound if group.critical_ps else group.duration_ps_by_bound
    share = share_text(parts.get(group.bound, 0), sum(parts.values()), digits=0)
    mixed = f" {share}" if len([part for part in parts.values() if part]) > 1 else ""
    color = RESOURCE_COLORS[group.bound]
    return f'<td class="bound"><i style="background:{color}"></i>{group.bound}{mixed}</td>'
