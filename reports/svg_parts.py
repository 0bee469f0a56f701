"""Parts of a drawn figure: texts, paths, words of marks, and boxes that must not meet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from math import hypot
from typing import Any

from reports.palette import GRID, INK, MUTED
from reports.svg_axes import formatted, line_px, text_px

Box = tuple[float, float, float, float]  # left, top, right, bottom, downwards
FONT = 12
# Where a name may stand, in order of preference, and how far beyond its mark.
_DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))
_DISTANCES = (0, 10, 22, 38, 58, 82)
_VARIABLES = {
    INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--line)", "#ffffff": "var(--paper)"
}  # fmt: skip
_DASHES = {"dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3"}


def named_values(bar: Mapping[str, Any]) -> tuple[Sequence[Any], Sequence[float]]:
    """Names of a bar trace and their values, whichever way its bars lie."""
    return (bar["y"], bar["x"]) if bar.get("orientation") == "h" else (bar["x"], bar["y"])


def stacked_sums(bars: Sequence[Mapping[str, Any]]) -> dict[Any, float]:
    """Sums of bars on each other, by name."""
    sums: dict[Any, float] = {}
    for bar in bars:
        for name, value in zip(*named_values(bar), strict=True):
            sums[name] = sums.get(name, 0.0) + value
    return sums


def is_shown(trace: Mapping[str, Any], meta: str) -> bool:
    """Whether a trace is drawn: in a view of a `meta` those of it and those of none."""
    if meta:
        return not trace.get("meta") or trace["meta"] == meta
    return trace.get("visible", True) is not False


def value_at(value: Any, index: int) -> Any:
    """One value for all marks, or that of one mark."""
    return value if isinstance(value, str | int | float) else value[index]


def page_color(color: str) -> str:
    """A colour as the page's style has it."""
    return _VARIABLES.get(color.lower(), color)


def stroke_of(line: Mapping[str, Any]) -> str:
    """The attributes of a line."""
    dash = _DASHES.get(line.get("dash", "solid"))
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f' stroke="{page_color(line["color"])}" stroke-width="{line.get("width", 2)}"{dashes}'


def legend_key(trace: Mapping[str, Any], x: float, y: float) -> str:
    """What stands before a name in the legend."""
    color = trace.get("line", {}).get("color") or trace.get("marker", {}).get("color") or INK
    if not isinstance(color, str):
        color = color[0]
    if "fillcolor" in trace and not trace.get("line", {}).get("width", 2):
        color = trace["fillcolor"]
        return f'<rect x="{x:.1f}" y="{y - 5:.1f}" width="18" height="10" fill="{color}"/>'
    if trace["type"] == "bar":
        return (
            f'<rect x="{x:.1f}" y="{y - 5:.1f}" width="18" height="10" fill="{page_color(color)}"/>'
        )
    if "lines" not in trace.get("mode", "lines"):
        return f'<circle cx="{x + 9:.1f}" cy="{y:.1f}" r="5" fill="{page_color(color)}"/>'
    line = {"width": 2, **trace.get("line", {}), "color": color}
    return f'<path d="M{x:.1f} {y:.1f}h18" fill="none"{stroke_of(line)}/>'


def text_element(
    x: float, y: float, text: str, size: float = FONT, anchor: str = "start",
    color: str = INK, full: str = "", kind: str = "",
) -> str:  # fmt: skip
    """A text; `full` is what is said of one that was cut, when pointed at."""
    plain = unescape(text)  # names come as they stand in HTML, or as they are
    told = f"<title>{escape(full)}</title>" if full and full != text else ""
    named = f' class="{kind}"' if kind else ""
    aligned = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"{aligned}{named} '
        f'fill="{page_color(color)}">{told}{escape(plain)}</text>'
    )


def cut_text(text: str, room_px: float, size: float) -> str:
    """The text, or what there is room for with three dots."""
    if text_px(text, size) <= room_px:
        return text
    most = max(1, int(room_px / text_px("m", size)) - 1)
    # Names of one kind differ at their end.
    return f"…{text[-most:]}" if "." in text else f"{text[:most].rstrip()}…"


def words_attribute(words: str) -> str:
    """The attribute by which a mark speaks."""
    lines = escape(words).replace("\n", "&#10;")
    return f' data-t="{lines}"' if words else ""


