"""Columns of a CSV table by type: lengths and times; the first wrong one is refused by line."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workloads.traffic.csv_table import CsvTable
from workloads.traffic.draft import MISSING
from workloads.traffic.fields import MAX_TOKENS
from workloads.traffic.reader_options import MAX_SECONDS
from workloads.traffic.trace import Ints

_LATEST_NS = 6 * 10**18  # the year 2160
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?) ?(?:Z|([+-])(\d\d):?(\d\d))?", re.ASCII
)


def numbers(cells: Sequence[str]) -> NDArray[np.float64]:
    """Cells as numbers [rows]; NaN for those that are none, or empty."""
    try:
        return np.array(list(map(float, cells)), dtype=np.float64)
    except ValueError:
        return np.array([_number(cell) for cell in cells], dtype=np.float64)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def token_column(table: CsvTable, name: str) -> Ints:
    """Lengths in tokens, whole and at least 0, none missing."""
    return count_column(table, name, "a whole number of tokens, at least 0")


def count_column(table: CsvTable, name: str, allowed: str = "a whole number, at least 0") -> Ints:
    """Numbers of things, whole and at least 0, none missing."""
    values = numbers(table[name])
    good = (values >= 0) & (values < MAX_TOKENS) & (np.floor(values) == values)
    if not good.all():
        raise table.wrong(name, int(np.argmin(good)), allowed)
    return values.astype(np.int64)


def second_column(table: CsvTable, name: str) -> Ints:
    """Times given in seconds, in ns; MISSING where a cell is empty."""
    values = numbers(table[name])
    empty = np.array([not cell for cell in table[name]], dtype=bool)
    good = ((values >= 0) & (values <= MAX_SECONDS)) | empty
    if not good.all():
        allowed = f"a number of seconds, at least 0 and at most {MAX_SECONDS:g}"
        raise table.wrong(name, int(np.argmin(good)), allowed)
    times = np.rint(np.where(empty, 0.0, values) * 1e9).astype(np.int64)
    return np.where(empty, MISSING, times)


def clock_column(table: CsvTable, name: str) -> Ints:
    """Times of the wall clock, UTC unless they say else, in ns since 1970; MISSING where empty."""
    cells = table[name]
    times = np.full(len(cells), MISSING, dtype=np.int64)
    for row, cell in enumerate(cells):
        if cell:
            try:
                times[row] = _moment_ns(cell)
            except (ValueError, OverflowError) as error:
                allowed = "a date and time such as 2023-11-16 18:17:03.97"
                raise table.wrong(name, row, allowed) from error
    return times


def _moment_ns(cell: str) -> int:
    """ISO 8601 with or without a zone, from 1970 on."""
    parts = _MOMENT.fullmatch(cell.strip())
    if parts is None:
        raise ValueError(cell)
    local = int(np.datetime64(parts[1], "ns").astype(np.int64))
    shift_minutes = int(parts[3]) * 60 + int(parts[4]) if parts[2] else 0
    found = local - (1 if parts[2] == "+" else -1) * shift_minutes * 60 * 10**9
    if not 0 <= found < _LATEST_NS:
        raise ValueError(cell)
    return found


def check_sums(
    table: CsvTable, total: Ints, parts: Ints, what: str, taken: str, doubts: list[str]
) -> None:
    """Note rows whose total is not the sum of its parts, and which was `taken`."""
    wrong = total != parts
    if wrong.any():
        row = int(np.argmax(wrong))
        doubts.append(
            f"{int(wrong.sum()):,} of {len(total):,} rows where {what}, the first at "
            f"{table.at(row)} ({total[row]:,} against {parts[row]:,}): {taken} taken"
        )
