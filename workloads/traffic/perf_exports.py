"""Exports of load generators: aiperf's records of requests, and genai-perf's, which lack lengths.

Source: ai-dynamo/aiperf `profile_export.jsonl` (Apache-2.0), triton genai-perf
`profile_export.json`. aiperf: `metadata` with times in ns, `metrics` with lengths as `value`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.basis.errors import FileFormatError, InputError
from workloads.traffic.draft import Draft, counted
from workloads.traffic.fields import text, time_ns, tokens
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace_file import TraceFile

_INPUT, _OUTPUT = "input_sequence_length", "output_sequence_length"
_USED = {"request_start_ns", "session_num", "turn_index", "benchmark_phase", "was_cancelled",
         "conversation_id"}  # fmt: skip
# Of metadata and of the row: beside the request itself, or what the run measured of it.
_KNOWN = {"request_end_ns", "request_ack_ns", "cancellation_time_ns", "worker_id", "error",
          "record_processor_id", "x_request_id", "x_correlation_id", "credit_issued_ns",
          "trace_data"}  # fmt: skip
_LEAST_WALL_CLOCK_NS = 10**18


def _matches(file: TraceFile) -> bool:
    rows = file.first_rows
    return bool(rows) and {"metadata", "metrics"} <= set(rows[0])


def _read(file: TraceFile, options: ReaderOptions) -> Draft:
    """Requests that were profiled and not cancelled, at the times that they were sent."""
    draft = Draft(file, "aiperf-export")
    dropped: dict[str, int] = {}
    for line, row in file.json_rows():
        about, metrics = _part(file, line, row, "metadata"), _part(file, line, row, "metrics")
        file.see(about)
        phase = text(file, line, about, "benchmark_phase") or "profiling"
        gone = "cancelled" if about.get("was_cancelled") else phase if phase != "profiling" else ""
        if not gone and row.get("error"):
            gone = "failed"
        if gone:
            dropped[gone] = dropped.get(gone, 0) + 1
            continue
        chat = text(file, line, about, "conversation_id")
        name = chat if chat is not None else text(file, line, about, "session_num")
        draft.add(
            line,
            _length(file, line, metrics, _INPUT),
            _length(file, line, metrics, _OUTPUT),
            arrival_ns=time_ns(file, line, about, "request_start_ns", "ns")
            if not _is_clock(about)
            else int(about["request_start_ns"]),
            session=draft.session_number(("line", line) if name is None else name),
        )
    for reason, count in dropped.items():
        draft.notes.append(f"dropped {counted(count, 'request')} that were {reason}")
    _from_earliest(draft)
    return draft


def _is_clock(about: dict[str, Any]) -> bool:
    start = about.get("request_start_ns")
    return type(start) is int and start >= _LEAST_WALL_CLOCK_NS


def _from_earliest(draft: Draft) -> None:
    timed = [at for at in draft.arrival_ns if at >= 0]
    start = min(timed, default=0)
    if start >= _LEAST_WALL_CLOCK_NS:
        draft.arrival_ns = [at - start if at >= 0 else at for at in draft.arrival_ns]
        draft.notes.append(f"times are counted from {np.datetime64(start, 'ns')} UTC")


def _part(file: TraceFile, line: int, row: dict[str, Any], key: str) -> dict[str, Any]:
    part = row.get(key)
    if type(part) is not dict:
        raise FileFormatError(f"{file.at(line)}: {key!r} is {part!r:.60}, expected an object")
    return part


def _length(file: TraceFile, line: int, metrics: dict[str, Any], key: str) -> int:
    return tokens(file, line, {key: _part(file, line, metrics, key).get("value")}, key)


AIPERF_EXPORT = Reader(
    "aiperf records of requests (profile_export.jsonl)",
    _matches,
    _read,
    frozenset({"metadata", "metrics", *_USED}),
    "metadata.request_start_ns in ns",
    known=frozenset(_KNOWN),
)


def refuse_genai(file: TraceFile) -> None:
    """Raise InputError for an export of genai-perf, which has no lengths."""
    if file.head.lstrip()[:1] == b"{" and b'"experiments"' in file.head:
        raise InputError(
            f"{file.path}: an export of genai-perf has times and texts of requests, but no lengths "
            "in tokens: count them into a CSV and name its columns with --columns, or give the "
            "inputs as custom JSONL with --estimate-tokens"
        )
