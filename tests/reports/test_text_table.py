"""Terminal tables keep one line a row; text keeps numbers with their units."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from reports.text_table import TextColumn, fitting, left_out, text_table, wrapped

COLUMNS = [
    TextColumn(heading="name", cells=["ascend-950dt", "b200"], left=True),
    TextColumn(heading="size\nGiB", cells=["89.4", "179.1"]),
    TextColumn(heading="rate", cells=["4", "7.7"], rank=1),
    TextColumn(heading="other", cells=["none", "9,000"], rank=2),
]


def _printed(width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(text_table(COLUMNS, width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(("width", "shown"), [(32, 4), (31, 3), (25, 3), (24, 2), (19, 2)])
def test_the_least_important_columns_go_first(width: int, shown: int) -> None:
    assert fitting(COLUMNS, width) == COLUMNS[:shown]
    lines = _printed(width)
    assert lines[-2].startswith("ascend-950dt ")
    assert lines[-1].startswith("b200 ")
    assert max(map(len, lines)) <= width


def test_names_fold_only_where_nothing_else_can_go() -> None:
    assert not any("…" in line for line in _printed(14))
    assert "".join(line[:7].strip() for line in _printed(14)[3:]).startswith("ascend-")


def test_left_out_columns_are_named() -> None:
    assert left_out(COLUMNS, 24) == "No room at 24 columns for: rate, other."
    assert left_out(COLUMNS, 80) == ""


def test_numbers_stay_with_their_units() -> None:
    assert wrapped("bound by memory 84 % of it", 19) == "bound by memory\n84 % of it"
    assert wrapped("tokens on 8 x h200", 13) == "tokens on\n8 x h200"
    assert wrapped("word " * 8, 22, indent=2).splitlines()[1].startswith("  word")