def words_of(trace: Mapping[str, Any], index: int) -> str:
    """What a mark says when pointed at: the trace's hover template, lines apart by newlines."""
    template = trace.get("hovertemplate", "")
    if not template:
        return ""

    def filled(match: re.Match[str]) -> str:
        name, _, form = match.group(1).partition(":")
        values = trace.get(name)
        value = "" if values is None else value_at(values, index)
        return formatted(value, form) if not isinstance(value, str) else value

    text = re.sub(r"%\{([^}]+)\}", filled, template.partition("<extra>")[0])
    return unescape(re.sub(r"</?b>", "", text.replace("<br>", "\n")))


def line_path(points: Sequence[tuple[int, float, float] | None], stepped: bool, plot: Box) -> str:
    """Lines through the points that lie near the plot; broken where there is none."""
    left, right = plot[0] - 4, plot[2] + 4
    parts: list[str] = []
    pen = "M"
    before: tuple[int, float, float] | None = None
    for place, point in enumerate(points):
        if point is None:
            pen = "M"
            continue
        _, x, y = point
        after = points[place + 1] if place + 1 < len(points) else None
        outside = (x < left and (after is None or after[1] < left)) or (
            x > right and before is not None and before[1] > right
        )
        if outside:
            before = point
            continue
        if pen == "L" and stepped:
            parts.append(f"H{x:.1f}V{y:.1f}")
        else:
            parts.append(f"{pen}{x:.1f} {y:.1f}")
        pen, before = "L", point
    return "".join(parts)


def step_corners(
    points: Sequence[tuple[int, float, float]], stepped: bool, plot: Box
) -> list[tuple[float, float]]:
    """Corners of a line through points, of steps where it is stepped."""
    found: list[tuple[float, float]] = []
    for _, x, y in points:
        if stepped and found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found


def line_boxes(start: tuple[float, float], end: tuple[float, float]) -> list[Box]:
    """A straight line as points without extent."""
    count = max(1, int(hypot(end[0] - start[0], end[1] - start[1]) / 5))
    steps = [i / count for i in range(count + 1)]
    points = [
        (start[0] + (end[0] - start[0]) * s, start[1] + (end[1] - start[1]) * s) for s in steps
    ]
    return [(x, y, x, y) for x, y in points]


def is_inside(box: Box, outer: Box) -> bool:
    """Whether a box lies within another."""
    return outer[0] <= box[0] and outer[1] <= box[1] and box[2] <= outer[2] and box[3] <= outer[3]


def meets_any(box: Box, others: Sequence[Box]) -> bool:
    """Whether a box meets one of others, of which some are points without extent."""
    return any(
        box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3]
        if o[0] < o[2] else box[0] <= o[0] <= box[2] and box[1] <= o[1] <= box[3]
        for o in others
    )  # fmt: skip


def is_same_box(box: Box, own: Box) -> bool:
    """Whether a box is that of the point's own mark."""
    middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    return (
        abs(middle[0] - (own[0] + own[2]) / 2) < 0.5
        and abs(middle[1] - (own[1] + own[3]) / 2) < 0.5
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name may stand: its anchor, its box, and the line that leads to it from afar."""

    x: float
    y: float
    anchor: str
    box: Box
    line: tuple[tuple[float, float], tuple[float, float]] | None = None


def ends_of_line(x: float, y: float, text: str, size: float) -> Iterator[Place]:
    """Places above a line that ends at a point, the nearest first."""
    wide, high = text_px(text, size), line_px(size)
    for lift in (4, 18, 32):
        box = (x - wide - 4, y - lift - high, x - 4, y - lift)
        yield Place(x - 4, y - lift - 4, "end", box)


def places_around(x: float, y: float, text: str, size: float, reach: float) -> Iterator[Place]:
    """Places round a mark of a radius, the nearest first."""
    wide, high = text_px(text, size), line_px(size)
    for distance in _DISTANCES:
        for right, down in _DIRECTIONS:
            long = hypot(right, down)
            far = (reach + 3 + distance) / long
            at_x, tip_y = x + right * far, y + down * far
            at_y = tip_y + down * high / 2 * (not right)
            left = at_x - {1: 0.0, 0: wide / 2, -1: wide}[right]
            box = (left, at_y - high / 2, left + wide, at_y + high / 2)
            edge = (x + right * reach / long, y + down * reach / long)
            anchor = {1: "start", 0: "middle", -1: "end"}[right]
            yield Place(at_x, at_y + 4, anchor, box, (edge, (at_x, tip_y)) if distance else None)
