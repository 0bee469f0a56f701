"""The page of C4 entries on the host: answer, gain by overlap, buffer and context, hits, tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from reports.figure_style import axis, layout
from reports.offload_json import offload_to_json
from reports.offload_tables import offload_tables
from reports.offload_text import (
    offload_answer,
    picks_sentence,
    turning_sentences,
)
from reports.palette import INK, MUTED
from reports.report import Figure, Report, Section
from reports.report_page import write_report_page
from reports.report_tables import of_columns
from simulator.offload.published import HISPARSE, WHY
from simulator.offload.study import OffloadStudy

_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b8a100", "#8d95a1")
_NO_BOX = "<extra></extra>"


def write_offload_page(path: Path, study: OffloadStudy, command: str) -> None:
    """Write the page whole or not at all."""
    write_report_page(path, offload_report(study), command)


def offload_report(study: OffloadStudy) -> Report:
    """The report of C4 entries kept on the host."""
    question = study.question
    captions = {
        "gain": (
            "Gain by what consecutive queries pick in common",
            "Throughput with C4 entries on the host against on the device, each at its largest "
            f"batch, requests of {question.last_context:,} tokens; a line a buffer. Below 1 the "
            "offload loses.",
        ),
        "contexts": (
            "Gain by length of a request",
            "With the picks and the buffer asked for; and with no more requests than fit on the "
            "device.",
        ),
        "hits": (
            "Picks that the buffer holds",
            "Recorded runs of a model replayed through exact LRU (solid), and the closed form at "
            "the recorded overlap with no early returns (dashed).",
        ),
    }
    figures = tuple(
        Figure(id=name, title=captions[name][0], note=captions[name][1], drawing=drawing)
        for name, drawing in offload_figures(study).items()
    )
    tables = tuple(
        of_columns(f"table-{n}", title, columns)
        for n, (title, columns) in enumerate(offload_tables(study), 1)
    )
    published = (f"Published: {HISPARSE.source}. {WHY}",) if study.published else ()
    return Report(
        kind="offload",
        title="C4 entries on the host",
        kicker=f"C4 entries on the host · engine {question.step.question.engine}",
        answer=offload_answer(study),
        basis=(
            *(f"{sentence}." for sentence in study.priced_as),
            picks_sentence(study),
            *turning_sentences(study),
        ),
        data=offload_to_json(study, "stated"),
        sections=(
            Section(id="gains", title="Where it gains", parts=figures),
            Section(id="tables", title="Tables", parts=tables),
        ),
        notes=published,
        assumptions=study.assumptions,
        units="1 GB = 10⁹ bytes. One C4 entry stands for four tokens. Times are those of the "
        "busiest chip.",
    )


def offload_figures(study: OffloadStudy) -> dict[str, dict[str, Any]]:
    """Figures by name; those without a point are left out."""
    figures = {"gain": _gain(study), "contexts": _contexts(study), "hits": _hits(study)}
    return {name: figure for name, figure in figures.items() if figure["data"]}


def _gain(study: OffloadStudy) -> dict[str, Any]:
    sizes = sorted({point.buffer_entries for point in study.grid})
    data = []
    for size, color in zip(sizes, _COLORS, strict=False):
        points = [p for p in study.grid if p.buffer_entries == size and p.gain is not None]
        if not points:
            continue
        times = size / study.question.top_k
        asked = size == study.question.buffer_entries
        name = f"{times:g} x top-k ({size:,} entries, {points[0].requests:,} requests)"
        text = f"buffer {name}<br>overlap %{{x:.1%}}: gain <b>%{{y:.3f}}</b>{_NO_BOX}"
        line = {"color": color, "width": 3 if asked else 1.5}
        x, y = [p.overlap for p in points], [_rounded(p.gain) for p in points]
        data.append(_line(name, x, y, line, text))
    shares = axis("picks that the query before had", range=[-0.02, 1.02], tickformat=".0%")
    return _with_even(data, shares, [0, 1])


def _contexts(study: OffloadStudy) -> dict[str, Any]:
    shown = sorted((*study.contexts, study.asked), key=lambda one: one.context_tokens)
    shown = [one for one in shown if one.gain is not None]
    if len(shown) < 2:
        return {"data": []}
    x = [one.context_tokens for one in shown]
    box = f"%{{x:,}} tokens: <b>%{{y:.3f}}</b>{_NO_BOX}"
    data = [
        _line(
            "largest batch of each",
            x,
            [_rounded(one.gain) for one in shown],
            {"color": INK, "width": 2.5},
            box,
        ),
        _line(
            "the device's batch on both",
            x,
            [_rounded(one.same_batch_gain) for one in shown],
            {"color": _COLORS[4], "width": 1.5, "dash": "dash"},
            box,
        ),
    ]
    ticks = {"tickvals": x, "ticktext": [f"{tokens:,}" for tokens in x]}
    return _with_even(data, axis("tokens of a request", type="log", **ticks), [min(x), max(x)])


def _with_even(data: list[Any], x: dict[str, Any], ends: Sequence[float]) -> dict[str, Any]:
    """Lines of gains with one at 1."""
    if not data:
        return {"data": []}
    even = {
        "type": "scatter",
        "mode": "lines",
        "x": list(ends),
        "y": [1, 1],
        "line": {"color": MUTED, "width": 1, "dash": "dot"},
        "name": "neither gain nor loss",
        "hoverinfo": "skip",
    }
    y = axis("times the throughput on the device", rangemode="tozero")
    return {"data": [*data, even], "layout": layout(height=400, x=x, y=y)}


def _hits(study: OffloadStudy) -> dict[str, Any]:
    data = []
    for one, color in zip(study.reuse, _COLORS, strict=False):
        x = [point.buffer_entries / one.top_k for point in one.points]
        for name, dash, missed in (
            (f"{one.source}, {one.overlap:.0%} shared", "solid", [p.missed for p in one.points]),
            (f"{one.source}, closed form", "dash", [p.stated for p in one.points]),
        ):
            text = f"{escape(name)}<br>%{{x:g}} x top-k: hits <b>%{{y:.1%}}</b>{_NO_BOX}"
            line = {"color": color, "width": 2, "dash": dash}
            data.append(_line(name, x, [round(1 - share, 4) for share in missed], line, text))
    if not data:
        return {"data": []}
    y = axis("picks that are in the buffer", range=[0, 1.02], tickformat=".0%")
    return {"data": data, "layout": layout(height=380, x=axis("buffer, x top-k"), y=y)}


def _line(
    name: str, x: Sequence[float], y: Sequence[float | None], line: dict[str, Any], box: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": line,
        "hovertemplate": box,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
