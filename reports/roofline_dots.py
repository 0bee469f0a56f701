"""The dots of a roofline: where a kernel lies, its size, its name, and what it says pointed at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import log10, sqrt
from typing import Any

from reports.answer import RESOURCE_NAMES
from reports.breakdown import GroupTotal
from reports.palette import RESOURCE_COLORS
from reports.peak_shares import dram_share_text, matrix_share_text
from reports.quantity import count_text, rate_text, share_text
from simulator.basis.units import format_rate, format_time_ps
from simulator.cost.result import StepResult

_LARGEST_DOT_PX = 64
_SMALLEST_DOT_PX = 7
# A dot that covers less of the step than this is drawn no smaller.
SMALLEST_SHARE = (_SMALLEST_DOT_PX / _LARGEST_DOT_PX) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Ends of both log axes: FLOP per byte, and FLOP per second."""

    x: tuple[float, float]
    y: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """Traces of all dots, and names, the largest part of the step first."""

    traces: list[dict[str, Any]]
    annotations: list[dict[str, Any]]


def intensity(group: GroupTotal) -> float:
    """FLOP per DRAM byte."""
    return group.total_flops / group.dram_bytes


def achieved_per_s(group: GroupTotal) -> float:
    """FLOP per second of the launches' own time."""
    return group.total_flops * 10**12 / group.duration_ps


def draw_dots(groups: Sequence[GroupTotal], result: StepResult) -> Dots:
    """One trace for each resource that binds a kernel. Hidden kernels are open circles, unnamed."""
    traces = []
    for resource, label in RESOURCE_NAMES.items():
        bound = [group for group in groups if group.bound == resource]
        if bound:
            trace = _trace(bound, result, RESOURCE_COLORS[resource])
            traces.append({**trace, "name": label})
    names = dot_names(groups)
    shown = sorted((g for g in groups if g.critical_ps), key=lambda group: -group.critical_ps)
    return Dots(
        traces=traces,
        annotations=[_annotation(group, names[group.key], result) for group in shown],
    )


def dot_names(groups: Sequence[GroupTotal]) -> dict[str, str]:
    """Names by key: without the kinds of layer, unless only they tell two dots apart."""
    short = {group.key: group.key.rsplit(" (", 1)[0] for group in groups}
    times = Counter(short.values())
    return {key: name if times[name] == 1 else key for key, name in short.items()}


def _trace(groups: Sequence[GroupTotal], result: StepResult, color: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [intensity(group) for group in groups],
        "y": [achieved_per_s(group) for group in groups],
        "customdata": [_hover(group, result) for group in groups],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "color": color,
            "opacity": 0.75,
            "symbol": ["circle" if group.critical_ps else "circle-open" for group in groups],
            "size": [_size_px(group, result) for group in groups],
            "line": {
                "color": ["#ffffff" if group.critical_ps else color for group in groups],
                "width": 1,
            },
        },
    }


def _size_px(group: GroupTotal, result: StepResult) -> float:
    return max(_SMALLEST_DOT_PX, _LARGEST_DOT_PX * sqrt(group.critical_ps / result.total_ps))


def _annotation(group: GroupTotal, name: str, result: StepResult) -> dict[str, Any]:
    """A name for a dot, which keeps outside of it."""
    return {
        "x": log10(intensity(group)),
        "y": log10(achieved_per_s(group)),
        "text": escape(name),
        "standoff": _size_px(group, result) / 2,
    }


def _hover(group: GroupTotal, result: StepResult) -> str:
    launches = count_text(group.launches, "launch", "launches")
    about = result.abouts.get(group.key.rsplit(" (", 1)[0], "")
    part = (
        f"{share_text(group.critical_ps, result.total_ps)} of the step waits for it"
        if group.critical_ps
        else "hidden: the step does not wait for it"
    )
    lines = [
        f"<b>{escape(group.key)}</b>",
        escape(about),
        f"{launches}, {format_time_ps(group.duration_ps / group.launches)} on average",
        f"{format_time_ps(group.duration_ps)} in all; {part}",
        f"{format_rate(intensity(group), 'FLOP/B')}",
        f"matrix math {format_rate(achieved_per_s(group), 'FLOP/s')}, "
        f"{matrix_share_text(group, result.peaks, group.duration_ps)} of peak",
        f"DRAM {rate_text(group.dram_bytes, group.duration_ps, 'B/s')}, "
        f"{dram_share_text(group, result.peaks, group.duration_ps)} of peak",
        f"bound by {RESOURCE_NAMES[group.bound]}",
    ]
    return "<br>".join(line for line in lines if line)
