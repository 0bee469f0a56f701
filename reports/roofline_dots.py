"""The dots of a roofline: where a kernel lies, its size, and what it says when pointed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log10, sqrt
from typing import Any

from reports.answer import RESOURCE_NAMES
from reports.breakdown import GroupTotal
from reports.dot_labels import Dot, label_places
from reports.palette import INK, RESOURCE_COLORS
from reports.quantity import count_text, rate_text, share_text
from simulator.basis.units import format_rate, format_time_ps
from simulator.cost.result import StepResult

_LARGEST_DOT_PX = 64
_SMALLEST_DOT_PX = 7
_NAMED_SHARE = 0.03
# What the plot measures on a wide screen; narrow ones show no names.
_PLOT_PX = (950, 360)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Ends of both log axes: FLOP per byte, and FLOP per second."""

    x: tuple[float, float]
    y: tuple[float, float]


def intensity(group: GroupTotal) -> float:
    """FLOP per DRAM byte."""
    return group.total_flops / group.dram_bytes


def achieved_per_s(group: GroupTotal) -> float:
    """FLOP per second of the launches' own time."""
    return group.total_flops * 10**12 / group.duration_ps


def dot_traces(
    groups: Sequence[GroupTotal], result: StepResult, span: Span
) -> list[dict[str, Any]]:
    """One plotly trace for each resource that binds a kernel; large dots carry names."""
    places = _name_places(groups, result, span)
    traces = []
    for resource, label in RESOURCE_NAMES.items():
        bound = [group for group in groups if group.bound == resource]
        if bound:
            trace = _trace(bound, places, result)
            trace["name"] = label
            trace["marker"]["color"] = RESOURCE_COLORS[resource]
            traces.append(trace)
    return traces


def _trace(
    groups: Sequence[GroupTotal], places: Mapping[str, str], result: StepResult
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [intensity(group) for group in groups],
        "y": [achieved_per_s(group) for group in groups],
        "text": [escape(_name(group)) if places.get(group.key) else "" for group in groups],
        "textposition": [places.get(group.key) or "middle right" for group in groups],
        "textfont": {"size": 11, "color": INK},
        "customdata": [_hover(group, result) for group in groups],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "opacity": 0.75,
            "size": [_size_px(group, result) for group in groups],
            "line": {"color": "#ffffff", "width": 1},
        },
    }


def _name(group: GroupTotal) -> str:
    return group.key.rsplit(" (", 1)[0]


def _size_px(group: GroupTotal, result: StepResult) -> float:
    return max(_SMALLEST_DOT_PX, _LARGEST_DOT_PX * sqrt(group.duration_ps / result.total_ps))


def _name_places(groups: Sequence[GroupTotal], result: StepResult, span: Span) -> dict[str, str]:
    groups = sorted(groups, key=lambda group: -group.duration_ps)
    dots = [
        Dot(
            name=_name(group),
            x_px=_PLOT_PX[0] * _along(intensity(group), span.x),
            y_px=_PLOT_PX[1] * _along(achieved_per_s(group), span.y),
            size_px=_size_px(group, result),
        )
        for group in groups
    ]
    named = sum(group.duration_ps >= _NAMED_SHARE * result.total_ps for group in groups)
    places = label_places(dots[:named], dots[named:])
    return {group.key: place for group, place in zip(groups, places, strict=False)}


def _along(value: float, ends: tuple[float, float]) -> float:
    return log10(value / ends[0]) / log10(ends[1] / ends[0])


def _hover(group: GroupTotal, result: StepResult) -> str:
    dram = rate_text(group.dram_bytes, group.duration_ps, "B/s")
    of_peak = share_text(
        group.dram_bytes * 10**12, result.peaks.dram_bytes_per_s * group.duration_ps
    )
    mean_ps = group.duration_ps / group.launches
    launches = count_text(group.launches, "launch", "launches")
    return "<br>".join(
        [
            f"<b>{escape(group.key)}</b>",
            f"{escape(group.first_path)}{' and so on' if group.launches > 1 else ''}",
            f"{launches}, {format_time_ps(mean_ps)} on average",
            f"{format_time_ps(group.duration_ps)} in all, "
            f"{share_text(group.duration_ps, result.total_ps)} of the step",
            f"{format_rate(intensity(group), 'FLOP/B')}, "
            f"{format_rate(achieved_per_s(group), 'FLOP/s')}",
            f"DRAM {dram}, {of_peak} of peak",
            f"bound by {RESOURCE_NAMES[group.bound]}",
        ]
    )
