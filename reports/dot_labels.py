"""Places for the names of dots, so that no two lie on each other; far ones get a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot

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
            yield place, box, _along(dot, reach * right, reach * up) if distance else []


def _along(dot: Dot, x_px: float, y_px: float) -> list[Box]:
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
