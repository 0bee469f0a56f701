"""LLMServingSim JSONL: flat requests or agentic sessions, blocks from token ids.

Arrivals are `arrival_time_ns`, or `arrival_time` in seconds as logs of engines have it.

Source: casys-kaist/LLMServingSim (MIT). Token ids are optional; each full block of them becomes an
id that stands for itself and all before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.basis.errors import FileFormatError
from workloads.traffic.draft import Draft
from workloads.traffic.fields import clock_ns, items, text, time_ns, tokens, whole_array
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace import NO_REQUEST, NO_TIME
from workloads.traffic.trace_file import TraceFile

BLOCK_TOKENS = 16
LEAST_WALL_CLOCK_NS = 10**18  # in 2001: no trace is as long
TOKEN_IDS = ("input_tok_ids", "input_token_ids", "prompt_token_ids", "token_ids")


def _matches(file: TraceFile) -> bool:
    rows = file.first_rows
    return bool(rows) and ("input_toks" in rows[0] or "sub_requests" in rows[0])


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """A line with `sub_requests` is a session, each waiting for the tool after the one before."""
    draft = Draft(file, "llmservingsim")
    draft.use_blocks(options.block_tokens, BLOCK_TOKENS)
    draft.fixed_block = True  # the blocks are cut here
    blocks: dict[tuple[int, bytes], int] = {}
    clock: list[int] = []  # requests that arrive at a time in seconds
    for line, row in file.json_rows():
        name = text(file, line, row, "session_id")
        session = draft.session_number(("line", line) if name is None else name)
        arrival = time_ns(file, line, row, "arrival_time_ns", "ns")
        if arrival is None:
            arrival = clock_ns(file, line, row, "arrival_time")
            clock += [] if arrival is None else [len(draft)]
        chain = items(file, line, row, "sub_requests")
        parent, delay = NO_REQUEST, 0
        for part in [row] if chain is None else chain:
            if type(part) is not dict:
                raise FileFormatError(f"{file.at(line)}: a sub-request is {part!r:.60}")
            file.see(part)
            first = parent == NO_REQUEST
            ids = _block_ids(draft, line, part, blocks)
            length = tokens(file, line, part, "input_toks")
            parent = draft.add(
                line,
                length,
                tokens(file, line, part, "output_toks"),
                arrival_ns=arrival if first else NO_TIME,
                delay_ns=0 if first else delay,
                session=session,
                parent=parent,
                id_tokens=-1 if ids is None else length,
            )
            draft.ids.add_list(ids or ())
            delay = time_ns(file, line, part, "tool_duration_ns", "ns") or 0
    _from_earliest(draft, clock)
    if blocks:
        draft.notes.append(f"token ids cut into {len(blocks):,} distinct blocks")
    return draft


def _from_earliest(draft: Draft, clock: list[int]) -> None:
    """Count times of the wall clock, which begin in 1970, from the earliest."""
    start = min((draft.arrival_ns[place] for place in clock), default=0)
    if start >= LEAST_WALL_CLOCK_NS:
        for place in clock:
            draft.arrival_ns[place] -= start
        draft.notes.append(f"times are counted from {np.datetime64(start, 'ns')} UTC")


def _block_ids(
    draft: Draft, line: int, row: dict[str, Any], blocks: dict[tuple[int, bytes], int]
) -> list[int] | None:
    """Ids of the full blocks; None where the request has no token ids."""
    key = next((name for name in TOKEN_IDS if name in row), None)
    given = items(draft.file, line, row, key) if key else None
    if given is None:
        return None
    where, size = draft.file.at(line), draft.block_tokens
    length = tokens(draft.file, line, row, "input_toks")
    if len(given) != length:
        raise FileFormatError(f"{where}: {len(given):,} token ids for {length:,} input_toks")
    array = whole_array(draft.file, line, given, str(key), 1 << 62)
    ids, before = [], -1
    for start in range(0, length - size + 1, size):
        before = blocks.setdefault((before, array[start : start + size].tobytes()), len(blocks))
        ids.append(before)
    return ids


LLMSERVINGSIM = Reader(
    "LLMServingSim JSONL, flat or agentic, token ids optional",
    _matches,
    _read,
    frozenset(
        {"session_id", "arrival_time_ns", "arrival_time", "sub_requests", "input_toks"}
        | {"output_toks", "tool_duration_ns", *TOKEN_IDS}
    ),
    "arrival_time_ns, or arrival_time in seconds",
    known=frozenset({"request_id", "queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts"}),
)
