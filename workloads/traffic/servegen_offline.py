"""ServeGen offline JSONL: requests without arrivals, with block ids of 16 tokens or with durations.

Source: alibaba/ServeGen (Apache-2.0), offline workloads. `duration` is the recorded service in ms,
`img_ids` the images of a prompt.
"""

from __future__ import annotations

from workloads.traffic.draft import Draft, counted
from workloads.traffic.fields import items, text, time_ns, tokens
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace_file import TraceFile

BLOCK_TOKENS = 16
KEYS = frozenset(
    {"request_id", "type", "input_length", "output_length", "hash_ids", "img_ids", "duration"}
)


def _matches(file: TraceFile) -> bool:
    rows = file.first_rows
    return (
        bool(rows)
        and {"request_id", "type", "input_length"} <= set(rows[0])
        and not {"timestamp", "chat_id", "session_id", "delay"} & set(rows[0])
    )


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """Every line a request of its own; all are asked at 0, as nothing arrives by a clock."""
    draft = Draft(file, "servegen-offline")
    draft.use_blocks(options.block_tokens, BLOCK_TOKENS)
    durations: list[int] = []
    lengthless = images = pictured = 0
    kinds: dict[str, int] = {}
    for line, row in file.json_rows():
        length = tokens(file, line, row, "input_length")
        answer = 0
        if row.get("output_length") is None:
            lengthless += 1
        else:
            answer = tokens(file, line, row, "output_length")
        ids = items(file, line, row, "hash_ids")
        duration = time_ns(file, line, row, "duration", "ms")
        durations += [] if duration is None else [duration]
        own = len(items(file, line, row, "img_ids") or [])
        images, pictured = images + own, pictured + (own > 0)
        kind = text(file, line, row, "type") or ""
        kinds[kind] = kinds.get(kind, 0) + 1
        draft.add(
            line, length, answer,
            arrival_ns=0, session=draft.session_number(("line", line)),
            id_tokens=-1 if ids is None else length,
        )  # fmt: skip
        draft.ids.add_list(ids or ())
    _say(draft, durations, lengthless, kinds)
    if images:
        draft.notes.append(
            f"{counted(images, 'image')} in {pictured:,} of {counted(len(draft), 'request')}, "
            "dropped: a prompt is its tokens"
        )
    return draft


def _say(draft: Draft, durations: list[int], lengthless: int, kinds: dict[str, int]) -> None:
    draft.notes.append("an offline workload: no request has an arrival, all are asked at 0 s")
    if lengthless:
        draft.notes.append(f"{counted(lengthless, 'request')} without an output length, taken as 0")
    if durations:
        draft.notes.append(
            f"recorded durations of {min(durations) / 1e9:g} to {max(durations) / 1e9:g} s are not "
            "used: service takes what the simulated machine takes"
        )
    if set(kinds) - {"text"}:
        listed = ", ".join(f"{count:,} {kind or 'unnamed'}" for kind, count in kinds.items())
        draft.notes.append(f"types of requests: {listed}; all are read as text")


SERVEGEN_OFFLINE = Reader(
    "ServeGen offline JSONL, ids of 16 tokens or durations, no arrivals",
    _matches,
    _read,
    KEYS,
    "none: all are asked at 0",
)
