"""aiperf agentic deltas: JSONL whose later rows of a session hold their new input only.

Source: ai-dynamo/aiperf `synthesize agentic-code` (Apache-2.0). Only the first row of a session has
a `timestamp` (ms) and ids of a whole prompt, shared between sessions of a group; later rows follow
a `delay` after the reply (ms). The reply joins the context but has no ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.basis.errors import FileFormatError
from workloads.traffic.block_counts import fit_blocks
from workloads.traffic.draft import Draft, counted
from workloads.traffic.fields import items, text, time_ns, tokens, whole, whole_array
from workloads.traffic.mooncake import CLOCK, KEYS, deltas
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace import NO_TIME, SESSION_STRIDE, Ints, as_runs
from workloads.traffic.trace_file import TraceFile

BLOCK_TOKENS = 512
# Partial last blocks are numbered from here up within a session's own ids.
_PARTIAL = SESSION_STRIDE // 2


@dataclass(slots=True)
class _Row:
    line: int
    name: str
    new_tokens: int
    reply_tokens: int
    ids: Ints
    arrival_ns: int | None
    delay_ns: int | None


@dataclass(slots=True)
class _Session:
    """What a session's context holds so far."""

    number: int
    shared: list[list[int]]
    shared_blocks: int
    context_tokens: int
    last: int
    turns: int = 1


def _matches(file: TraceFile) -> bool:
    rows = file.first_rows
    return bool(rows) and {"session_id", "input_length"} <= set(rows[0]) and deltas(rows)


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """Whole contexts out of deltas.

    Assumes: in delta traces a prompt is all earlier inputs and replies of its session and the new
    input; blocks wholly inside the first row keep its ids, and every later block is the session's
    own, as it holds reply tokens or follows them; a partial last block is never shared.
    """
    draft = Draft(file, "aiperf")
    draft.use_blocks(options.block_tokens, BLOCK_TOKENS)
    rows = [_row(draft, options, line, row) for line, row in file.json_rows()]
    if not rows:
        return draft
    fit = fit_blocks(
        np.array([row.new_tokens for row in rows]),
        np.array([len(row.ids) for row in rows]),
        draft.block_tokens,
        draft.fixed_block,
        lambda i: file.at(rows[i].line),
    )
    if not fit.ceil:
        raise FileFormatError(
            f"{file.at(rows[0].line)}: ids leave out the partial last block, expected one for it "
            "in a trace of deltas"
        )
    if fit.inferred:
        draft.notes.append(f"blocks of {fit.block_tokens} tokens, found from ids and lengths")
    draft.block_tokens, draft.fixed_block = fit.block_tokens, True
    _accumulate(draft, rows)
    return draft


def _row(draft: Draft, options: ReaderOptions, line: int, row: dict[str, Any]) -> _Row:
    file = draft.file
    stated = whole(file, line, row, "block_size")
    if stated is not None and stated > 0:
        draft.use_blocks(options.block_tokens, BLOCK_TOKENS, stated)
    name = text(file, line, row, "session_id")
    if name is None:
        raise FileFormatError(f"{file.at(line)}: 'session_id' is missing in a trace of deltas")
    ids = items(file, line, row, "hash_ids") or []
    return _Row(
        line,
        name,
        tokens(file, line, row, "input_length"),
        tokens(file, line, row, "output_length"),
        whole_array(file, line, ids, "hash_ids", _PARTIAL),
        time_ns(file, line, row, "timestamp", "ms"),
        time_ns(file, line, row, "delay", "ms"),
    )


def _accumulate(draft: Draft, rows: list[_Row]) -> None:
    sessions: dict[str, _Session] = {}
    ranges: list[list[list[int]]] = []
    waitless = 0
    for row in rows:
        session = sessions.get(row.name)
        if session is None:
            sessions[row.name] = _begin(draft, row, ranges)
            continue
        context = session.context_tokens + row.new_tokens
        follows = row.arrival_ns is None
        waitless += follows and row.delay_ns is None
        ranges.append(_context_ranges(session, context, draft.block_tokens))
        session.last = draft.add(
            row.line,
            context,
            row.reply_tokens,
            arrival_ns=NO_TIME if follows else row.arrival_ns,
            delay_ns=row.delay_ns or 0 if follows else 0,
            session=session.number,
            parent=session.last,
            id_tokens=context,
        )
        session.context_tokens = context + row.reply_tokens
        session.turns += 1
    draft.ids.add_ranges(ranges)
    _say(draft, rows, sessions, waitless)


def _begin(draft: Draft, row: _Row, ranges: list[list[list[int]]]) -> _Session:
    """First row of a session: ids as they are; only whole blocks are a prefix of later prompts."""
    whole_blocks = row.new_tokens // draft.block_tokens
    ranges.append(_pairs(row.ids))
    number = draft.session_number(row.name)
    place = draft.add(
        row.line,
        row.new_tokens,
        row.reply_tokens,
        arrival_ns=row.arrival_ns,
        session=number,
        id_tokens=row.new_tokens,
    )
    shared = _pairs(row.ids[:whole_blocks])
    return _Session(number, shared, whole_blocks, row.new_tokens + row.reply_tokens, place)


def _context_ranges(session: _Session, context: int, block_tokens: int) -> list[list[int]]:
    own = (session.number + 1) * SESSION_STRIDE
    blocks, rest = divmod(context, block_tokens)
    pairs = list(session.shared)
    if blocks > session.shared_blocks:
        pairs.append([own + session.shared_blocks, own + blocks - 1])
    if rest:
        partial = own + _PARTIAL + session.turns
        pairs.append([partial, partial])
    return pairs


def _pairs(ids: Ints) -> list[list[int]]:
    runs = as_runs(ids)
    return np.stack([runs[:, 0], runs[:, 0] + runs[:, 1] - 1], axis=1).tolist()


def _say(draft: Draft, rows: list[_Row], sessions: dict[str, _Session], waitless: int) -> None:
    draft.notes.append(
        f"input lengths are whole contexts of {counted(len(sessions), 'session')}: earlier inputs "
        "and replies are added; a reply's blocks and those after it are private to the session"
    )
    if waitless:
        draft.doubts.append(f"{counted(waitless, 'request')} without a delay, set to 0")
    first = {row.name: row for row in reversed(rows)}
    later = [row for row in rows if first[row.name] is not row and len(row.ids)]
    alike = sum(row.ids[:1].tolist() == first[row.name].ids[:1].tolist() for row in later)
    if alike:
        draft.doubts.append(
            f"{counted(alike, 'row')} whose ids begin as those of the session's first row: if rows "
            "hold whole prompts, read the file as mooncake"
        )
    ids = np.concatenate([np.empty(0, dtype=np.int64), *(row.ids for row in later)])
    repeated = int((np.diff(np.sort(ids)) == 0).sum())
    if repeated:
        draft.doubts.append(
            f"{counted(repeated, 'id')} of later turns given more than once: not taken as shared, "
            "as replies without ids come before them"
        )


AIPERF = Reader(
    "aiperf agentic deltas, JSONL",
    _matches,
    _read,
    KEYS,
    CLOCK,
    known=frozenset({"group_id", "is_restart"}),
)
