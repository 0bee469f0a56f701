"""Weka sessions with ids as ranges: one session a line, `h` holds inclusive [first, last] pairs.

Lengths, times and ids as in `weka.py`, under short names: `t`, `k` (main or sub), `a` (sub-agent),
`in`, `out`, `api` (recorded service, s), `think` (recorded wait, s), `h`. A session may have a
`start` in seconds and a `scope` that says `global`; this project writes both.
"""

from __future__ import annotations

from typing import Any

from simulator.basis.errors import FileFormatError
from workloads.traffic.draft import Draft
from workloads.traffic.fields import items, text, time_ns, tokens
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace_file import TraceFile
from workloads.traffic.weka import BLOCK_TOKENS, ids_are_private, one_block_size, session_number
from workloads.traffic.weka_session import MAIN, Repairs, WekaRequest, add_session, say


def _matches(file: TraceFile) -> bool:
    rows = file.first_rows
    return bool(rows) and "reqs" in rows[0]


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    draft = Draft(file, "weka-ranges", sort=False)
    draft.use_blocks(options.block_tokens, BLOCK_TOKENS)
    repairs, started = Repairs(), 0
    for line, row in file.json_rows():
        one_block_size(draft, line, row, "block_size", options)
        rows = items(file, line, row, "reqs")
        if rows is None:
            raise FileFormatError(f"{file.at(line)}: no list 'reqs' of requests in this session")
        stated = row.get("n", len(rows))
        if stated != len(rows):
            raise FileFormatError(
                f"{file.at(line)}: {len(rows)} requests where 'n' says {stated!r:.20}; the line is "
                "damaged"
            )
        session = session_number(draft, line, row)
        private = ids_are_private(draft, line, row, "scope")
        start = time_ns(file, line, row, "start")
        started += start is not None
        requests = [_request(file, line, request) for request in rows]
        add_session(
            draft, session, requests, repairs, ranges=True, private=private, start_ns=start or 0
        )
    say(draft, repairs, started)
    return draft


def _request(file: TraceFile, line: int, row: Any) -> WekaRequest:
    if type(row) is not dict:
        raise FileFormatError(f"{file.at(line)}: a request is {row!r:.60}, expected an object")
    file.see(row)
    kind = row.get("k", "main")
    agent = MAIN if kind == "main" else text(file, line, row, "a") or "sub"
    if kind not in ("main", "sub"):
        raise FileFormatError(f"{file.at(line)}: 'k' is {kind!r:.60}, expected 'main' or 'sub'")
    return WekaRequest(
        line,
        agent,
        time_ns(file, line, row, "t"),
        time_ns(file, line, row, "api"),
        time_ns(file, line, row, "think"),
        tokens(file, line, row, "in"),
        tokens(file, line, row, "out"),
        items(file, line, row, "h") or [],
    )


WEKA_RANGES = Reader(
    "Weka sessions, one a line, block ids as ranges",
    _matches,
    _read,
    frozenset(
        {"id", "block_size", "scope", "start", "n", "reqs"}
        | {"k", "a", "t", "api", "think", "in", "out", "h"}
    ),
    "t in seconds",
    (add_session,),
    known=frozenset({"tool", "sys", "stop"}),
)
