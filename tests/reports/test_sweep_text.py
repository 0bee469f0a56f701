"""A sweep in words: the best point, what is left out of the choice, and the columns."""

from __future__ import annotations

from typing import Any

from reports.sweep_text import cell, sweep_answer, sweep_columns, sweep_notes
from simulator.sweep.grid import parse_grid

AXES = parse_grid(["parallel.tp=1,2,4,8", "engine=ideal"])


def row(tp: int, usd: float | None, rate: float, **changes: Any) -> dict[str, Any]:
    return {
        "parallel.tp": tp,
        "engine": "ideal",
        "status": "done",
        "error": "",
        "usd_per_million_output_bearing_all": usd,
        "output_tokens_per_s_chip": rate,
        "levels_met": True,
        "is_saturated": False,
        "refused": 0,
        "broken_laws": "",
    } | changes


def refused(tp: int) -> dict[str, Any]:
    nothing = dict.fromkeys(row(tp, None, 0.0))
    return nothing | {"parallel.tp": tp, "engine": "ideal", "status": "refused", "error": "no room"}


ROWS = [
    refused(1),
    row(2, 1.0, 400.0, levels_met=False),
    row(4, 3.0, 100.0),
    row(8, 2.5, 90.0),
]


def test_the_cheapest_of_those_within_their_levels_wins() -> None:
    said = sweep_answer(AXES, ROWS)
    assert said.startswith("Cheapest of the 2 (of 4) points")
    assert "parallel.tp=8; 2.5 USD per million output tokens, 90 output tokens/s a chip." in said


def test_overload_refusals_and_broken_laws_are_out_of_the_choice() -> None:
    for change in ({"is_saturated": True}, {"refused": 1}, {"broken_laws": "Little"}):
        rows = [ROWS[2], ROWS[3] | change]
        assert "parallel.tp=4" in sweep_answer(AXES, rows)


def test_without_prices_the_rate_decides() -> None:
    rows = [row(4, None, 100.0, levels_met=None), row(8, None, 90.0, levels_met=None)]
    said = sweep_answer(AXES, rows)
    assert said.startswith("Fastest a chip of the 2 (of 2) points that carry their load: ")
    assert "parallel.tp=4; 100 output tokens/s a chip" in said


def test_none_is_said() -> None:
    assert sweep_answer(AXES, ROWS[:2]).startswith("None of the 2 points")


def test_columns_are_what_varies_and_what_is_known() -> None:
    headings = [" ".join(column.heading.split()) for column in sweep_columns(AXES, ROWS[:2])]
    assert headings[:3] == ["parallel tp", "status", "USD per million output"]
    assert "TTFT p99 s" not in headings
    assert "status" not in [column.heading for column in sweep_columns(AXES, ROWS[2:])]


def test_notes_count_reasons_and_name_fields_of_one_value() -> None:
    broken = row(8, 1.0, 1.0, broken_laws="Little's law")
    assert sweep_notes(AXES, [refused(1), refused(2), broken]) == [
        "All with engine=ideal.",
        "2 points refused: no room",
        "1 point broke a law of the simulation: Little's law",
    ]


def test_cells() -> None:
    values = (None, True, 0.123456, 12345.6, 12345, "a")
    assert [cell(value) for value in values] == ["-", "yes", "0.1235", "12,346", "12,345", "a"]
