"""The dots of a roofline: where a kernel lies, its size, its name, and what it says pointed at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import hypot, log10, sqrt
from typing import Any

from reports.answer import RESOURCE_NAMES
from reports.breakdown import GroupTotal
from reports.palette import INK, MUTED, RESOURCE_COLORS
from reports.peak_shares import dram_share_text, matrix_share_text
from reports.quantity import count_text, rate_text, share_text
from simulator.basis.units import format_rate, format_time_ps
from simulator.cost.result import StepResult

_CHARACTER_PX = 6.3
_LINE_PX = 14
_GAP_PX = 3
# Directions in order of preference, y upwards; distances beyond the dot's edge.
_DIRECTIONS = ((1, 0), (0, -1), (0, 1), (-1, 0), (1, -1), (-1, -1), (-1, 1), (1, 1))
_DISTANCES_PX = (0, 14, 26, 40, 56, 74)
_LINE_STEP_PX = 4

Box = tuple[float, float, float, float]
"""Left, low, right, high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A dot to name: its centre and diameter in pixels, y upwards."""

    name: str
    x_px: float
    y_px: float
    size_px: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a name stands: the middle of its side next to the dot, relative to the dot's centre.

    `side` is the side of the text that is there: left, right or center; `line` says that the name
    stands so far away that a line should lead to it.
    """

    x_px: float
    y_px: float
    side: str
    line: bool


def label_places(
    dots: Sequence[Dot],
    unnamed: Sequence[Dot] = (),
    *,
    texts: Sequence[Box] = (),
    lines: Sequence[Box] = (),
    within: Box | None = None,
) -> list[Place | None]:
    """Place of each name, None where none is free; earlier dots choose first.

    Names keep off `texts` and `lines` that are there already; a line to a name may cross `lines`.
    """
    around = [_around(dot) for dot in (*dots, *unnamed)]
    names = list(texts)
    places: list[Place | None] = []
    for dot in dots:
        # A line may leave the dots that its own lies on.
        centre = (dot.x_px, dot.y_px, dot.x_px, dot.y_px)
        beside = [box for box in around if not _meets(centre, [box])]
        found = None
        for place, box, line in _candidates(dot):
            free = _inside(box, within) and not _meets(box, (*around, *names, *lines))
            if free and not any(_meets(point, (*beside, *names)) for point in line):
                found = place
                names += [box, *line]
                break
        places.append(found)
    return places


def text_box(text: str, right_px: float, y_px: float) -> Box:
    """What a text takes up that ends above and left of a point."""
    return (right_px - _CHARACTER_PX * len(text), y_px, right_px, y_px + _LINE_PX)


def line_boxes(start_px: tuple[float, float], end_px: tuple[float, float]) -> list[Box]:
    """What a straight line takes up, as points without extent."""
    (x0, y0), (x1, y1) = start_px, end_px
    count = max(1, int(hypot(x1 - x0, y1 - y0) / _LINE_STEP_PX))
    points = [(x0 + (x1 - x0) * i / count, y0 + (y1 - y0) * i / count) for i in range(count + 1)]
    return [(x, y, x, y) for x, y in points]


def _candidates(dot: Dot) -> Iterator[tuple[Place, Box, list[Box]]]:
    """Places from near to far, with the text's box and boxes along the line that leads there."""
    width, half = _CHARACTER_PX * len(dot.name), _LINE_PX / 2
    for distance in _DISTANCES_PX:
        for right, up in _DIRECTIONS:
            reach = (dot.size_px / 2 + _GAP_PX + distance) / hypot(right, up)
            x, y = reach * right, reach * up + (half * up if not right else 0)
            left = {1: x, 0: x - width / 2, -1: x - width}[right]
            box = (
                dot.x_px + left,
                dot.y_px + y - half,
                dot.x_px + left + width,
                dot.y_px + y + half,
            )
            side = {1: "left", 0: "center", -1: "right"}[right]
            place = Place(x_px=x, y_px=y, side=side, line=distance > 0)
            yield place, box, _way_along(dot, reach * right, reach * up) if distance else []


def _way_along(dot: Dot, x_px: float, y_px: float) -> list[Box]:
    """Points of the line between a dot's edge and a name, as boxes without extent."""
    edge = dot.size_px / 2 / hypot(x_px, y_px)
    start = dot.x_px + edge * x_px, dot.y_px + edge * y_px
    return line_boxes(start, (dot.x_px + x_px, dot.y_px + y_px))[:-1]


def _around(dot: Dot) -> Box:
    half = dot.size_px / 2
    return dot.x_px - half, dot.y_px - half, dot.x_px + half, dot.y_px + half


def _inside(box: Box, outer: Box | None) -> bool:
    return outer is None or (
        outer[0] <= box[0] and outer[1] <= box[1] and box[2] <= outer[2] and box[3] <= outer[3]
    )


def _meets(box: Box, others: Sequence[Box]) -> bool:
    return any(
        box[0] <= other[2] and other[0] <= box[2] and box[1] <= other[3] and other[1] <= box[3]
        for other in others
    )


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
