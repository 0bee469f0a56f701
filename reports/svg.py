"""Figures as SVG, drawn without a browser: lines, markers, steps, fills, bars, texts and legends.

A figure is a plotly dictionary of these parts: traces of type `scatter` (modes of lines, markers
and text; `line.shape` `hv`; `fill` to zero or to the trace before) and `bar` (upright in groups or
stacked, or lying), linear, logarithmic and named axes, lines across as `shapes`, and names of
points as `annotations`. What is drawn is measured first, so that no two texts lie on each other;
names without a place are told instead. Colours are variables of the page's style.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import pairwise
from typing import Any

from reports.palette import GRID, INK, MUTED
from reports.svg_axes import apart, line_px, make_axis, text_px
from reports.svg_parts import (
    FONT,
    Box,
    cut_text,
    ends_of_line,
    is_inside,
    is_same_box,
    is_shown,
    legend_key,
    line_boxes,
    line_path,
    meets_any,
    named_values,
    page_color,
    places_around,
    stacked_sums,
    step_corners,
    stroke_of,
    text_element,
    value_at,
    words_attribute,
    words_of,
)

_SMALL = 11
_LIGHT = {"--ink": INK, "--muted": MUTED, "--line": GRID, "--paper": "#ffffff"}
# Beyond so many, marks of a trace are one path without words of their own.
MOST_TOLD = 240


@dataclass(slots=True)
class Drawn:
    """SVG of one width, and the names of points that have no place there."""

    svg: str
    unnamed: list[str] = field(default_factory=list)


def standalone(drawing: Mapping[str, Any], title: str, width: int = 900) -> str:
    """The figure as an SVG file in the light colours."""
    svg = draw(drawing, width, title).svg
    svg = re.sub(r"var\((--\w+)\)", lambda match: _LIGHT[match.group(1)], svg)
    start = '<svg xmlns="http://www.w3.org/2000/svg" '
    return svg.replace("<svg ", start, 1).replace(
        "<title>", f'<rect width="100%" height="100%" fill="{_LIGHT["--paper"]}"/><title>', 1
    )


def draw(
    drawing: Mapping[str, Any],
    width: int,
    title: str = "",
    span: tuple[float, float] | None = None,
    meta: str = "",
    key: str = "figure",
) -> Drawn:
    """The figure at a width in pixels; `span` are the ends of x, `meta` the traces that show.

    `key` tells it apart from other figures of the same page.
    """
    return _Drawing(drawing, width, span, meta).draw(title, key)


class _Drawing:
    """One figure being drawn: what lies where, so that texts keep apart."""

    def __init__(
        self, drawing: Mapping[str, Any], width: int, span: tuple[float, float] | None, meta: str
    ) -> None:
        self.layout = drawing["layout"]
        self.traces = [t for t in drawing["data"] if is_shown(t, meta)]
        self.lying = any(trace.get("orientation") == "h" for trace in self.traces)
        self.stacked = self.layout.get("barmode") == "stack"
        self.bars = [trace for trace in self.traces if trace["type"] == "bar"]
        self.width, self.span = width, span
        self.height = float(self.layout["height"])
        self.parts: list[str] = []
        self.taken: list[Box] = []
        self.lines: list[Box] = []
        self.over: list[str] = []  # texts that stand over the marks
        self.slanted = False
        self.names_points = bool(self.layout.get("annotations")) or any(
            "text" in trace.get("mode", "") for trace in self.traces
        )
        self.unnamed: list[str] = []

    def draw(self, title: str, key: str) -> Drawn:
        legend = self._legend()
        self._axes(top=legend[1])
        self._frame()
        for shape in self.layout.get("shapes", ()):
            self._shape(shape)
        inner, self.parts = self.parts, []
        for index, trace in enumerate(self.traces):
            if trace["type"] == "bar":
                self._bar(index, trace)
            else:
                self._scatter(index, trace)
        clip = f"clip-{key}"
        x, y, right, bottom = self.plot
        marks = "".join(self.parts)
        self.parts = []
        self._texts()
        label = f' aria-label="{escape(title)}"' if title else ""
        return Drawn(
            f'<svg viewBox="0 0 {self.width} {self.height:.0f}" width="{self.width}" '
            f'height="{self.height:.0f}" role="img"{label} font-family="system-ui, -apple-system, '
            f"'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif\" font-size=\"{FONT}\" "
            f'fill="var(--ink)"><title>{escape(title)}</title>{legend[0]}{"".join(inner)}'
            f'<clipPath id="{clip}"><rect x="{x:.1f}" y="{y - 8:.1f}" width="{right - x + 8:.1f}" '
            f'height="{bottom - y + 16:.1f}"/></clipPath><g class="marks" '
            f'clip-path="url(#{clip})">{marks}</g>{"".join(self.parts)}</svg>',
            self.unnamed,
        )

    # Around the plot

    def _legend(self) -> tuple[str, float]:
        """Entries in rows above the plot, and where these end."""
        named = [t for t in self.traces if t.get("name") and t.get("showlegend", True)]
        if not self.layout.get("showlegend", len(named) > 1 or self._some_named(named)):
            return "", 0.0
        x, row, parts = 0.0, 0, []
        step = line_px(FONT) + 3
        for trace in named:
            name = trace["name"]
            wide = 26 + text_px(name, FONT) + 14
            if x and x + wide > self.width:
                x, row = 0.0, row + 1
            y = row * step + step / 2
            parts.append(
                f"{legend_key(trace, x, y)}{text_element(x + 24, y + 4, name, anchor='start')}"
            )
            x += wide
        return f'<g class="legend">{"".join(parts)}</g>', (row + 1) * step + 4

    def _some_named(self, named: Sequence[Any]) -> bool:
        return bool(named) and len(self.traces) > len(named)

    def _axes(self, top: float) -> None:
        x_spec, y_spec = dict(self.layout["xaxis"]), dict(self.layout["yaxis"])
        if self.span is not None:
            x_spec["range"] = self.span
        across, up = self._values("x"), self._values("y")
        # A line across is seen whole, wherever the data end.
        across += [
            shape["x0"]
            for shape in self.layout.get("shapes", ())
            if shape.get("yref") == "paper" and not any(isinstance(v, str) for v in across)
        ]
        if self.stacked and self.bars:
            sums = list(stacked_sums(self.bars).values())
            across, up = (across + sums, up) if self.lying else (across, up + sums)
        zero = bool(self.bars)
        self.height += top
        top += line_px(FONT) + 10 if y_spec.get("title", {}).get("text") else 6
        bottom = self.height - 44
        self.y = make_axis(y_spec, up, bottom - top, 40, zero=zero and not self.lying)
        left = 10 + max((text_px(tick.text, _SMALL) for tick in self.y.ticks), default=0)
        left = min(left, self.width * 0.42)
        right = self.width - 14
        widest = 0.0
        for gap in (90.0, 120.0, 160.0, 220.0, 300.0):
            self.x = make_axis(x_spec, across, right - left, gap, zero=zero and self.lying)
            widest = max((text_px(tick.text, _SMALL) for tick in self.x.ticks), default=0)
            if self.x.names or self._apart(left, right):
                break
        if not self.x.names:
            places = [left + self.x.at(tick.value) * (right - left) for tick in self.x.ticks]
            halves = [text_px(tick.text, _SMALL) / 2 for tick in self.x.ticks]
            self.x = replace(self.x, ticks=apart(self.x.ticks, places, halves, 8))
        if not self.y.names:
            places = [self.y.at(tick.value) * (bottom - top) for tick in self.y.ticks]
            halves = [line_px(_SMALL) / 2] * len(places)
            self.y = replace(self.y, ticks=apart(self.y.ticks, places, halves, 3))
        self.slanted = False
        if self.x.names:
            each = (right - left) / len(self.x.names)
            self.slanted = widest > each - 6
            if self.slanted:
                more = min(widest * 0.72, 150)
                self.height += more
        self.plot = (left, top, right, bottom)

    def _apart(self, left: float, right: float) -> bool:
        ends = [
            (left + self.x.at(tick.value) * (right - left), text_px(tick.text, _SMALL) / 2)
            for tick in self.x.ticks
        ]
        return all(b[0] - b[1] - a[0] - a[1] > 8 for a, b in pairwise(ends))

    def _values(self, name: str) -> list[Any]:
        own = self.span if name == "x" and self.span else None
        return [
            value
            for trace in self.traces
            for value in trace[name]
            if value is not None and (own is None or own[0] <= value <= own[1])
        ]

    def _frame(self) -> None:
        left, top, right, bottom = self.plot
        grid = []
        for tick in self.y.ticks:
            y = self._y(tick.value)
            grid.append(f"M{left:.1f} {y:.1f}H{right:.1f}")
            if self.y.names:
                name = cut_text(tick.text, left - 10, _SMALL)
                self.parts.append(
                    text_element(left - 6, y + 4, name, _SMALL, "end", MUTED, tick.text)
                )
            else:
                self.parts.append(
                    text_element(left - 6, y + 4, tick.text, _SMALL, "end", MUTED, kind="tick-y")
                )
        for tick in self.x.ticks:
            x = self._x(tick.value)
            if not self.x.names:
                grid.append(f"M{x:.1f} {top:.1f}V{bottom:.1f}")
            if self.slanted:
                own = text_element(x + 4, bottom + 14, tick.text, _SMALL, "end", MUTED)
                turn = f'<text transform="rotate(-45 {x + 4:.1f} {bottom + 14:.1f})" '
                self.parts.append(own.replace("<text ", turn, 1))
                continue
            half = text_px(tick.text, _SMALL) / 2
            x = min(max(x, half), self.width - half)
            kind = "" if self.x.names else "tick-x"
            self.parts.append(
                text_element(x, bottom + 16, tick.text, _SMALL, "middle", MUTED, kind=kind)
            )
        self.parts.insert(0, f'<path d="{"".join(grid)}" stroke="var(--line)" fill="none"/>')
        self.parts.append(f'<path d="M{left:.1f} {bottom:.1f}H{right:.1f}" stroke="var(--muted)"/>')
        if self.lying and self.x.low < 0 < self.x.high:
            x = self._x(0.0)
            self.parts.append(f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="var(--muted)"/>')
        if self.y.title:
            title = cut_text(self.y.title, self.width, FONT)
            self.parts.append(text_element(0, top - 9, title, FONT, "start", MUTED, kind="axis-y"))
        if self.x.title:
            title = cut_text(self.x.title, self.width, FONT)
            y = self.height - 8
            x = max((left + right) / 2, text_px(title, FONT) / 2)
            self.parts.append(text_element(x, y, title, FONT, "middle", MUTED, kind="axis-x"))

    # In the plot

    def _x(self, value: Any) -> float:
        return self.plot[0] + self.x.at(value) * (self.plot[2] - self.plot[0])

    def _y(self, value: Any) -> float:
        return self.plot[3] - self.y.at(value) * (self.plot[3] - self.plot[1])

    def _shape(self, shape: Mapping[str, Any]) -> None:
        left, top, right, bottom = self.plot
        if shape.get("yref") == "paper":
            x = self._x(shape["x0"])
            path = f"M{x:.1f} {top:.1f}V{bottom:.1f}"
            inside = left - 1 <= x <= right + 1
            self.lines += line_boxes((x, top), (x, bottom))
        else:
            y = self._y(shape["y0"])
            path = f"M{left:.1f} {y:.1f}H{right:.1f}"
            inside = top - 1 <= y <= bottom + 1
            self.lines += line_boxes((left, y), (right, y))
        if inside:
            line = shape["line"]
            self.parts.append(f'<path d="{path}" fill="none"{stroke_of(line)}/>')

    def _points(self, trace: Mapping[str, Any]) -> list[tuple[int, float, float] | None]:
        """Index and place of each point; None where the line is broken."""
        found: list[tuple[int, float, float] | None] = []
        for index, (x, y) in enumerate(zip(trace["x"], trace["y"], strict=True)):
            placed = self.x.has(x) and self.y.has(y)
            found.append((index, self._x(x), self._y(y)) if placed else None)
        return found

    def _scatter(self, number: int, trace: Mapping[str, Any]) -> None:
        points = self._points(trace)
        mode = trace.get("mode", "lines")
        stepped = trace.get("line", {}).get("shape") == "hv"
        if "fill" in trace:
            self._fill(number, trace, points, stepped)
        if "lines" in mode and trace.get("line", {}).get("width", 2):
            path = line_path(points, stepped, self.plot)
            color = trace.get("line", {}).get("color", INK)
            line = {"width": 2, **trace.get("line", {}), "color": color}
            told = f' data-name="{escape(trace["name"])}"' if trace.get("name") else ""
            self.parts.append(
                f'<path d="{path}" fill="none" stroke-linejoin="round"{stroke_of(line)}{told}/>'
            )
            self._remember_line(points)
        if "markers" in mode or "hovertemplate" in trace:
            self._markers(number, trace, points, shown="markers" in mode)

    def _remember_line(self, points: Sequence[tuple[int, float, float] | None]) -> None:
        if len(points) > 400 or not self.names_points:
            return
        for a, b in pairwise(points):
            if a and b:
                self.lines += line_boxes((a[1], a[2]), (b[1], b[2]))

    def _fill(
        self, number: int, trace: Mapping[str, Any],
        points: Sequence[tuple[int, float, float] | None], stepped: bool,
    ) -> None:  # fmt: skip
        upper = line_path(points, stepped, self.plot)
        if not upper:
            return
        if trace["fill"] == "tonexty" and number:
            below = [p for p in self._points(self.traces[number - 1]) if p]
            corners = step_corners(below, stepped, self.plot)
        else:
            base = self.plot[3]
            placed = [p for p in points if p]
            corners = [(placed[0][1], base), (placed[-1][1], base)]
        back = "".join(f"L{x:.1f} {y:.1f}" for x, y in reversed(corners))
        color = trace.get("fillcolor", "rgba(0,114,178,0.18)")
        self.parts.append(f'<path d="{upper}{back}Z" fill="{color}"/>')

    def _markers(
        self,
        number: int,
        trace: Mapping[str, Any],
        points: Sequence[tuple[int, float, float] | None],
        *,
        shown: bool,
    ) -> None:
        marker = trace.get("marker", {})
        color = marker.get("color", trace.get("line", {}).get("color", INK))
        left, top, right, bottom = self.plot
        inside = [
            p for p in points
            if p and left - 9 <= p[1] <= right + 9 and top - 9 <= p[2] <= bottom + 9
        ]  # fmt: skip
        seen = shown and marker.get("opacity", 1) > 0
        size = marker.get("size", 6)
        if len(inside) > MOST_TOLD and isinstance(color, str):
            if seen:
                path = "".join(f"M{x:.0f} {y:.0f}h0" for _, x, y in inside)
                self.parts.append(
                    f'<path d="{path}" fill="none" stroke-linecap="round" '
                    f'stroke-width="{size}" stroke="{page_color(color)}" '
                    f'stroke-opacity="{marker.get("opacity", 1)}"/>'
                )
                return
            inside = inside[:: -(-len(inside) // MOST_TOLD)]
        for index, x, y in sorted(inside, key=lambda p: -value_at(size, p[0])):
            radius = value_at(size, index) / 2
            words = words_of(trace, index)
            told = words_attribute(words)
            if not seen:
                self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" opacity="0"{told}/>')
                continue
            self.taken.append((x - radius, y - radius, x + radius, y + radius))
            symbol, fill = (
                value_at(marker.get("symbol", "circle"), index),
                page_color(value_at(color, index)),
            )
            edge = marker.get("line", {})
            rim = page_color(value_at(edge["color"], index)) if edge else fill
            inner = "none" if symbol.endswith("-open") else fill
            border = f' stroke="{rim}" stroke-width="{edge.get("width", 1)}"' if edge else ""
            opacity = f' fill-opacity="{marker["opacity"]}"' if "opacity" in marker else ""
            self.parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{inner}"{border}'
                f"{opacity}{told}/>"
            )

    def _bar(self, number: int, trace: Mapping[str, Any]) -> None:
        place = self.bars.index(trace)
        side = 1 if self.stacked else len(self.bars)
        before = stacked_sums(self.bars[:place]) if self.stacked else {}
        names, values = named_values(trace)
        axis = self.y if self.lying else self.x
        ends = (self.plot[3], self.plot[1]) if self.lying else (self.plot[0], self.plot[2])
        each = abs(ends[1] - ends[0]) / max(1, len(axis.names) or len(names))
        thick = each * 0.76 / side
        for index, (name, value) in enumerate(zip(names, values, strict=True)):
            offset = 0.0 if self.stacked else (place - (side - 1) / 2) * thick
            base = before.get(name, 0.0)
            color = page_color(value_at(trace["marker"]["color"], index))
            told = words_attribute(words_of(trace, index))
            if self.lying:
                x0, x1 = sorted((self._x(base), self._x(base + value)))
                y = self._y(name) - thick / 2 + offset
                box = (x0, y, x1 - x0, thick)
                self._bar_text(trace, index, x1, y + thick / 2)
            else:
                y1, y0 = sorted((self._y(base), self._y(base + value)))
                x = self._x(name) - thick / 2 + offset
                box = (x, y1, thick, y0 - y1)
            self.parts.append(
                '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" '.format(*box)
                + f'fill="{color}"{told}/>'
            )

    def _bar_text(self, trace: Mapping[str, Any], index: int, x: float, y: float) -> None:
        texts = trace.get("text")
        if not texts or trace.get("textposition") == "none":
            return
        text = str(texts[index])
        wide = text_px(text, _SMALL)
        outside = x + 6 + wide <= self.width
        self.over.append(
            text_element(x + 5, y + 4, text, _SMALL, "start", INK) if outside
            else text_element(x - 5, y + 4, text, _SMALL, "end", "white")
        )  # fmt: skip

    # Names of points

    def _texts(self) -> None:
        """Texts of traces and names of points, each where nothing else is."""
        self.parts += self.over
        for trace in self.traces:
            if trace["type"] == "scatter" and "text" in trace.get("mode", ""):
                font = trace.get("textfont", {})
                self._trace_texts(trace, font.get("size", _SMALL), font.get("color", MUTED))
        for note in self.layout.get("annotations", ()):
            x = 10.0 ** note["x"] if self.x.logarithmic else note["x"]
            y = 10.0 ** note["y"] if self.y.logarithmic else note["y"]
            self._name(self._x(x), self._y(y), note["text"], note.get("standoff", 4), _SMALL, INK)

    def _trace_texts(self, trace: Mapping[str, Any], size: int, color: str) -> None:
        for index, x, y in filter(None, self._points(trace)):
            text = str(trace["text"][index]).strip()
            if text:
                marker = value_at(trace.get("marker", {}).get("size", 6), index)
                along = "markers" not in trace["mode"]
                self._name(x, y, text, marker / 2 + 3, size, color, along=along)

    def _name(
        self, x: float, y: float, text: str, reach: float, size: int, color: str,
        along: bool = False,
    ) -> None:  # fmt: skip
        """Text near a point; `along`: of a line that ends there, above left of it."""
        inner = (self.plot[0] + 2, self.plot[1] - 4, float(self.width), self.plot[3])
        own = (x - reach, y - reach, x + reach, y + reach)
        others = [box for box in self.taken if along or not is_same_box(box, own)]
        lines = [] if along else self.lines
        places = ends_of_line(x, y, text, size) if along else places_around(x, y, text, size, reach)
        for place in places:
            taken = meets_any(place.box, others) or meets_any(place.box, lines)
            if taken or not is_inside(place.box, inner):
                continue
            self.taken.append(place.box)
            if place.line:
                (x0, y0), (x1, y1) = place.line
                self.parts.append(
                    f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" stroke="var(--muted)" '
                    'stroke-width="0.8"/>'
                )
            self.parts.append(text_element(place.x, place.y, text, size, place.anchor, color))
            return
        self.unnamed.append(text)
