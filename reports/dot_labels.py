"""Places for the names of dots, so that no two lie on each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_CHARACTER_PX = 6.2
_LINE_PX = 14
_PREFERENCE = (
    "middle right",
    "bottom center",
    "top center",
    "middle left",
    "bottom right",
    "bottom left",
    "top left",
    "top right",
)
_Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A dot to name: its centre and diameter in pixels, y upwards."""

    name: str
    x_px: float
    y_px: float
    size_px: float


def label_places(dots: Sequence[Dot], unnamed: Sequence[Dot] = ()) -> list[str]:
    """Plotly text position of each name, empty where none is free; earlier dots choose first."""
    taken = [_around(dot) for dot in (*dots, *unnamed)]
    places = []
    for dot in dots:
        others = [box for box in taken if box != _around(dot)]
        free = [
            (place, box)
            for place, box in _candidates(dot).items()
            if not any(_overlap(box, other) for other in others)
        ]
        place, box = free[0] if free else ("", _around(dot))
        taken.append(box)
        places.append(place)
    return places


def _candidates(dot: Dot) -> dict[str, _Box]:
    width, reach = _CHARACTER_PX * len(dot.name), dot.size_px / 2 + 3
    x, y, half = dot.x_px, dot.y_px, _LINE_PX / 2
    rows = {
        "middle": (y - half, y + half),
        "bottom": (y - reach - _LINE_PX, y - reach),
        "top": (y + reach, y + reach + _LINE_PX),
    }
    columns = {
        "right": (x + reach, x + reach + width),
        "center": (x - width / 2, x + width / 2),
        "left": (x - reach - width, x - reach),
    }
    boxes = {}
    for place in _PREFERENCE:
        row, column = place.split()
        (low, high), (left, right) = rows[row], columns[column]
        boxes[place] = (left, low, right, high)
    return boxes


def _around(dot: Dot) -> _Box:
    half = dot.size_px / 2
    return dot.x_px - half, dot.y_px - half, dot.x_px + half, dot.y_px + half


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
