"""Steps side by side as a report: what was asked differently, and where the time differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reports.answer import CAUSE_NAMES, KIND_NAMES
from reports.certainty import interval_text
from reports.figure_style import axis, layout
from reports.palette import CAUSE_COLORS, POOL_COLORS
from reports.quantity import flops_text, number_text, traffic_text
from reports.report import Card, Cell, Field, Figure, Report, ReportTable, Said, Section
from simulator.basis.units import format_bytes, format_time_ps
from simulator.compare.comparison import CAUSE, KIND, OPERATION, Comparison, Row, Side
from simulator.kernels.causes import CAUSES
from simulator.kernels.standing import standing_warning

SCHEMA = "v4sim.compare/1"
_SHOWN = 14
_DRAWN = 12
_MARK = " *"
_AMOUNTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "launches": ("launches", lambda count: f"{count:,}"),
    "dram_bytes": ("DRAM traffic of a chip", traffic_text),
    "flops": ("matrix work of a chip", flops_text),
    "link_bytes": ("sent over links by a chip", traffic_text),
    "memory_bytes": ("memory held of a chip", format_bytes),
}


def compare_report(found: Comparison, left_out: Sequence[str] = ()) -> Report:
    """The report; `left_out` are sentences on what could not be compared."""
    warning = standing_warning(found.standings)
    first = found.sides[0]
    return Report(
        kind="compare",
        title=f"{first.asked.get('model', '')}: {' against '.join(s.name for s in found.sides)}",
        kicker=f"comparison of {len(found.sides)} {first.asked.get('phase', '')} steps",
        answer=compare_sentence(found),
        said=(Said(text=f"{warning}."),) if warning else (),
        cards=_cards(found),
        data=compare_json(found, left_out),
        sections=(
            Section(id="asked", title="What differs in the question", parts=(_asked(found),))
            if found.asked()
            else Section(id="asked", title="The questions are the same"),
            Section(id="result", title="What differs in the result", parts=(_result(found),)),
            Section(
                id="causes", title="By cause",
                parts=(_figure(found), _table(found, CAUSE, "by-cause", "cause", CAUSE_NAMES)),
            ),
            Section(
                id="operations", title="By operation",
                parts=(
                    _changes(found),
                    _table(found, OPERATION, "by-operation", "operation", {}),
                ),
            ),
            Section(
                id="kinds", title="By kind of layer",
                parts=(_table(found, KIND, "by-kind", "kind of layer", KIND_NAMES),),
            ),
            Section(id="every", title="Every part", parts=(_every(found),)),
        ),
        main_table="parts",
        notes=_notes(found, left_out),
        assumptions=(
            "The part of a launch that nothing covers has the causes of the whole launch.",
        ),
        units="Each instant counts for the launch that the end of the step waits for, and for what "
        "that launch waits for; differences by cause, operation or kind add up to those of the "
        "steps exactly. 1 GB = 10⁹ bytes.",
    )  # fmt: skip


def _notes(found: Comparison, left_out: Sequence[str]) -> tuple[str, ...]:
    """What times are taken as, by the sides that say so, and what was not compared."""
    names: dict[str, list[str]] = {}
    for side in found.sides:
        for note in side.notes:
            names.setdefault(note, []).append(side.name)
    said = [
        note if len(own) == len(found.sides) else f"{', '.join(own)}: {note}"
        for note, own in names.items()
    ]
    return (*said, *(f"not compared: {text}" for text in left_out))


def compare_sentence(found: Comparison) -> str:
    """How far another is from the first (of several, the fastest), and what most of that is."""
    first, *others = found.sides
    step = f"A {first.asked.get('phase', '')} step of {first.asked.get('model', 'a model')}"
    takes = f"{step} takes {format_time_ps(first.total_ps)} on {first.name}"
    side = min(others, key=lambda own: own.total_ps)
    place = found.sides.index(side)
    change_ps = side.total_ps - first.total_ps
    other = f"{format_time_ps(side.total_ps)} on {side.name}"
    if len(others) > 1:
        other += f", the fastest of {len(others)} others"
    operations = found.by(OPERATION)
    if not change_ps and not any(row.changes_ps[place] for row in operations):
        return f"{takes} and the same on {side.name}, part by part."
    most, where = (_most(rows, place, change_ps) for rows in (found.by(CAUSE), operations))
    return (
        f"{takes} and {other} ({percent_text(change_ps, first.total_ps)}): most of the difference "
        f"is {CAUSE_NAMES[most.name]} ({signed_text(most.changes_ps[place])}) and "
        f"{where.name} ({signed_text(where.changes_ps[place])})."
    )


def _most(rows: Sequence[Row], place: int, change_ps: int) -> Row:
    """What changes most in the direction of the whole."""
    sign = 1 if change_ps >= 0 else -1
    return max(rows, key=lambda row: sign * row.changes_ps[place])


def signed_text(change_ps: int) -> str:
    """A change with its sign; `no change` for none."""
    sign = "-" if change_ps < 0 else "+"
    return f"{sign}{format_time_ps(abs(change_ps))}" if change_ps else "no change"


def percent_text(change_ps: int, before_ps: int) -> str:
    """A change against what was before, in per cent; a dash where nothing was."""
    if not before_ps:
        return "–"
    percent = 100 * change_ps / before_ps
    if change_ps and abs(percent) < 0.05:
        return f"{'+' if change_ps > 0 else '-'}<0.1 %"
    return f"{percent:+.1f} %" if change_ps else "0 %"


def _cards(found: Comparison) -> tuple[Card, ...]:
    cards = []
    for place, side in enumerate(found.sides):
        change = percent_text(found.total.changes_ps[place], found.total.times_ps[0])
        label = side.name + (f": {change}" if place else "")
        cards.append(Card(label=label + _mark(found, side), value=format_time_ps(side.total_ps)))
    return tuple(cards)


def _mark(found: Comparison, side: Side) -> str:
    """A star at answers that rest on less than others."""
    several = len({standing.kind for standing in found.standings.values()}) > 1
    return _MARK if several and side.standing.kind != "calibrated" else ""


def _asked(found: Comparison) -> ReportTable:
    rows = found.asked()
    return ReportTable(
        id="inputs",
        title="",
        fields=(
            Field(name="field", heading="asked", values=[_words(name) for name, _ in rows]),
            *(
                Field(
                    name=f"side_{place + 1}",
                    heading=side.name,
                    values=[_said(values[place]) for _, values in rows],
                    rank=max(0, place - 1),
                )
                for place, side in enumerate(found.sides)
            ),
        ),
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _said(value: Any) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _result(found: Comparison) -> ReportTable:
    sides = found.sides
    rows: list[tuple[str, list[str]]] = [
        ("step", [format_time_ps(s.total_ps) for s in sides]),
        ("p10 to p90", [interval_text(s.low_ps, s.high_ps) for s in sides]),
        ("against the first", [signed_text(ps) for ps in found.total.changes_ps]),
        ("tokens/s", [number_text(s.tokens_per_s) for s in sides]),
    ]
    for name, (heading, show) in _AMOUNTS.items():
        rows.append((heading, [show(side.amounts[name]) for side in sides]))
    rows.append(("rests on", [side.standing.words or side.standing.kind for side in sides]))
    return ReportTable(
        id="results",
        title="",
        fields=(
            Field(name="figure", heading="result", values=[name for name, _ in rows]),
            *(
                Field(
                    name=f"side_{place + 1}",
                    heading=side.name + _mark(found, side),
                    values=[cells[place] for _, cells in rows],
                    rank=max(0, place - 1),
                )
                for place, side in enumerate(sides)
            ),
        ),
    )


def _table(
    found: Comparison, part: int, name: str, heading: str, names: dict[str, str]
) -> ReportTable:
    """Rows of one way to sum, and the steps below."""
    total = found.total
    rows = [*found.by(part), total]
    fields = [
        Field(name=heading.replace(" ", "_"), heading=heading,
              values=[names.get(row.name, row.name) for row in rows])
    ]  # fmt: skip
    for place, side in enumerate(found.sides):
        times: list[Cell] = [row.times_ps[place] for row in rows]
        fields.append(
            Field(name=f"side_{place + 1}_ps", heading=side.name, values=times, show=_time, rank=1)
        )
        if not place:
            continue
        changes: list[Cell] = [row.changes_ps[place] for row in rows]
        fields.append(
            Field(
                name=f"change_{place + 1}_ps",
                heading=f"{side.name}\nchange" if len(found.sides) > 2 else "change",
                values=changes,
                show=signed_text,
            )
        )
        shares: list[Cell] = [_share(row, place) for row in rows]
        fields.append(
            Field(
                name=f"change_{place + 1}_share",
                heading="in %",
                values=shares,
                show=_percent,
                rank=2,
            )
        )
    return ReportTable(id=name, title="", fields=tuple(fields), total=True, shown=_SHOWN)


def _every(found: Comparison) -> ReportTable:
    """Every operation of every kind of layer by every cause: what all other tables are sums of."""
    cells = sorted(found.cells(), key=lambda cell: -max(abs(t - cell[1][0]) for t in cell[1]))
    keys = [key for key, _ in cells]
    fields = [
        Field(name=name, heading=name.replace("_", " "), values=[key[place] for key in keys])
        for place, name in enumerate(("operation", "kind_of_layer", "cause"))
    ]
    for place, side in enumerate(found.sides):
        times: list[Cell] = [times[place] for _, times in cells]
        fields.append(
            Field(name=f"side_{place + 1}_ps", heading=side.name, values=times, show=_time)
        )
        if place:
            changes: list[Cell] = [times[place] - times[0] for _, times in cells]
            name = f"change_{place + 1}_ps"
            fields.append(Field(name=name, heading="change", values=changes, show=signed_text))
    return ReportTable(id="parts", title="Every part", fields=tuple(fields), shown=0)


def _time(time_ps: int) -> str:
    return format_time_ps(time_ps) if time_ps else "–"


def _share(row: Row, place: int) -> float | None:
    return row.changes_ps[place] / row.times_ps[0] if row.times_ps[0] else None


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %" if share else "0 %"


def _figure(found: Comparison) -> Figure:
    """A bar a side, divided by cause."""
    rows = {row.name: row for row in found.by(CAUSE)}
    sides = [side.name for side in reversed(found.sides)]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": CAUSE_NAMES[cause],
            "y": sides,
            "x": [time_ps * 1e-12 for time_ps in reversed(rows[cause].times_ps)],
            "marker": {"color": CAUSE_COLORS[cause]},
            "text": sides,
            "textposition": "none",
            "hovertemplate": "%{text}<br>" + CAUSE_NAMES[cause] + ": <b>%{x:.4s}s</b>",
        }
        for cause in CAUSES
        if cause in rows
    ]
    shape = layout(
        height=90 + 44 * len(sides),
        x=axis("time of the step by what it waits for", ticksuffix="s"),
        y=axis("step"),
    )
    return Figure(
        id="figure-causes",
        title="Time of the steps by cause",
        drawing={"data": data, "layout": {**shape, "barmode": "stack"}},
    )


def _changes(found: Comparison) -> Figure:
    """Changes of the operations that change most, the largest at the top."""
    rows = [row for row in found.by(OPERATION) if row.moved_ps][:_DRAWN]
    rows = rows or list(found.by(OPERATION)[:1])
    names = [row.name for row in reversed(rows)]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": side.name,
            "y": names,
            "x": [row.changes_ps[place] * 1e-12 for row in reversed(rows)],
            "marker": {"color": POOL_COLORS[(place - 1) % len(POOL_COLORS)]},
            "text": [f"{row.name}: {signed_text(row.changes_ps[place])}" for row in reversed(rows)],
            "textposition": "none",
            "hovertemplate": "%{text}",
        }
        for place, side in enumerate(found.sides)
        if place
    ]
    several = len(found.sides) > 2
    shape = layout(
        height=80 + (16 + 8 * len(data)) * len(names),
        x=axis(f"change against {found.sides[0].name}", ticksuffix="s"),
        y=axis("operation"),
    )
    return Figure(
        id="figure-operations",
        title="What changes most",
        note=f"The {len(rows)} operations that change most; all are in the table below.",
        drawing={"data": data, "layout": {**shape, "barmode": "group", "showlegend": several}},
    )


def compare_json(found: Comparison, left_out: Sequence[str] = ()) -> dict[str, Any]:
    """Every part of every side in whole picoseconds."""
    warning = standing_warning(found.standings)
    return {
        "schema": SCHEMA,
        "answer": compare_sentence(found),
        "sides": [
            {
                "name": side.name,
                "question": dict(side.asked),
                "total_ps": side.total_ps,
                "change_ps": side.total_ps - found.sides[0].total_ps,
                "low_ps": side.low_ps,
                "high_ps": side.high_ps,
                "tokens_per_s": side.tokens_per_s,
                **side.amounts,
                "calibrated": side.calibrated,
                "rests_on": side.standing.words,
            }
            for side in found.sides
        ],
        "notes": list(_notes(found, ())),
        "input": [{"field": name, "values": list(values)} for name, values in found.asked()],
        **{
            key: [
                {"name": row.name, "times_ps": row.times_ps, "changes_ps": row.changes_ps}
                for row in found.by(part)
            ]
            for key, part in (("causes", CAUSE), ("operations", OPERATION), ("layer_kinds", KIND))
        },
        "parts": [
            {"operation": key[0], "kind": key[1], "cause": key[2], "times_ps": times}
            for key, times in found.cells()
        ],
        "warnings": [f"{warning}."] if warning else [],
        "not_compared": list(left_out),
    }
