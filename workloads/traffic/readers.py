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
from workloads.traffic.columns import COLUMNS, parse_columns
from workloads.traffic.draft import MISSING, Draft
from workloads.traffic.finish import finished
from workloads.traffic.llmservingsim import LLMSERVINGSIM
from workloads.traffic.mooncake import MOONCAKE
from workloads.traffic.perf_exports import AIPERF_EXPORT, refuse_genai
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.servegen import SERVEGEN
from workloads.traffic.servegen_offline import SERVEGEN_OFFLINE
from workloads.traffic.text_prompts import CUSTOM_PROMPTS, OPENAI_BATCH, SHAREGPT
from workloads.traffic.trace import NO_TIME, Trace
from workloads.traffic.trace_file import TraceFile, TraceFolder
from workloads.traffic.tracelab import TRACELAB
from workloads.traffic.tracelab_replay import TRACELAB_REPLAY
from workloads.traffic.vidur import VIDUR
from workloads.traffic.weka import WEKA
from workloads.traffic.weka_ranges import WEKA_RANGES

# The first whose `matches` holds is taken, so the special ones stand before the general ones.
READERS: dict[str, Reader] = {
    "weka-ranges": WEKA_RANGES,
    "weka": WEKA,
    "bailian": BAILIAN,
    "servegen-offline": SERVEGEN_OFFLINE,
    "aiperf-export": AIPERF_EXPORT,
    "aiperf": AIPERF,
    "mooncake": MOONCAKE,
    "llmservingsim": LLMSERVINGSIM,
    "tracelab": TRACELAB,
    "tracelab-replay": TRACELAB_REPLAY,
    "azure": AZURE,
    "burstgpt": BURSTGPT,
    "vidur": VIDUR,
    "servegen": SERVEGEN,
    "sharegpt": SHAREGPT,
    "openai-batch": OPENAI_BATCH,
    "custom": CUSTOM_PROMPTS,
}


_MOST_UNREAD = 20
# Names, in small letters with `_` between words, of what a request may not be read without.
_LOOKS = {
    "a time": re.compile(
        r"(^|_)(time|times|duration|delay|latency|wait|think|elapsed|ttft|tpot|itl|e2e)(_|$)"
        r"|_(s|ms|us|ns|sec|secs|seconds)$"
    ),
    "a length": re.compile(
        r"tokens?(_|$)|toks?(_|$)|(^|_)(len|length|lengths|isl|osl|size|words|chars)(_|$)"
    ),
    "an id": re.compile(
        r"(^|_)(ids?|uuid|guid|hash|hashes|session|conversation|chat|thread|user|tenant|parent"
        r"|turn|round)(_|$)"
    ),
}
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
    refuse_genai(file)
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
    if chosen.columns is not None:
        if format is not None:
            raise InputError(
                f"--columns names the columns of any file: leave out format {format!r}"
            )
        draft = COLUMNS.read(file, chosen)
        _say_unread(draft, COLUMNS, chosen)
        return finished(draft, chosen)
    if format is not None and format not in READERS:
        raise InputError(unknown_name("trace format", format, READERS))
    name = format or detect_format(file)
    draft = READERS[name].read(file, chosen)
    draft.notes.insert(0, f"read as {name}")
    _say_unread(draft, READERS[name], chosen)
    return finished(draft, chosen)


def _say_unread(draft: Draft, reader: Reader, options: ReaderOptions) -> None:
    """Name keys or columns that a file has and its reader does not read.

    Raises FileFormatError for one that looks like a time, a length or an id and is none of those
    that the format is known to have beside: a request may not be what it seems without it.
    """
    used = reader.keys
    if reader is COLUMNS:  # who names the columns has chosen
        named = parse_columns(options.columns or "").values()
        used = frozenset(name for c in named for name in (c.name, c.name.split(".")[0]))
    unread = [name for name in draft.file.seen if name and name not in used]
    absent = [name for name in options.ignore if name not in draft.file.seen]
    if absent:
        raise InputError(
            f"{draft.file.path}: {absent[0]!r} is to be ignored, but no row has it "
            f"(--ignore); the file has {', '.join(map(repr, draft.file.seen)):.300}"
        )
    if not unread:
        return
    _refuse_clocks(draft, reader, [name for name in unread if name not in options.ignore])
    if reader is not COLUMNS:
        _refuse_looks(draft, reader, unread, options.ignore)
    more = f" and {len(unread) - _MOST_UNREAD:,} more" if len(unread) > _MOST_UNREAD else ""
    draft.notes.append(f"not read: {', '.join(unread[:_MOST_UNREAD])}{more}")


def _refuse_looks(
    draft: Draft, reader: Reader, unread: list[str], ignored: tuple[str, ...]
) -> None:
    faults = [
        f"{name!r} looks like {what}"
        for name in unread
        if name not in reader.known
        and name not in ignored
        and (what := _looks_like(name)) is not None
    ]
    if faults:
        names = [name for name in unread if name not in reader.known and _looks_like(name)]
        raise FileFormatError(
            f"{draft.file.path}: {', '.join(faults[:_MOST_UNREAD])} and {draft.format} does not "
            f"read it: a request may not be what it seems; give --ignore {','.join(names)} to "
            "leave it out, or say what each column is with --columns"
        )


def _looks_like(name: str) -> str | None:
    """What a name looks like, of that which requests are made of."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    plain = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    if _CLOCK.search(name):
        return "a time"
    return next((what for what, looks in _LOOKS.items() if looks.search(plain)), None)


def _refuse_clocks(draft: Draft, reader: Reader, unread: list[str]) -> None:
    """Raise FileFormatError where no request has a time and an unread name looks like one."""
    times = np.asarray(draft.arrival_ns)
    clocks = [name for name in unread if _CLOCK.search(name)]
    if clocks and len(times) and (times[times != NO_TIME] == MISSING).all():
        raise FileFormatError(
            f"{draft.file.path}: no request has a time as {draft.format} gives it ({reader.clock}),"
            f" but each may have one in {clocks[0]!r}, which is not read; rename it and give it "
            "that unit, or take it out for requests that all arrive at 0"
        )


def trace_assumptions(trace: Trace) -> tuple[str, ...]:
    """What reading a trace assumed, as sentences; none for a trace that was not read."""
    reader = READERS.get(trace.format)
    parts: list[object] = [reader.read, *reader.parts] if reader else []
    if any(SPREAD in note for note in trace.notes):
        parts.append(spread_arrivals)
    return assumptions_of(parts)
