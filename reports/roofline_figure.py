"""The roofline of a step: FLOP per DRAM byte against achieved FLOP per second, on log axes.

One dot a distinct kernel, sized by its share of the step's time and coloured by what binds it;
a roof for each math class in use, and the slope of the DRAM bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose, sqrt
from typing import Any

from reports.breakdown import GroupTotal, StepBreakdown, math_classes
from reports.figure_style import layout, log_axis
from reports.palette import MUTED
from reports.quantity import share_text
from reports.roofline_dots import (
    SMALLEST_SHARE,
    Span,
    achieved_per_s,
    dot_names,
    draw_dots,
    intensity,
)
from simulator.basis.units import format_rate
from simulator.cost.result import StepResult

_SAME = 0.05  # closer than this, two dots on axes of several decades are one


def distinct_kernels(breakdown: StepBreakdown) -> tuple[GroupTotal, ...]:
    """Groups such as `experts_down (csa, hca)` and `sparse_attention (swa)`, largest part first.

    A name is split by kind of layer where the kinds differ in FLOP per byte or in FLOP per second.
    """
    kernels = breakdown.result.kernels
    single = [f"{kernel.name} ({kernel.kind})" for kernel in kernels]
    groups = {group.key: group for group in breakdown.group_by(single)}
    clusters: dict[str, list[tuple[GroupTotal, list[str]]]] = {}
    for name, kind in dict.fromkeys((kernel.name, kernel.kind) for kernel in kernels):
        group = groups[f"{name} ({kind})"]
        for first, kinds in clusters.setdefault(name, []):
            if _alike(first, group):
                kinds.append(kind)
                break
        else:
            clusters[name].append((group, [kind]))
    merged = {
        f"{name} ({kind})": f"{name} ({', '.join(kinds)})"
        for name, found in clusters.items()
        for _, kinds in found
        for kind in kinds
    }
    return breakdown.group_by([merged[key] for key in single])


def _alike(a: GroupTotal, b: GroupTotal) -> bool:
    # Compared as products, so that a group without bytes or time needs no division.
    return isclose(a.total_flops * b.dram_bytes, b.total_flops * a.dram_bytes, rel_tol=_SAME) and (
        isclose(a.total_flops * b.duration_ps, b.total_flops * a.duration_ps, rel_tol=_SAME)
    )


_CAPTION = (
    "One dot an operation, and one a kind of layer where the work differs. Its area is its share "
    f"of the step; all under {100 * SMALLEST_SHARE:.1f} % are drawn alike. Point at a dot, or "
    "tap it, for its name and numbers."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The figure, how to read it, and in words what the axes have no place for."""

    figure: dict[str, Any]
    caption: str
    remarks: tuple[str, ...]


def roofline(result: StepResult, breakdown: StepBreakdown) -> Roofline | None:
    """Figure and caption; None where no kernel has both FLOP and DRAM bytes."""
    groups = distinct_kernels(breakdown)
    placed = [g for g in groups if g.total_flops and g.dram_bytes and g.duration_ps]
    if not placed:
        return None
    roofs = _roofs(result)
    span = _span(placed, roofs, result.peaks.dram_bytes_per_s)
    lines = _roof_lines(roofs, result.peaks.dram_bytes_per_s, span)
    dots = draw_dots(placed, result)
    axes = layout(
        height=460,
        x=log_axis("FLOP per DRAM byte", "", *span.x),
        y=log_axis("achieved rate", "FLOP/s", *span.y),
    )
    figure = {"data": [*lines, *dots.traces], "layout": {**axes, "annotations": dots.annotations}}
    return Roofline(
        figure=figure,
        caption=_CAPTION,
        remarks=_remarks(result, groups, placed),
    )


def _roofs(result: StepResult) -> dict[str, float]:
    """Peaks of the math classes in use that the chip states."""
    peaks = result.peaks.matrix_flops_per_s
    return {name: peaks[name] for name in math_classes(result) if name in peaks}


def _span(placed: Sequence[GroupTotal], roofs: Mapping[str, float], dram_per_s: float) -> Span:
    intensities = [intensity(group) for group in placed]
    rates = [achieved_per_s(group) for group in placed]
    highest = max(roofs.values(), default=0.0)
    return Span(
        x=(min(intensities) / 3, max(*intensities, highest / dram_per_s) * 6),
        y=(min(rates) / 4, max(*rates, highest) * 4),
    )


def _roof_lines(roofs: Mapping[str, float], dram_per_s: float, span: Span) -> list[dict[str, Any]]:
    low, high = span.x
    corner = max(roofs.values(), default=high * dram_per_s) / dram_per_s
    # A line with text in its middle needs a point there; on log axes that is the geometric mean.
    points = [low, sqrt(low * corner), corner] if corner > low else []
    slope = _line(points, [x * dram_per_s for x in points])
    slope["text"] = ["", f"DRAM {format_rate(dram_per_s)}  ", ""]
    lines = [slope]
    for peak in dict.fromkeys(roofs.values()):
        names = "/".join(name for name, other in roofs.items() if other == peak)
        line = _line([max(low, peak / dram_per_s), high], [peak, peak])
        line["text"] = ["", f"{names} {format_rate(peak, 'FLOP/s')}"]
        lines.append(line)
    return lines


def _line(x: list[float], y: list[float]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+text",
        "x": x,
        "y": y,
        "line": {"color": MUTED, "width": 1.5},
        "textposition": "top left",
        "textfont": {"color": MUTED, "size": 11},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _remarks(
    result: StepResult, groups: Sequence[GroupTotal], placed: Sequence[GroupTotal]
) -> tuple[str, ...]:
    """Everything of the step that the axes cannot show, and what the dots do not say."""
    remarks = []
    names = dot_names(placed)
    if hidden := [names[group.key] for group in placed if not group.critical_ps]:
        remarks.append(
            f"Open circles are hidden, they run beside something longer: {', '.join(hidden)}."
        )
    for lacking, left in _left_out(groups).items():
        share = share_text(sum(group.critical_ps for group in left), result.total_ps)
        remarks.append(
            f"Not on these axes, without {lacking}: {_names(left)} ({share} of the step)."
        )
    unknown = [name for name in math_classes(result) if name not in result.peaks.matrix_flops_per_s]
    if unknown:
        remarks.append(f"No roof: {result.peaks.name} states no peak for {', '.join(unknown)}.")
    return tuple(remarks)


def _left_out(groups: Sequence[GroupTotal]) -> dict[str, list[GroupTotal]]:
    """Groups that log axes cannot show, by what they lack."""
    left: dict[str, list[GroupTotal]] = {}
    for group in groups:
        if not group.total_flops:
            left.setdefault("matrix FLOP", []).append(group)
        elif not group.dram_bytes:
            left.setdefault("DRAM bytes", []).append(group)
        elif not group.duration_ps:
            left.setdefault("time", []).append(group)
    return left


def _names(groups: Sequence[GroupTotal]) -> str:
    return ", ".join(dict.fromkeys(dot_names(groups).values()))
