"""BurstGPT CSV: arrivals in seconds, lengths, sessions of conversations; no ids.

Source: HPMLL/BurstGPT release v1.2 (CC-BY-4.0). Rows without response tokens are failures.
"""

from __future__ import annotations

import numpy as np

from workloads.traffic.csv_columns import check_sums, second_column, token_column
from workloads.traffic.csv_table import CsvTable, csv_table
from workloads.traffic.draft import Draft
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace import NO_REQUEST, Ints
from workloads.traffic.trace_file import TraceFile

COLUMNS = ("Timestamp", "Request tokens", "Response tokens")
OPTIONAL = ("Total tokens", "Session ID")


def _matches(file: TraceFile) -> bool:
    return set(COLUMNS) <= set(file.header)


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """Rows of one `Session ID` are chained in the order of the file; arrivals stay absolute."""
    draft = Draft(file, "burstgpt")
    table = csv_table(file, COLUMNS, OPTIONAL)
    given = token_column(table, "Request tokens")
    answered = token_column(table, "Response tokens")
    if "Total tokens" in table:
        total = token_column(table, "Total tokens")
        what = "Total tokens is not Request tokens plus Response tokens"
        check_sums(table, total, given + answered, what, "the parts were", draft.doubts)
    session, parent = _sessions(table)
    draft.fill(
        table.line,
        given,
        answered,
        arrival_ns=second_column(table, "Timestamp"),
        session=session,
        parent=parent,
    )
    return draft


def _sessions(table: CsvTable) -> tuple[Ints, Ints]:
    """Session of every row and the row of it before; a row without one is a session of its own."""
    count = len(table)
    if "Session ID" not in table:
        return np.arange(count), np.full(count, NO_REQUEST)
    last: dict[str, int] = {}
    session, parent = list(range(count)), [NO_REQUEST] * count
    for row, name in enumerate(table["Session ID"]):
        if name in last:
            parent[row] = last[name]
            session[row] = session[last[name]]
        if name:
            last[name] = row
    return np.array(session, dtype=np.int64), np.array(parent, dtype=np.int64)


BURSTGPT = Reader(
    "BurstGPT CSV of arrivals, lengths and sessions",
    _matches,
    _read,
    frozenset({*COLUMNS, *OPTIONAL}),
    "Timestamp in seconds",
    known=frozenset({"Model", "Log Type", "Elapsed time"}),
)
