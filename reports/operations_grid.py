"""Every operation of a step as an HTML table, the largest part of the step first."""

from __future__ import annotations

from html import escape

from reports.breakdown import GroupTotal, StepBreakdown
from reports.palette import RESOURCE_COLORS
from reports.quantity import flops_text, rate_text, share_text, traffic_text
from simulator.basis.units import format_time_ps

_HEADINGS = (
    "operation",
    "launches",
    "part of the step",
    "share",
    "time of launches",
    "bound by",
    "DRAM",
    "DRAM rate",
    "matrix work",
    "matrix rate",
    "link",
)


def operations_grid(breakdown: StepBreakdown) -> str:
    """Rows of all operations, and their total."""
    total_ps = breakdown.result.total_ps
    head = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
    head = head.replace("<th>bound", '<th class="bound">bound')
    rows = "".join(_row(group, group.key, total_ps) for group in breakdown.by_operation)
    total = _row(breakdown.total, "step", total_ps, rates_over_ps=total_ps)
    return (
        f'<div class="scroll"><table class="grid"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody><tfoot>{total}</tfoot></table></div>"
    )


def _row(group: GroupTotal, label: str, total_ps: int, rates_over_ps: int | None = None) -> str:
    """One row; rates count over the launches' own time unless another one is given."""
    over_ps = group.duration_ps if rates_over_ps is None else rates_over_ps
    parts = group.critical_ps_by_bound if group.critical_ps else group.duration_ps_by_bound
    share = share_text(parts.get(group.bound, 0), sum(parts.values()), digits=0)
    mixed = f" {share}" if len([part for part in parts.values() if part]) > 1 else ""
    cells = [
        f"{group.launches:,}" if group.launches else "–",
        format_time_ps(group.critical_ps) if group.critical_ps else "–",
        share_text(group.critical_ps, total_ps) if group.critical_ps else "hidden",
        format_time_ps(group.duration_ps) if group.launches else "–",
        traffic_text(group.dram_bytes),
        rate_text(group.dram_bytes, over_ps, "B/s"),
        flops_text(group.total_flops),
        rate_text(group.total_flops, over_ps, "FLOP/s"),
        traffic_text(group.amounts["link_bytes"]),
    ]
    html = [f"<td>{cell}</td>" for cell in cells]
    html.insert(
        4,
        f'<td class="bound"><i style="background:{RESOURCE_COLORS[group.bound]}"></i>'
        f"{group.bound}{mixed}</td>",
    )
    return f"<tr><th>{escape(label)}</th>{''.join(html)}</tr>"
