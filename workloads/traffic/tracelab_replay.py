"""Replay CSV of agent sessions: a round a row, what was known of its prompt, the wait behind it.

Source: session runners of TraceLab traces (`session_id, arrival_time, round_idx, prefix_len,
input_len, output_len, tool_wait_after_ms`): round i + 1 is sent when round i is answered and its
tool wait is over. `arrival_time` is that of the session, in ms like the waits.
"""

from __future__ import annotations

import numpy as np

from workloads.traffic.csv_columns import numbers, token_column
from workloads.traffic.csv_table import CsvTable, csv_table
from workloads.traffic.draft import MISSING, Draft, counted
from workloads.traffic.reader_options import MAX_SECONDS, Reader, ReaderOptions
from workloads.traffic.trace import NO_REQUEST, NO_TIME, Ints
from workloads.traffic.trace_file import TraceFile

COLUMNS = ("session_id", "round_idx", "prefix_len", "input_len", "output_len",
           "tool_wait_after_ms")  # fmt: skip
ARRIVAL = "arrival_time"


def _matches(file: TraceFile) -> bool:
    return set(COLUMNS) <= set(file.header)


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """Rounds of a session in order of `round_idx`; a prompt is its known prefix and its new input.

    Assumes: in replay CSVs `arrival_time` is in milliseconds, as the waits beside it are.
    """
    draft = Draft(file, "tracelab-replay")
    table = csv_table(file, COLUMNS, (ARRIVAL,))
    prefix, new, answer = (token_column(table, name) for name in COLUMNS[2:5])
    rounds, wait = token_column(table, "round_idx"), _ms_column(table, "tool_wait_after_ms")
    arrival = _ms_column(table, ARRIVAL) if ARRIVAL in table else np.full(len(table), MISSING)
    numbers_of: dict[str, int] = {}
    session = np.array([numbers_of.setdefault(c, len(numbers_of)) for c in table["session_id"]])
    order = np.lexsort((rounds, session)) if len(table) else np.arange(0)
    if (np.diff(order) < 0).any():
        draft.doubts.append("rounds out of order of session and round_idx: sorted")
    follows = np.zeros(len(order), dtype=bool)
    follows[1:] = np.diff(session[order]) == 0
    begun = int((~follows & (prefix[order] > 0)).sum())
    if begun:
        draft.notes.append(
            f"began with a known prefix of their own or of others: {counted(begun, 'session')}"
        )
    before = np.concatenate([[0], wait[order][:-1]])
    last = ~np.append(follows[1:], False)
    draft.fill(
        table.line[order],
        (prefix + new)[order],
        answer[order],
        arrival_ns=np.where(follows, NO_TIME, arrival[order]),
        session=session[order],
        parent=np.where(follows, np.arange(len(order)) - 1, NO_REQUEST),
        observed=prefix[order],
    )
    draft.delay_ns = np.where(follows, before, 0)  # type: ignore[assignment]
    _say(draft, before[follows], wait[order][last])
    return draft


def _say(draft: Draft, waits: Ints, behind: Ints) -> None:
    def range_of(values: Ints) -> str:
        low, high = values.min() / 1e9, values.max() / 1e9
        return f"{low:g} s" if low == high else f"{low:g} to {high:g} s"

    if len(waits):
        draft.notes.append(
            f"followed a reply after a tool wait: {counted(len(waits), 'round')}, {range_of(waits)}"
        )
    behind = behind[behind > 0]
    if len(behind):
        draft.notes.append(
            f"waits behind the last round of a session, which delay nothing: {len(behind):,}, "
            f"{range_of(behind)}"
        )


def _ms_column(table: CsvTable, name: str) -> Ints:
    values = numbers(table[name])
    good = (values >= 0) & (values <= MAX_SECONDS * 1e3)
    if not good.all():
        raise table.wrong(name, int(np.argmin(good)), "a number of ms, at least 0")
    return np.rint(values * 1e6).astype(np.int64)


TRACELAB_REPLAY = Reader(
    "replay CSV of agent sessions, a round a row",
    _matches,
    _read,
    frozenset({*COLUMNS, ARRIVAL}),
    f"{ARRIVAL} in ms",
)
