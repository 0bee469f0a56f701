"""Columns of a CSV table by type: lengths and times; the first wrong one is refused by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.basis.errors import FileFormatError
from workloads.traffic.draft import MISSING
from workloads.traffic.fields import MAX_TOKENS
from workloads.traffic.reader_options import MAX_SECONDS
from workloads.traffic.trace import Ints
from workloads.traffic.trace_file import TraceFile

if TYPE_CHECKING:
    import pandas as pd


def token_column(file: TraceFile, table: pd.DataFrame, name: str) -> Ints:
    """Lengths in tokens, whole and at least 0, none missing."""
    import pandas as pd

    values = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=float)
    good = (values >= 0) & (values < MAX_TOKENS) & (np.floor(values) == values)
    if not good.all():
        allowed = "a whole number of tokens, at least 0"
        raise _wrong(file, table, name, int(np.argmin(good)), allowed)
    return values.astype(np.int64)


def second_column(file: TraceFile, table: pd.DataFrame, name: str) -> Ints:
    """Times given in seconds, in ns; MISSING where a cell is empty."""
    import pandas as pd

    values = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=float)
    empty = table[name].isna().to_numpy()
    good = ((values >= 0) & (values <= MAX_SECONDS)) | empty
    if not good.all():
        allowed = f"a number of seconds, at least 0 and at most {MAX_SECONDS:g}"
        raise _wrong(file, table, name, int(np.argmin(good)), allowed)
    times = np.rint(np.where(empty, 0.0, values) * 1e9).astype(np.int64)
    return np.where(empty, MISSING, times)


def clock_column(file: TraceFile, table: pd.DataFrame, name: str) -> Ints:
    """Times of the wall clock, in ns since 1970; MISSING where a cell is empty."""
    import pandas as pd

    times = pd.to_datetime(table[name], utc=True, format="ISO8601", errors="coerce")
    empty = table[name].isna().to_numpy()
    good = times.notna().to_numpy() | empty
    if not good.all():
        allowed = "a date and time such as 2023-11-16 18:17:03.97"
        raise _wrong(file, table, name, int(np.argmin(good)), allowed)
    since = times.dt.as_unit("ns").astype("int64").to_numpy()
    return np.where(empty, MISSING, since)


def check_sums(
    table: pd.DataFrame, total: Ints, parts: Ints, what: str, doubts: list[str], file: TraceFile
) -> None:
    """Note rows whose total is not the sum of its parts; `strict` refuses them."""
    wrong = total != parts
    if wrong.any():
        place = int(np.argmax(wrong))
        doubts.append(
            f"{int(wrong.sum()):,} of {len(total):,} rows where {what}, the first at "
            f"{file.at(int(table.index[place]))} ({total[place]:,} against {parts[place]:,}): the "
            "parts were taken"
        )


def _wrong(
    file: TraceFile, table: pd.DataFrame, name: str, place: int, allowed: str
) -> FileFormatError:
    line, cell = int(table.index[place]), table[name].iloc[place]
    if cell != cell:
        return FileFormatError(
            f"{file.at(line)}: no {name!r}, expected {allowed}; the line is truncated or damaged"
        )
    return FileFormatError(f"{file.at(line)}: {name!r} is {cell!r:.60}, expected {allowed}")
