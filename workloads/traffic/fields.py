"""Fields of a JSON row by type: whole numbers, seconds, lists; a wrong one is refused by line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from simulator.basis.errors import FileFormatError
from workloads.traffic.reader_options import MAX_SECONDS
from workloads.traffic.trace import Ints
from workloads.traffic.trace_file import TraceFile

# Tokens of one request beyond this are no length but a damaged number.
MAX_TOKENS = 1 << 40
MAX_CLOCK_SECONDS = 6e9  # the year 2160
_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_ABSENT = object()


def tokens(file: TraceFile, line: int, row: dict[str, Any], key: str) -> int:
    """A length in tokens, at least 0."""
    value = row.get(key, _ABSENT)
    if type(value) is int and 0 <= value < MAX_TOKENS:
        return value
    if type(value) is float and value.is_integer() and 0 <= value < MAX_TOKENS:
        return int(value)
    raise _wrong(file, line, key, value, "a whole number of tokens, at least 0")


def time_ns(
    file: TraceFile, line: int, row: dict[str, Any], key: str, unit: str = "s"
) -> int | None:
    """A time or wait in nanoseconds, at least 0; None where it is missing or null."""
    value = row.get(key)
    if value is None:
        return None
    factor = _NS[unit]
    most = MAX_SECONDS * 1e9 / factor
    if type(value) is int and 0 <= value <= most:
        return value * factor
    if type(value) is float and math.isfinite(value) and 0 <= value <= most:
        return round(value * factor)
    allowed = f"a number of {unit}, at least 0 and at most {most:g}"
    raise _wrong(file, line, key, value, allowed)


def clock_ns(file: TraceFile, line: int, row: dict[str, Any], key: str) -> int | None:
    """A time in seconds, also one of the wall clock since 1970; None where it is missing or null.

    Whole and broken seconds are taken apart, so that 10^9 s keep their nanoseconds as well as a
    float has them.
    """
    value = row.get(key)
    if value is None:
        return None
    if type(value) in (int, float) and 0 <= value <= MAX_CLOCK_SECONDS:
        seconds = int(value)
        return seconds * 10**9 + round((value - seconds) * 1e9)
    allowed = f"a number of s, at least 0 and at most {MAX_CLOCK_SECONDS:g}"
    raise _wrong(file, line, key, value, allowed)


def items(file: TraceFile, line: int, row: dict[str, Any], key: str) -> list[Any] | None:
    """A list; None where it is missing or null."""
    value = row.get(key)
    if value is None or type(value) is list:
        return value
    raise _wrong(file, line, key, value, "a list")


def whole_array(file: TraceFile, line: int, values: list[Any], key: str, limit: int) -> Ints:
    """A list of whole numbers from 0 to below `limit`, as an array [n]."""
    try:
        array = np.array(values) if values else np.empty(0, dtype=np.int64)
    except (ValueError, OverflowError):
        array = np.empty(0, dtype=object)
    good = array.dtype == np.int64 and array.ndim == 1
    if good and (not len(array) or 0 <= array.min() <= array.max() < limit):
        return array
    raise FileFormatError(
        f"{file.at(line)}: {key!r} are expected to be whole numbers from 0 to below {limit:,}"
    )


def text(file: TraceFile, line: int, row: dict[str, Any], key: str) -> str | None:
    """A name: text or a whole number; None where it is missing or null."""
    value = row.get(key)
    if value is None or type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    raise _wrong(file, line, key, value, "text or a whole number")


def whole(file: TraceFile, line: int, row: dict[str, Any], key: str) -> int | None:
    """A whole number of any sign; None where it is missing or null."""
    value = row.get(key)
    if value is None or type(value) is int:
        return value
    raise _wrong(file, line, key, value, "a whole number")


def _wrong(file: TraceFile, line: int, key: str, value: Any, allowed: str) -> FileFormatError:
    if value is _ABSENT:
        return FileFormatError(f"{file.at(line)}: {key!r} is missing, expected {allowed}")
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return FileFormatError(f"{file.at(line)}: {key!r} is {shown}, expected {allowed}")
