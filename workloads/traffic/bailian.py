"""Qwen-Bailian JSONL: chats linked by parent, global salted ids of 16 tokens, seconds.

Source: alibaba-edu/qwen-bailian-usagetraces-anon (Apache-2.0).
"""

from __future__ import annotations

from simulator.basis.errors import FileFormatError
from workloads.traffic.draft import Draft, counted
from workloads.traffic.fields import items, time_ns, tokens, whole
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace import NO_REQUEST
from workloads.traffic.trace_file import TraceFile

BLOCK_TOKENS = 16
ROOT = -1


def _matches(file: TraceFile) -> bool:
    rows = file.first_rows
    return bool(rows) and {"chat_id", "input_length"} <= set(rows[0])


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """A chat's session is its parent's; arrivals stay absolute."""
    draft = Draft(file, "bailian")
    draft.use_blocks(options.block_tokens, BLOCK_TOKENS)
    place: dict[int, int] = {}
    outside = repeated = 0
    for line, row in file.json_rows():
        chat = whole(file, line, row, "chat_id")
        if chat is None:
            raise FileFormatError(f"{file.at(line)}: 'chat_id' is missing, expected a whole number")
        named = whole(file, line, row, "parent_chat_id")
        parent = NO_REQUEST if named in (None, ROOT) else place.get(named or 0, NO_REQUEST)
        outside += parent == NO_REQUEST and named not in (None, ROOT)
        repeated += chat in place
        session = draft.session_number(line) if parent == NO_REQUEST else draft.session[parent]
        input_tokens = tokens(file, line, row, "input_length")
        ids = items(file, line, row, "hash_ids")
        place[chat] = draft.add(
            line,
            input_tokens,
            tokens(file, line, row, "output_length"),
            arrival_ns=time_ns(file, line, row, "timestamp"),
            session=session,
            parent=parent,
            id_tokens=-1 if ids is None else input_tokens,
        )
        draft.ids.add_list(ids or ())
    if outside:
        draft.notes.append(
            f"{counted(outside, 'chat')} whose parent is not before it in the file: each begins a "
            "session"
        )
    if repeated:
        draft.doubts.append(
            f"{counted(repeated, 'chat_id')} given a second time: later parents mean the last one"
        )
    return draft


BAILIAN = Reader(
    "Qwen-Bailian JSONL, chats with global ids",
    _matches,
    _read,
    frozenset(
        {"chat_id", "parent_chat_id", "input_length", "output_length", "hash_ids", "timestamp"}
    ),
    "timestamp in seconds",
    known=frozenset({"type", "turn"}),
)
