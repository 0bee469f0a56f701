"""BurstGPT CSV: arrivals in seconds, lengths, sessions of conversations; no ids.

Source: HPMLL/BurstGPT release v1.2 (CC-BY-4.0). Rows without response tokens are failures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workloads.traffic.csv_columns import check_sums, second_column, token_column
from workloads.traffic.draft import Draft
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace import NO_REQUEST, Ints
from workloads.traffic.trace_file import TraceFile

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("Timestamp", "Request tokens", "Response tokens")


def _matches(file: TraceFile) -> bool:
    return set(COLUMNS) <= set(file.header)


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """Rows of one `Session ID` are chained in the order of the file; arrivals stay absolute."""
    draft = Draft(file, "burstgpt")
    table = file.table(COLUMNS)
    given = token_column(file, table, "Request tokens")
    answered = token_column(file, table, "Response tokens")
    if "Total tokens" in table:
        total = token_column(file, table, "Total tokens")
        what = "Total tokens is not Request tokens plus Response tokens"
        check_sums(table, total, given + answered, what, draft.doubts, file)
    session, parent = _sessions(table)
    draft.fill(
        table.index.to_numpy(),
        given,
        answered,
        arrival_ns=second_column(file, table, "Timestamp"),
        session=session,
        parent=parent,
    )
    return draft


def _sessions(table: pd.DataFrame) -> tuple[Ints, Ints]:
    """Session of every row and the row of it before; a row without one is a session of its own."""
    count = len(table)
    own = np.arange(count)
    if "Session ID" not in table or not count:
        return own, np.full(count, NO_REQUEST)
    code = table["Session ID"].factorize()[0].astype(np.int64)
    session = np.where(code < 0, code.max() + 1 + own, code)
    order = np.argsort(session, kind="stable")
    parent = np.full(count, NO_REQUEST)
    same = session[order][1:] == session[order][:-1]
    parent[order[1:][same]] = order[:-1][same]
    return session, parent


BURSTGPT = Reader("BurstGPT CSV of arrivals, lengths and sessions", _matches, _read)
