"""Mooncake JSONL: one request a line, global ids of 512 tokens, milliseconds.

Source: kvcache-ai/Mooncake, FAST25 release (Apache-2.0). Rows with `session_id` and full id lists
are read too; with ids of the new input only they are the deltas of `aiperf.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workloads.traffic.draft import Draft, counted
from workloads.traffic.fields import items, text, time_ns, tokens, whole
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace import NO_REQUEST, NO_TIME
from workloads.traffic.trace_file import TraceFile

BLOCK_TOKENS = 512
KEYS = frozenset(
    {"input_length", "output_length", "hash_ids", "timestamp", "session_id", "delay", "block_size"}
)
CLOCK = "timestamp in milliseconds"


def _matches(file: TraceFile) -> bool:
    rows = file.first_rows
    return bool(rows) and "input_length" in rows[0] and "chat_id" not in rows[0]


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """Every line a request; one that has a `delay` follows the line before of its session."""
    draft = Draft(file, "mooncake")
    draft.use_blocks(options.block_tokens, BLOCK_TOKENS)
    last: dict[int, int] = {}
    begun: dict[int, Any] = {}
    following = unlike = 0
    for line, row in file.json_rows():
        stated = whole(file, line, row, "block_size")
        if stated is not None and stated > 0:
            draft.use_blocks(options.block_tokens, BLOCK_TOKENS, stated)
        input_tokens = tokens(file, line, row, "input_length")
        output_tokens = tokens(file, line, row, "output_length")
        ids = items(file, line, row, "hash_ids")
        arrival = time_ns(file, line, row, "timestamp", "ms")
        name = text(file, line, row, "session_id")
        session = draft.session_number(("line", line) if name is None else name)
        parent = last.get(session, NO_REQUEST)
        delay = time_ns(file, line, row, "delay", "ms")
        if arrival is None and delay is not None and parent != NO_REQUEST:
            arrival, following = NO_TIME, following + 1
        last[session] = draft.add(
            line, input_tokens, output_tokens,
            arrival_ns=arrival, session=session, parent=parent,
            delay_ns=delay or 0 if arrival == NO_TIME else 0,
            id_tokens=-1 if ids is None else input_tokens,
        )  # fmt: skip
        draft.ids.add_list(ids or ())
        if ids:
            unlike += begun.setdefault(session, ids[0]) != ids[0]
    if unlike:
        draft.doubts.append(
            f"{counted(unlike, 'row')} whose ids do not begin as those of the session's first row: "
            "if rows hold their new input only, read the file as aiperf"
        )
    if following:
        draft.notes.append(f"{counted(following, 'request')} follow a reply after a delay")
    return draft


def deltas(rows: tuple[dict[str, Any], ...]) -> bool:
    """Whether later rows of a session hold their new input only: ids that do not begin alike."""
    begun: dict[str, Any] = {}
    for name, first in _first_ids(rows):
        if name in begun:
            return begun[name] != first
        begun[name] = first
    return any("delay" in row for row in rows)


def _first_ids(rows: tuple[dict[str, Any], ...]) -> Iterator[tuple[str, Any]]:
    for row in rows:
        ids = row.get("hash_ids")
        if "session_id" in row and type(ids) is list and ids:
            yield str(row["session_id"]), ids[0]


MOONCAKE = Reader(
    "Mooncake JSONL, one request a line, global ids",
    _matches,
    _read,
    KEYS,
    CLOCK,
    known=frozenset({"group_id", "is_restart"}),
)
