"""TraceLab rounds: CSV or JSONL, one round a row; observed cached tokens, no ids.

Source: uw-syfi/TraceLab (CC-BY-4.0). CSV: `t_first_event_s` from the session's start. JSONL:
`timing_events` of the wall clock with `event_type` and `timestamp`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import FileFormatError
from workloads.traffic.csv_columns import check_sums, second_column, token_column
from workloads.traffic.csv_table import CsvTable, csv_table
from workloads.traffic.draft import Draft, counted
from workloads.traffic.fields import items, text, tokens, whole
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace import NO_REQUEST, NO_TIME
from workloads.traffic.trace_file import TraceFile

COLUMNS = ("round_index", "input_tokens_total", "prefix_tokens", "newly_append_tokens",
           "output_tokens")  # fmt: skip
START = "t_first_event_s"
OPTIONAL = ("session_id", "provider")
_INPUTS = ("user_message", "tool_result")


def _matches(file: TraceFile) -> bool:
    rows = file.first_rows
    return set(COLUMNS) <= set(rows[0] if rows else file.header)


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    return _read_rows(file) if file.first_rows else _read_table(file)


def _read_table(file: TraceFile) -> Draft:
    """A session begins where `session_id` or `provider` changes or `round_index` does not rise."""
    draft = Draft(file, "tracelab")
    table = csv_table(file, (*COLUMNS, START), OPTIONAL)
    total, prefix, new, output = (token_column(table, name) for name in COLUMNS[1:])
    over = prefix > total
    if over.any():
        where = table.at(int(np.argmax(over)))
        raise FileFormatError(f"{where}: more prefix_tokens than input_tokens_total")
    what = "input_tokens_total is not prefix plus newly appended"
    check_sums(table, total, prefix + new, what, "the total was", draft.doubts)
    begins = _begins(table)
    arrival = second_column(table, START)
    early = int(((np.diff(arrival) < 0) & ~begins[1:]).sum())
    if early:
        draft.doubts.append(
            f"{counted(early, 'round')} earlier than the one before: sorted by time"
        )
    draft.sort_quietly = True  # sessions, each timed from its own start, stand one after another
    draft.fill(
        table.line,
        total,
        output,
        arrival_ns=arrival,
        session=np.cumsum(begins) - 1,
        parent=np.where(begins, NO_REQUEST, np.arange(len(table)) - 1),
        observed=prefix,
    )
    draft.notes.append("times are counted from the start of each session, so all start at 0")
    return draft


def _begins(table: CsvTable) -> NDArray[np.bool_]:
    """Rows that begin a session."""
    index = token_column(table, "round_index")
    begins = np.ones(len(table), dtype=bool)
    begins[1:] = index[1:] <= index[:-1]
    for name in OPTIONAL:
        if name in table:
            cells = table[name]
            begins[1:] |= np.array([a != b for a, b in pairwise(cells)], bool)
    return begins


def _read_rows(file: TraceFile) -> Draft:
    """Rounds of a session in order of `round_index`, each following the last output before it.

    Assumes: a TraceLab round was sent at its latest input event and answered at its latest other
    event, as no latency is recorded.
    """
    draft = Draft(file, "tracelab")
    groups: dict[str, list[tuple[int, int, dict[str, Any]]]] = {}
    for line, row in file.json_rows():
        name = text(file, line, row, "session_id") or "one session"
        index = whole(file, line, row, "round_index") or 0
        groups.setdefault(name, []).append((index, line, row))
    moved = untimed = 0
    for name, rounds in groups.items():
        ordered = sorted(rounds, key=lambda item: item[0])
        moved += sum(a is not b for a, b in zip(rounds, ordered, strict=True))
        untimed += _add_rounds(draft, draft.session_number(name), ordered)
    if moved:
        draft.doubts.append(f"{counted(moved, 'round')} out of order of round_index: sorted")
    if untimed:
        draft.doubts.append(f"{counted(untimed, 'round')} without timing events: no wait before")
    _from_earliest(draft)
    return draft


def _add_rounds(draft: Draft, session: int, rounds: list[tuple[int, int, dict[str, Any]]]) -> int:
    """Append one session; returns how many rounds had no time."""
    file, parent, ended, untimed = draft.file, NO_REQUEST, None, 0
    for _, line, row in rounds:
        total = tokens(file, line, row, "input_tokens_total")
        prefix = tokens(file, line, row, "prefix_tokens")
        if prefix > total:
            raise FileFormatError(f"{file.at(line)}: more prefix_tokens than input_tokens_total")
        sent, done = _times(file, line, row)
        follows = parent != NO_REQUEST
        untimed += follows and sent is None
        parent = draft.add(
            line,
            total,
            tokens(file, line, row, "output_tokens"),
            arrival_ns=NO_TIME if follows else sent,
            delay_ns=max(0, sent - ended) if follows and sent and ended else 0,
            session=session,
            parent=parent,
            observed=prefix,
        )
        ended = done or sent or ended
    return untimed


def _times(file: TraceFile, line: int, row: dict[str, Any]) -> tuple[int | None, int | None]:
    """When a round was sent and answered, in ns of the wall clock."""
    sent: list[int] = []
    done: list[int] = []
    for event in items(file, line, row, "timing_events") or []:
        stamp = event.get("timestamp") if type(event) is dict else None
        if stamp is None:
            continue
        (sent if event.get("event_type") in _INPUTS else done).append(_clock(file, line, stamp))
    return max(sent) if sent else min(done, default=None), max(done, default=None)


def _clock(file: TraceFile, line: int, stamp: Any) -> int:
    try:
        moment = datetime.fromisoformat(stamp)
    except (TypeError, ValueError) as error:
        raise FileFormatError(
            f"{file.at(line)}: 'timestamp' of an event is {stamp!r:.60}, expected a date and time"
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1e6) * 1000


def _from_earliest(draft: Draft) -> None:
    times = [time for time in draft.arrival_ns if time >= 0]
    if times:
        start = min(times)
        draft.arrival_ns = [time - start if time >= 0 else time for time in draft.arrival_ns]
        draft.notes.append(f"times are counted from {np.datetime64(start, 'ns')} UTC")


TRACELAB = Reader(
    "TraceLab rounds, CSV or JSONL, observed cached tokens",
    _matches,
    _read,
    frozenset({*COLUMNS, START, *OPTIONAL, "timing_events"}),
    f"{START} in seconds in CSV, timing_events in JSONL",
    (_read_rows,),
    known=frozenset(
        {"n_tools", "max_tool_wall_ms", "first_input_event_type", "tools", "provider", "model"}
    ),
)
