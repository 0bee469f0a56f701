"""All trace formats by name, and one call that tells a file's format and reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from simulator.basis.assumptions import assumptions_of
from simulator.basis.errors import FileFormatError, InputError, unknown_name
from workloads.traffic.aiperf import AIPERF
from workloads.traffic.arrival_steps import SPREAD, spread_arrivals
from workloads.traffic.azure import AZURE
from workloads.traffic.bailian import BAILIAN
from workloads.traffic.burstgpt import BURSTGPT
from workloads.traffic.draft import MISSING, Draft
from workloads.traffic.finish import finished
from workloads.traffic.llmservingsim import LLMSERVINGSIM
from workloads.traffic.mooncake import MOONCAKE
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.servegen import SERVEGEN
from workloads.traffic.trace import NO_TIME, Trace
from workloads.traffic.trace_file import TraceFile, TraceFolder
from workloads.traffic.tracelab import TRACELAB
from workloads.traffic.vidur import VIDUR
from workloads.traffic.weka import WEKA
from workloads.traffic.weka_ranges import WEKA_RANGES

# The first whose `matches` holds is taken, so the special ones stand before the general ones.
READERS: dict[str, Reader] = {
    "weka-ranges": WEKA_RANGES,
    "weka": WEKA,
    "bailian": BAILIAN,
    "aiperf": AIPERF,
    "mooncake": MOONCAKE,
    "llmservingsim": LLMSERVINGSIM,
    "tracelab": TRACELAB,
    "azure": AZURE,
    "burstgpt": BURSTGPT,
    "vidur": VIDUR,
    "servegen": SERVEGEN,
}


_MOST_UNREAD = 20
# Names under which logs keep when a request came.
_CLOCK = re.compile(
    r"arriv|timestamp|datetime|clock|(^|_)(start|sent|submit|submitted|created|queued)(_|$)"
    r"|^(t|ts|time|date)$|_(ts|at)$",
    re.IGNORECASE,
)


def detect_format(file: TraceFile) -> str:
    """Name of the format that a file's first rows show; raises InputError if none does."""
    if not file.head.strip():
        raise FileFormatError(f"{file.path}: the trace is empty, expected at least one request")
    for name, reader in READERS.items():
        if reader.matches(file):
            return name
    if file.head.lstrip()[:1] == b"{":
        next(file.json_rows())  # a damaged first line is said as such
    first = file.head.split(b"\n", 1)[0][:80].decode("utf-8", errors="replace").strip()
    raise InputError(
        f"{file.at(1)}: of no known trace format (it begins {first!r}); known are "
        f"{', '.join(READERS)}: name one if the file is of it"
    )


def read_trace(
    path: Path | str, format: str | None = None, strict: bool = False, **options: Any
) -> Trace:
    """Read a trace, plain or gzip, in one of READERS or in the format its content shows.

    A folder is read as sessions, one JSON file each, as kv-cache-tester stores them.

    `options` are the other fields of ReaderOptions. What was dropped, rounded, sorted, spread or
    not read is said in `Trace.notes`. Raises InputError, with file and line where there is one.
    """
    chosen = ReaderOptions(strict=strict, **options)
    given = Path(path)
    file = TraceFolder(given) if given.is_dir() else TraceFile(given)
    if format is not None and format not in READERS:
        raise InputError(unknown_name("trace format", format, READERS))
    name = format or detect_format(file)
    draft = READERS[name].read(file, chosen)
    draft.notes.insert(0, f"read as {name}")
    _say_unread(draft, READERS[name])
    return finished(draft, chosen)


def _say_unread(draft: Draft, reader: Reader) -> None:
    """Name keys or columns that a file has and its reader does not read.

    Raises FileFormatError where no request has a time and one of those names looks like it.
    """
    unread = [name for name in draft.file.seen if name and name not in reader.keys]
    if not unread:
        return
    times = np.asarray(draft.arrival_ns)
    clocks = [name for name in unread if _CLOCK.search(name)]
    if clocks and len(times) and (times[times != NO_TIME] == MISSING).all():
        raise FileFormatError(
            f"{draft.file.path}: no request has a time as {draft.format} gives it ({reader.clock}),"
            f" but each may have one in {clocks[0]!r}, which is not read; rename it and give it "
            "that unit, or take it out for requests that all arrive at 0"
        )
    more = f" and {len(unread) - _MOST_UNREAD:,} more" if len(unread) > _MOST_UNREAD else ""
    draft.notes.append(f"not read: {', '.join(unread[:_MOST_UNREAD])}{more}")


def trace_assumptions(trace: Trace) -> tuple[str, ...]:
    """What reading a trace assumed, as sentences; none for a trace that was not read."""
    reader = READERS.get(trace.format)
    parts: list[object] = [reader.read, *reader.parts] if reader else []
    if any(SPREAD in note for note in trace.notes):
        parts.append(spread_arrivals)
    return assumptions_of(parts)
