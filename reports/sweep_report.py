"""A sweep as a report: the best point, the Pareto front by chip and engine, and all points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwmodels.chip import find_chip
from reports.plan_figures import Dot, pareto_figures
from reports.quantity import count_text, number_text
from reports.report import Card, Cell, Field, Figure, Report, ReportTable, Said, Section
from reports.sweep_text import cell, is_good, sweep_answer, sweep_notes, varied
from simulator.engine.profile import find_profile
from simulator.kernels.constants_file import chips_warning
from simulator.serve.scenario import Scenario
from simulator.sweep.grid import Axis
from simulator.sweep.point import Point
from simulator.sweep.row import HOURS_A_MONTH, Value

Row = Mapping[str, Value]
_QUANTILES = (50, 90, 99)
_UNITS = (
    f"Dollars of the whole run, from its first arrival to its last token; a month has "
    f"{HOURS_A_MONTH:g} hours like it. Tokens in all are input, hits among them, and output."
)


def sweep_report(axes: Sequence[Axis], points: Sequence[Point], rows: Sequence[Row]) -> Report:
    """The report of a sweep whose rows are those of its points."""
    warning = _warning(points)
    notes = sweep_notes(axes, rows)
    sections = []
    placed = [
        (point.scenario, row)
        for point, row in zip(points, rows, strict=True)
        if point.scenario is not None and row["status"] == "done"
    ]
    if placed:
        figures = _figures(axes, placed)
        sections.append(Section(id="front", title="The Pareto front", parts=tuple(figures)))
    table = _points(axes, rows)
    sections.append(Section(id="points", title=table.title, parts=(table,)))
    return Report(
        kind="sweep",
        title="Sweep over " + ", ".join(axis.name for axis in axes),
        kicker=f"sweep · {count_text(len(rows), 'point')}",
        answer=sweep_answer(axes, rows),
        said=(Said(text=f"{warning}."),) if warning else (),
        cards=_cards(rows),
        data={"grid": {axis.name: list(axis.values) for axis in axes}, "points": list(rows)},
        sections=tuple(sections),
        main_table="sweep",
        notes=tuple(note for note in notes if note != f"{warning}."),
        units=_UNITS,
    )


def _warning(points: Sequence[Point]) -> str:
    chips = list(dict.fromkeys(point.scenario.chip for point in points if point.scenario))
    return chips_warning(chips) if len(chips) > 1 else ""


def _cards(rows: Sequence[Row]) -> tuple[Card, ...]:
    good = [row for row in rows if is_good(row)]
    cards = [
        Card(label="points", value=f"{len(rows):,}"),
        Card(label="carry their load within the levels", value=f"{len(good):,}"),
    ]
    for name, label, sign in (
        ("usd_per_million_tokens", "least $ per million tokens in all", 1),
        ("output_tokens_per_s_chip", "most output tokens/s a chip", -1),
    ):
        values = [sign * float(v) for row in good if isinstance(v := row.get(name), int | float)]
        if values:
            cards.append(Card(label=label, value=number_text(sign * min(values))))
    return tuple(cards)


def _figures(axes: Sequence[Axis], placed: Sequence[tuple[Scenario, Row]]) -> list[Figure]:
    levels = placed[0][0].service_levels
    quantile = next((q for q in _QUANTILES if q >= levels.percentile), _QUANTILES[-1])
    targets = {scenario.service_levels.tpot_ms for scenario, _ in placed}
    tpot_ms = next(iter(targets)) if len(targets) == 1 else None
    dots = [_dot(axes, scenario, row, quantile) for scenario, row in placed]
    return pareto_figures(
        dots,
        1000 / tpot_ms if tpot_ms else None,
        f"TPOT p{levels.percentile:g} of {tpot_ms:g} ms" if tpot_ms else "",
        f"tokens/s a user, at TPOT p{quantile}",
    )


def _dot(axes: Sequence[Axis], scenario: Scenario, row: Row, quantile: int) -> Dot:
    tpot_ms = row.get(f"tpot_ms_p{quantile}")
    user = 1000 / float(tpot_ms) if isinstance(tpot_ms, int | float) and tpot_ms else None
    usd = row.get("usd_per_million_tokens")
    rate = float(row["output_tokens_per_s_chip"] or 0)
    place = ", ".join(f"{name}={cell(row[name])}" for name in varied(axes))
    told = (
        place,
        f"{number_text(user) if user else '–'} tokens/s a user, {number_text(rate)} a chip",
        f"${usd:,.3g} per million tokens in all" if isinstance(usd, float) else "no price",
        f"TTFT p{quantile} {cell(row.get(f'ttft_s_p{quantile}'))} s",
    )
    parallel = scenario.parallel
    return Dot(
        group=f"{find_chip(scenario.chip).name}, {find_profile(scenario.engine).name}",
        label="<br>".join(told),
        name=f"{scenario.replicas} x tp{parallel.tp} dp{parallel.dp}",
        meets=is_good(row),
        user_tokens_per_s=user,
        chip_tokens_per_s=rate,
        usd_per_million_tokens=float(usd) if isinstance(usd, int | float) else None,
    )


def _points(axes: Sequence[Axis], rows: Sequence[Row]) -> ReportTable:
    """Every figure of every point, the grid's fields first; columns without any value left out."""
    heads = [axis.name for axis in axes]
    names = [name for name in rows[0] if name not in (*heads, "part")]
    kept = [name for name in names if any(row.get(name) not in (None, "") for row in rows)]
    fields = []
    for place, name in enumerate([*heads, *kept]):
        values: list[Cell] = [row.get(name) for row in rows]
        heading = name.replace("_", " ").replace(".", " ")
        fields.append(
            Field(name=name, heading=heading, values=values, rank=max(0, place - len(heads)))
        )
    return ReportTable(
        id="sweep", title=f"All {count_text(len(rows), 'point')}", fields=tuple(fields)
    )
