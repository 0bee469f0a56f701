"""Runs of one command side by side as a report: their totals by part, which add up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reports.compare_report import percent_text, signed_text
from reports.figure_style import axis, layout
from reports.palette import POOL_COLORS
from reports.quantity import number_text
from reports.report import Card, Cell, Field, Figure, Report, ReportTable, Section
from simulator.basis.units import format_bytes, format_time_ps
from simulator.compare.comparison import Row
from simulator.compare.runs import BYTES, DOLLARS, TIME, RunComparison, RunSide

SCHEMA = "v4sim.compare-runs/1"


def _dollars(nano: int) -> str:
    return f"${nano / 1e9:,.4g}"


_SHOW: dict[str, Callable[[int], str]] = {
    TIME: format_time_ps,
    DOLLARS: _dollars,
    BYTES: format_bytes,
}
# What a unit is divided by in figures, and the suffix of its axis.
_AXIS = {TIME: (1e12, "s", "time"), DOLLARS: (1e9, "", "USD"), BYTES: (2**30, "", "GiB")}


def runs_report(found: RunComparison) -> Report:
    """The report of a comparison of runs."""
    first = found.sides[0]
    sections = [
        Section(id="asked", title="What differs in the question", parts=(_asked(found),))
        if found.asked()
        else Section(id="asked", title="The questions are the same"),
        Section(id="result", title="What differs in the result", parts=(_result(found),)),
    ]
    for place, total in enumerate(first.totals):
        if any(sum(side.totals[place].parts.values()) for side in found.sides):
            parts = (_figure(found, place), _parts(found, place))
            title = f"{total.name[:1].upper()}{total.name[1:]}"
            sections.append(Section(id=f"total-{place + 1}", title=title, parts=parts))
    return Report(
        kind="compare-runs",
        title=f"{first.kind}: {' against '.join(side.name for side in found.sides)}",
        kicker=f"comparison of {len(found.sides)} runs of v4sim {first.kind}",
        answer=runs_sentence(found),
        cards=_cards(found),
        data=_data(found),
        sections=tuple(sections),
        main_table="part-1",
        units="Differences of the parts add up to the difference of the totals exactly. A whole "
        "answer is from the moment the client sends to the last token."
        if first.kind == "serve"
        else "Differences of the parts add up to the difference of the totals exactly.",
    )


def signed(unit: str, change: int) -> str:
    """A change of a total with its sign; `no change` for none."""
    if unit == TIME:
        return signed_text(change)
    sign = "-" if change < 0 else "+"
    return f"{sign}{_SHOW[unit](abs(change))}" if change else "no change"


def runs_sentence(found: RunComparison) -> str:
    """How far the others' totals are from the first's, and which part is most of that."""
    first, *others = found.sides
    said = []
    for place, total in enumerate(first.totals):
        *parts, whole = found.rows(place)
        if not any(whole.times_ps):
            continue
        show = _SHOW[total.unit]
        for number, side in enumerate(others, 1):
            change = whole.changes_ps[number]
            text = (
                f"{total.name}: {show(whole.times_ps[0])} in {first.name} and "
                f"{show(whole.times_ps[number])} in {side.name} "
                f"({percent_text(change, whole.times_ps[0])})"
            )
            if any(row.changes_ps[number] for row in parts):
                most = _most(parts, number, change)
                moved = signed(total.unit, most.changes_ps[number])
                text += f", most of it {most.name} ({moved})"
            said.append(text)
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}."


def _most(rows: list[Row], number: int, change: int) -> Row:
    sign = 1 if change >= 0 else -1
    return max(rows, key=lambda row: sign * row.changes_ps[number])


def _cards(found: RunComparison) -> tuple[Card, ...]:
    total = found.sides[0].totals[0]
    whole = found.rows(0)[-1]
    return tuple(
        Card(
            label=side.name
            + (f": {percent_text(whole.changes_ps[n], whole.times_ps[0])}" if n else ""),
            value=_SHOW[total.unit](whole.times_ps[n]),
            about=total.name,
        )
        for n, side in enumerate(found.sides)
    )


def _of_sides(found: RunComparison, cells: Callable[[int, RunSide], list[Cell]]) -> list[Field]:
    return [
        Field(name=f"side_{n + 1}", heading=side.name, values=cells(n, side), rank=max(0, n - 1))
        for n, side in enumerate(found.sides)
    ]


def _asked(found: RunComparison) -> ReportTable:
    rows = found.asked()
    return ReportTable(
        id="inputs",
        title="",
        fields=(
            Field(name="field", heading="asked", values=[name for name, _ in rows]),
            *_of_sides(found, lambda n, _: [_said(values[n]) for _, values in rows]),
        ),
    )


def _said(value: Any) -> str:
    if isinstance(value, float):
        return number_text(value)
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _result(found: RunComparison) -> ReportTable:
    names = list(found.sides[0].figures)
    return ReportTable(
        id="results",
        title="",
        fields=(
            Field(name="figure", heading="result", values=list(names)),
            *_of_sides(found, lambda _, side: [_said(side.figures.get(name)) for name in names]),
        ),
    )


def _parts(found: RunComparison, place: int) -> ReportTable:
    """Parts of a total, and the total below."""
    total = found.sides[0].totals[place]
    rows = found.rows(place)
    unit = {TIME: "ps", DOLLARS: "nano_usd", BYTES: "bytes"}[total.unit]
    show = _SHOW[total.unit]
    fields = [Field(name="part", heading="part", values=[row.name for row in rows])]
    for number, side in enumerate(found.sides):
        values: list[Cell] = [row.times_ps[number] for row in rows]
        fields.append(
            Field(name=f"side_{number + 1}_{unit}", heading=side.name, values=values, show=show)
        )
        if number:
            changes: list[Cell] = [row.changes_ps[number] for row in rows]
            heading = f"{side.name}\nchange" if len(found.sides) > 2 else "change"
            fields.append(
                Field(
                    name=f"change_{number + 1}_{unit}",
                    heading=heading,
                    values=changes,
                    show=lambda change: signed(total.unit, change),
                )
            )
    return ReportTable(id=f"part-{place + 1}", title="", fields=tuple(fields), total=True)


def _figure(found: RunComparison, place: int) -> Figure:
    """A bar a run, divided by part."""
    total = found.sides[0].totals[place]
    divisor, suffix, words = _AXIS[total.unit]
    sides = [side.name for side in reversed(found.sides)]
    *rows, _ = found.rows(place)
    names = list(dict.fromkeys(name for side in found.sides for name in side.totals[place].parts))
    order = {name: number for number, name in enumerate(names)}
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": row.name,
            "y": sides,
            "x": [value / divisor for value in reversed(row.times_ps)],
            "marker": {"color": POOL_COLORS[order[row.name] % len(POOL_COLORS)]},
            "text": [f"{row.name}: {_SHOW[total.unit](v)}" for v in reversed(row.times_ps)],
            "textposition": "none",
            "hovertemplate": "%{text}",
        }
        for row in sorted(rows, key=lambda row: order[row.name])
    ]
    shape = layout(
        height=90 + 44 * len(sides),
        x=axis(f"{total.name}, {words}", ticksuffix=suffix),
        y=axis("run"),
    )
    return Figure(
        id=f"figure-{place + 1}",
        title=f"{total.name[:1].upper()}{total.name[1:]} by part",
        drawing={"data": data, "layout": {**shape, "barmode": "stack", "showlegend": True}},
    )


def _data(found: RunComparison) -> dict[str, Any]:
    """Every part of every total in whole units."""
    return {
        "schema": SCHEMA,
        "answer": runs_sentence(found),
        "sides": [
            {"name": side.name, "kind": side.kind, "figures": dict(side.figures)}
            for side in found.sides
        ],
        "input": [{"field": name, "values": list(values)} for name, values in found.asked()],
        "totals": [
            {
                "name": total.name,
                "unit": total.unit,
                "parts": [
                    {"name": row.name, "values": row.times_ps, "changes": row.changes_ps}
                    for row in found.rows(place)[:-1]
                ],
                "values": found.rows(place)[-1].times_ps,
                "changes": found.rows(place)[-1].changes_ps,
            }
            for place, total in enumerate(found.sides[0].totals)
        ],
    }
