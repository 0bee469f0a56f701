"""Weka sessions as kv-cache-tester writes them: ids written out, sub-agents nested in their place.

Source: callanjfox/kv-cache-tester (Apache-2.0) and SemiAnalysis AgentX corpora of the same form.
One JSON object a session: one a line, a file that is one, or a folder of such files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from simulator.basis.errors import FileFormatError
from workloads.traffic.draft import Draft
from workloads.traffic.fields import items, text, time_ns, tokens, whole
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace_file import TraceFile
from workloads.traffic.weka_session import MAIN, Repairs, WekaRequest, add_session, say

BLOCK_TOKENS = 64
LOCAL, GLOBAL = "local", "global"


def _matches(file: TraceFile) -> bool:
    rows = file.first_rows
    if rows:
        return "requests" in rows[0]
    return b'"hash_id_scope"' in file.head or b'"requests"' in file.head


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    draft = Draft(file, "weka", sort=False)
    draft.use_blocks(options.block_tokens, BLOCK_TOKENS)
    repairs = Repairs()
    for line, row in _sessions(file):
        one_block_size(draft, line, row, "block_size", options)
        rows = items(file, line, row, "requests")
        if rows is None:
            raise FileFormatError(f"{file.at(line)}: no list 'requests' in this session")
        session = session_number(draft, line, row)
        private = ids_are_private(draft, line, row, "hash_id_scope")
        requests = list(_requests(file, line, rows, MAIN))
        add_session(draft, session, requests, repairs, ranges=False, private=private)
    say(draft, repairs)
    return draft


def _sessions(file: TraceFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Sessions of a file of lines, or the one of a file that is a single object over many lines."""
    if file.first_rows:
        yield from file.json_rows()
        return
    data = b"".join(line for _, line in file.lines())
    try:
        row = json.loads(data)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise FileFormatError(
            f"{file.at(line)}: truncated or damaged JSON ({getattr(error, 'msg', error)}); fetch "
            "the file again"
        ) from error
    if type(row) is not dict:
        raise FileFormatError(f"{file.at(1)}: a JSON {type(row).__name__}, expected one session")
    file.see(row)
    yield 1, row


def one_block_size(
    draft: Draft, line: int, row: dict[str, Any], key: str, options: ReaderOptions
) -> None:
    """Take the block size that a session states; refuse one unlike that of the others."""
    stated = whole(draft.file, line, row, key)
    if stated is None or options.block_tokens:
        return
    if stated < 1 or (draft.fixed_block and stated != draft.block_tokens):
        allowed = f"{draft.block_tokens} as before" if draft.fixed_block else "at least 1"
        raise FileFormatError(f"{draft.file.at(line)}: {key!r} is {stated}, expected {allowed}")
    draft.use_blocks(options.block_tokens, BLOCK_TOKENS, stated)


def ids_are_private(draft: Draft, line: int, row: dict[str, Any], key: str) -> bool:
    """Whether the ids of a session are its own; one file has one scope, `local` if unsaid."""
    scope = row.get(key, LOCAL)
    if scope not in (LOCAL, GLOBAL):
        raise FileFormatError(
            f"{draft.file.at(line)}: {key!r} is {scope!r:.60}, expected {LOCAL!r} or {GLOBAL!r}"
        )
    draft.scope = draft.scope or scope
    if scope != draft.scope:
        raise FileFormatError(
            f"{draft.file.at(line)}: {key!r} is {scope!r} after {draft.scope!r}, expected one scope"
        )
    return bool(scope == LOCAL)


def session_number(draft: Draft, line: int, row: dict[str, Any]) -> int:
    """Number of a session; a repeated name is refused, as its ids would become one session's."""
    name = text(draft.file, line, row, "id") or f"line {line}"
    before = draft.sessions
    number = draft.session_number(name)
    if draft.sessions == before:
        raise FileFormatError(f"{draft.file.at(line)}: session {name!r:.60} a second time")
    return number


def _requests(file: TraceFile, line: int, rows: list[Any], agent: str) -> Iterator[WekaRequest]:
    """Requests in order of the file; those of a sub-agent in the place where it was called."""
    for row in rows:
        if type(row) is not dict:
            raise FileFormatError(f"{file.at(line)}: a request is {row!r:.60}, expected an object")
        file.see(row)
        if row.get("type") == "subagent":
            name = text(file, line, row, "agent_id") or f"{agent}/sub"
            yield from _requests(file, line, items(file, line, row, "requests") or [], name)
            continue
        if row.get("type", "n") not in ("n", "s"):
            raise FileFormatError(
                f"{file.at(line)}: 'type' is {row['type']!r:.60}, expected 'n', 's' or 'subagent'"
            )
        yield WekaRequest(
            line,
            agent,
            time_ns(file, line, row, "t"),
            time_ns(file, line, row, "api_time"),
            time_ns(file, line, row, "think_time"),
            tokens(file, line, row, "in"),
            tokens(file, line, row, "out"),
            items(file, line, row, "hash_ids") or [],
        )


WEKA = Reader(
    "Weka sessions of kv-cache-tester, block ids written out",
    _matches,
    _read,
    frozenset(
        {"id", "block_size", "hash_id_scope", "requests", "type", "agent_id", "t", "api_time"}
        | {"think_time", "in", "out", "hash_ids"}
    ),
    "t in seconds",
    (add_session,),
    known=frozenset(
        {
            "models",
            "model",
            "tool_tokens",
            "system_tokens",
            "input_types",
            "output_types",
            "stop",
            "subagent_type",
            "duration_ms",
            "total_tokens",
            "tool_use_count",
            "status",
        }
    ),
)
