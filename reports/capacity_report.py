"""A capacity answer as a report: memory of one chip by term, limits, and what would free most."""

from __future__ import annotations

from typing import Any

from reports.capacity_text import (
    as_if_of,
    capacity_assumptions,
    capacity_tables,
    capacity_to_json,
    change_rows,
    terms_text,
)
from reports.figure_style import axis, layout
from reports.palette import POOL_COLORS, WORKSPACE_COLOR
from reports.quantity import number_text
from reports.report import Card, Field, Figure, Report, ReportTable, Said, Section
from reports.report_tables import of_columns
from simulator.basis.units import format_bytes
from simulator.capacity.capacity import Capacity
from simulator.capacity.verdict import GIB, Verdict
from simulator.engine.default_engine import engine_text

_TERM_COLORS = ("#3d4f6b", WORKSPACE_COLOR, *POOL_COLORS)
_SHOWN_CHANGES = 10


def capacity_report(capacity: Capacity, verdict: Verdict) -> Report:
    """The report; what a terminal prints has its own, denser form."""
    question = capacity.question
    tables = [
        of_columns(f"table-{number}", title, columns)
        for number, (title, columns) in enumerate(capacity_tables(capacity), 1)
    ]
    memory, *pools, limits = tables
    sections = [
        Section(id="memory", title=memory.title, parts=(_memory(capacity), memory)),
        Section(id="limits", title=limits.title, parts=(_limits(capacity), limits)),
        Section(id="request", title="What a request holds", parts=tuple(pools),
                texts=(terms_text(capacity),)),
    ]  # fmt: skip
    if verdict.found:
        sections.append(
            Section(
                id="changes",
                title="What would free most",
                parts=(_changes(capacity, verdict), _change_table(capacity, verdict)),
            )
        )
    stages = f", pp{question.stages} (stage {capacity.stage + 1} binds)" * (question.stages > 1)
    return Report(
        kind="capacity",
        title=f"Capacity of {question.config.name} on {question.chips} x {question.chip.name}",
        kicker=f"capacity · {question.config.name} on {question.chips} x {question.chip.name}, "
        f"{question.parallel}{stages} · {engine_text(question.engine)}, cache "
        f"{question.formats.kv}, index {question.formats.index}, experts "
        f"{question.formats.expert}",
        answer=verdict.sentence[:1].upper() + verdict.sentence[1:].rstrip(".") + ".",
        said=tuple(Said(text=f"{text[:1].upper()}{text[1:]}.") for text in as_if_of(capacity)),
        cards=(
            Card(label="requests at once", value=number_text(capacity.requests)),
            Card(label="tokens at once", value=f"{capacity.tokens:,}"),
            Card(label="binds", value=capacity.binding.name.replace(" ", "\u00a0")),
            Card(label="cache budget of a chip", value=format_bytes(capacity.budget_bytes)),
        ),
        data=capacity_to_json(capacity, verdict),
        sections=tuple(sections),
        main_table="changes-table" if verdict.found else "",
        assumptions=capacity_assumptions(capacity),
        units="1 GiB = 2³⁰ bytes, 1 MB = 10⁶ bytes. Bytes are those of one chip, requests of all "
        "replicas.",
    )


def _memory(capacity: Capacity) -> Figure:
    """One bar: what a chip's memory holds."""
    chip = capacity.question.chip
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": term.name,
            "y": [chip.name],
            "x": [term.nbytes / GIB],
            "marker": {"color": _TERM_COLORS[place % len(_TERM_COLORS)]},
            "text": [f"{term.name}: {format_bytes(term.nbytes)}, {term.about}"],
            "textposition": "none",
            "hovertemplate": "%{text}",
        }
        for place, term in enumerate(capacity.terms)
        if term.nbytes
    ]
    shape = layout(height=130, x=axis("GiB of one chip", exponentformat="none"), y=axis("chip"))
    return Figure(
        id="memory-figure",
        title="Memory of one chip",
        drawing={"data": data, "layout": {**shape, "barmode": "stack"}},
    )


def _limits(capacity: Capacity) -> Figure:
    """A dot a limit on an axis of decades; the one at the left binds."""
    limits = sorted(capacity.limits, key=lambda own: -own.requests)
    wanted = capacity.question.wanted_requests
    data = []
    for name, color, own in (
        ("binds", "#d55e00", limits[-1:]),
        ("does not bind", "#0072b2", limits[:-1]),
    ):
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [max(limit.requests, 0.01) for limit in own],
                "y": [limit.name for limit in own],
                "text": [f"{x.name}: {x.requests:,.2f} requests ({x.about})" for x in own],
                "marker": {"color": color, "size": 13},
                "hovertemplate": "%{text}",
            }
        )
    shape: dict[str, Any] = layout(
        height=90 + 30 * len(limits),
        x=axis("requests at once", type="log", tickformat=","),
        y=axis("limit", categories=[limit.name for limit in limits]),
    )
    if wanted:
        line = {"color": "#1c2430", "width": 2, "dash": "dash"}
        ends = {"x0": wanted, "x1": wanted, "y0": 0, "y1": 1, "yref": "paper"}
        shape["shapes"] = [{"type": "line", "line": line, **ends}]
    return Figure(
        id="limits-figure",
        title="Requests that each limit allows",
        note=f"The leftmost dot binds.{f' Dashed: the {wanted:,} wanted.' if wanted else ''}",
        drawing={"data": data, "layout": shape},
    )


def _changes(capacity: Capacity, verdict: Verdict) -> Figure:
    """Requests after single changes, the most at the top."""
    found = sorted(verdict.found, key=lambda own: own.requests)[-_SHOWN_CHANGES:]
    names = ["as it is", *(own.option for own in found)]
    values = [capacity.requests, *(own.requests for own in found)]
    texts = [f"{name}: {value:,.2f} requests" for name, value in zip(names, values, strict=True)]
    shape = layout(
        height=80 + 28 * len(names),
        x=axis("requests at once", rangemode="tozero", exponentformat="none"),
        y=axis("change"),
    )
    return Figure(
        id="changes-figure",
        title="Requests after one change",
        drawing={
            "data": [_lying(names, values, "#009e73", texts)],
            "layout": {**shape, "showlegend": False},
        },
    )


def _lying(names: list[str], values: list[float], color: str, texts: list[str]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": "requests",
        "y": names,
        "x": values,
        "marker": {"color": color},
        "text": texts,
        "textposition": "none",
        "hovertemplate": "%{text}",
    }


def _change_table(capacity: Capacity, verdict: Verdict) -> ReportTable:
    rows = change_rows(capacity, verdict.found)
    columns = [list(column) for column in zip(*rows, strict=True)]
    requests = [own.requests for own in verdict.found]
    return ReportTable(
        id="changes-table",
        title="All single changes that help",
        fields=(
            Field(name="change", heading="change", values=columns[0]),
            Field(name="requests", heading="requests", values=requests,
                  show=lambda value: f"{value:,.2f}"),
            Field(name="against_now", heading="against now", values=columns[2], is_text=False),
            Field(name="about", heading="what it is", values=columns[3]),
        ),
    )  # fmt: skip
