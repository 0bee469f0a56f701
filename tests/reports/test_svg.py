"""Figures as SVG: marks lie where their values are, texts keep apart, nothing is drawn outside."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.figure_style import axis, layout
from reports.svg import draw, standalone
from reports.svg_axes import make_axis, si_text

_SPACE = "{http://www.w3.org/2000/svg}"


def figure(data: list[dict[str, Any]], **shape: Any) -> dict[str, Any]:
    x, y = shape.pop("x", axis("size, B")), shape.pop("y", axis("time"))
    return {"data": data, "layout": {**layout(height=300, x=x, y=y), **shape}}


def scatter(x: list[Any], y: list[Any], **more: Any) -> dict[str, Any]:
    line = {"color": "#0072b2", "width": 2}
    return {"type": "scatter", "mode": "lines+markers", "x": x, "y": y, "line": line, **more}


def elements(svg: str, tag: str) -> list[ET.Element]:
    root = ET.fromstring(svg.replace("<svg ", f'<svg xmlns="{_SPACE[1:-1]}" ', 1))
    return list(root.iter(f"{_SPACE}{tag}"))


def test_marks_lie_where_their_values_are() -> None:
    svg = draw(figure([scatter([0, 5, 10], [0, 1, 4])]), 600).svg
    found = [(float(c.get("cx", 0)), float(c.get("cy", 0))) for c in elements(svg, "circle")]
    (x0, y0), (x1, y1), (x2, y2) = sorted(found)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert (y0 - y1) * 4 == pytest.approx(y0 - y2, abs=0.5)


def test_a_logarithmic_axis_has_equal_decades() -> None:
    data = [scatter([1, 10, 100, 1000], [1, 1, 1, 1])]
    svg = draw(figure(data, x=axis("size", type="log")), 800).svg
    found = sorted(float(circle.get("cx", 0)) for circle in elements(svg, "circle"))
    steps = [b - a for a, b in pairwise(found)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)


def test_what_has_no_place_is_left_out_and_breaks_the_line() -> None:
    svg = draw(figure([scatter([1, 2, 3, 4, 5], [1, 2, None, 2, 1])]), 600).svg
    assert len(elements(svg, "circle")) == 4
    line = next(p for p in elements(svg, "path") if p.get("stroke") == "#0072b2")
    assert (line.get("d") or "").count("M") == 2
    log = draw(figure([scatter([0, 10], [1, 1])], x=axis("size", type="log")), 600).svg
    assert len(elements(log, "circle")) == 1


def test_stacked_bars_begin_where_the_one_before_ends() -> None:
    bars = [
        {"type": "bar", "name": n, "orientation": "h", "y": ["a", "b"], "x": v,
         "marker": {"color": c}}
        for n, v, c in (("one", [1.0, 2.0], "#111111"), ("two", [3.0, 1.0], "#222222"))
    ]  # fmt: skip
    svg = draw(figure(bars, barmode="stack"), 600).svg
    rects = {
        color: [
            r for r in elements(svg, "rect") if r.get("fill") == color and r.get("height") != "10"
        ]
        for color in ("#111111", "#222222")
    }
    for first, second in zip(rects["#111111"], rects["#222222"], strict=True):
        end = float(first.get("x", 0)) + float(first.get("width", 0))
        assert end == pytest.approx(float(second.get("x", 0)), abs=0.2)


def test_marks_say_their_values() -> None:
    hover = "%{text}<br><b>%{y:.1%}</b> at %{x:.3s}s<extra></extra>"
    svg = draw(
        figure([scatter([0.002], [0.25], text=["a &lt;b&gt;"], hovertemplate=hover)]), 600
    ).svg
    told = [circle.get("data-t") for circle in elements(svg, "circle")]
    assert told == ["a <b>\n25.0% at 2 ms"]


def test_names_cannot_break_out() -> None:
    name = '</title><script>"&'
    svg = draw(figure([scatter([1, 2], [1, 2], name=name), scatter([1], [1], name="b")]), 600, name)
    assert "<script" not in svg.svg
    assert name in {text.text for text in elements(svg.svg, "text")}


def test_a_file_of_its_own_is_whole_and_light() -> None:
    svg = standalone(figure([scatter([1, 2], [1, 2], name="a"), scatter([1], [1], name="b")]), "T")
    assert "var(" not in svg
    assert ET.fromstring(svg).tag == f"{_SPACE}svg"


@given(
    st.lists(st.floats(1e-6, 1e9), min_size=2, max_size=30),
    st.sampled_from([344, 620, 1180]),
    st.booleans(),
)
@settings(max_examples=40)
def test_ticks_keep_apart_and_inside(values: list[float], width: int, logarithmic: bool) -> None:
    kind = {"type": "log"} if logarithmic else {}
    data = [scatter(values, list(range(len(values))))]
    svg = draw(figure(data, x=axis("size", ticksuffix="B", **kind)), width).svg
    texts = [t for t in elements(svg, "text") if t.get("text-anchor") == "middle"]
    ticks = [t for t in texts if t.get("class") == "tick-x"]
    boxes = sorted((float(t.get("x", 0)), 3.0 * len(t.text or "")) for t in ticks)
    assert boxes
    for (x, half), (other, other_half) in pairwise(boxes):
        assert x + half <= other - other_half
    assert all(0 <= x <= width for x, _ in boxes)


def test_ticks_are_told_exactly() -> None:
    share = make_axis(axis("share", tickformat=".0%"), [0, 0.175], 350, 40, zero=True)
    assert [tick.text for tick in share.ticks][:3] == ["0.0%", "2.5%", "5.0%"]
    time = make_axis(axis("time", ticksuffix="s"), [0, 0.0175], 750, 90, zero=True)
    assert [tick.text for tick in time.ticks][-1] == "17.5 ms"
    assert si_text(4.8e12, "B/s") == "4.8 TB/s"
    assert si_text(0.00012, "s") == "120 µs"
    assert si_text(999.96, "B", 3) == "1 kB"


def test_every_name_has_a_place_or_is_told() -> None:
    notes = [{"x": 0.5, "y": 0.5, "text": f"a long name {n}", "standoff": 4} for n in range(40)]
    drawn = draw(figure([scatter([0, 1], [0, 1])], annotations=notes), 344)
    shown = re.findall(r">a long name (\d+)<", drawn.svg)
    assert len(shown) + len(drawn.unnamed) == 40
    assert drawn.unnamed
