"""The dots of a roofline: where a kernel lies, its size, its name, and what it says pointed at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import log10, sqrt
from typing import Any

from reports.answer import RESOURCE_NAMES
from reports.breakdown import GroupTotal
from reports.dot_labels import Box, Dot, Place, label_places, line_boxes, text_box
from reports.palette import INK, MUTED, RESOURCE_COLORS
from reports.peak_shares import dram_share_text, matrix_share_text
from reports.quantity import count_text, rate_text, share_text
from simulator.basis.units import format_rate, format_time_ps
from simulator.cost.result import StepResult

_LARGEST_DOT_PX = 64
_SMALLEST_DOT_PX = 7
# What the plot measures on a wide screen; narrow ones show no names.
_PLOT_PX = (1108, 364)
# The buttons that the figure has in its upper right corner.
_BUTTONS_PX: Box = (_PLOT_PX[0] - 100, _PLOT_PX[1] - 24, *_PLOT_PX)
# A dot that covers less of the step than this is drawn no smaller.
SMALLEST_SHARE = (_SMALLEST_DOT_PX / _LARGEST_DOT_PX) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Ends of both log axes: FLOP per byte, and FLOP per second."""

    x: tuple[float, float]
    y: tuple[float, float]

    def place_px(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies on a wide screen, from the lower left."""
        return _PLOT_PX[0] * _along(x, self.x), _PLOT_PX[1] * _along(y, self.y)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """Traces and names of all dots, and the names of those without room for one."""

    traces: list[dict[str, Any]]
    annotations: list[dict[str, Any]]
    unnamed: list[str]


def intensity(group: GroupTotal) -> float:
    """FLOP per DRAM byte."""
    return group.total_flops / group.dram_bytes


def achieved_per_s(group: GroupTotal) -> float:
    """FLOP per second of the launches' own time."""
    return group.total_flops * 10**12 / group.duration_ps


def draw_dots(
    groups: Sequence[GroupTotal],
    result: StepResult,
    span: Span,
    roofs: Sequence[Mapping[str, Any]],
) -> Dots:
    """One trace for each resource that binds a kernel; the largest dots carry names.

    Hidden kernels are open circles without a name. Names keep off the lines of the roofs.
    """
    traces = []
    for resource, label in RESOURCE_NAMES.items():
        bound = [group for group in groups if group.bound == resource]
        if bound:
            trace = _trace(bound, result, RESOURCE_COLORS[resource])
            traces.append({**trace, "name": label})
    names = dot_names(groups)
    places = _name_places(groups, names, result, span, roofs)
    return Dots(
        traces=traces,
        annotations=[
            _annotation(group, names[group.key], place, result)
            for group, place in places
            if place is not None
        ],
        unnamed=[names[group.key] for group, place in places if place is None],
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


def _name_places(
    groups: Sequence[GroupTotal],
    names: Mapping[str, str],
    result: StepResult,
    span: Span,
    roofs: Sequence[Mapping[str, Any]],
) -> list[tuple[GroupTotal, Place | None]]:
    """Places for the names of all that are not hidden, the largest part of the step first."""
    shown = sorted((g for g in groups if g.critical_ps), key=lambda group: -group.critical_ps)
    hidden = [group for group in groups if not group.critical_ps]
    dots = []
    for group in (*shown, *hidden):
        x_px, y_px = span.place_px(intensity(group), achieved_per_s(group))
        size_px = _size_px(group, result)
        dots.append(Dot(name=names[group.key], x_px=x_px, y_px=y_px, size_px=size_px))
    places = label_places(
        dots[: len(shown)],
        dots[len(shown) :],
        texts=[_BUTTONS_PX, *_roof_texts(roofs, span)],
        lines=_roof_lines(roofs, span),
        within=(0, 0, *_PLOT_PX),
    )
    return list(zip(shown, places, strict=True))


def _roof_texts(roofs: Sequence[Mapping[str, Any]], span: Span) -> list[Box]:
    """What the texts of the roofs, which end above left of their points, take up."""
    return [
        text_box(text, *span.place_px(x, y))
        for roof in roofs
        for text, x, y in zip(roof["text"], roof["x"], roof["y"], strict=True)
        if text
    ]


def _roof_lines(roofs: Sequence[Mapping[str, Any]], span: Span) -> list[Box]:
    boxes = []
    for roof in roofs:
        points = [span.place_px(x, y) for x, y in zip(roof["x"], roof["y"], strict=True)]
        for start, end in pairwise(points):
            boxes += line_boxes(start, end)
    return boxes


def _annotation(group: GroupTotal, name: str, place: Place, result: StepResult) -> dict[str, Any]:
    """A name beside its dot, with a line to it from afar; plotly counts y downwards here."""
    return {
        "x": log10(intensity(group)),
        "y": log10(achieved_per_s(group)),
        "ax": place.x_px,
        "ay": -place.y_px,
        "text": escape(name),
        "font": {"size": 11, "color": INK},
        "xanchor": place.side,
        "yanchor": "middle",
        "borderpad": 0,
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 0.8,
        "arrowcolor": MUTED if place.line else "rgba(0,0,0,0)",
        "standoff": _size_px(group, result) / 2,
    }


def _along(value: float, ends: tuple[float, float]) -> float:
    return log10(value / ends[0]) / log10(ends[1] / ends[0])


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
