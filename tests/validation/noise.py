"""What of the errors no model could take away: rows that say different things of one work.

`neighbours`: pairs of rows that differ in one size by a factor of 2 at most and in nothing else, of
which one is predicted high and the other low although nothing changes between them: the median of
the difference of their errors, over the root of two. `frameworks`: rows of the same work that two
engines timed: half of the median difference of their logarithms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from simulator.calibration.measured import SIZES, TEXT
from simulator.calibration.validation import Row, statistics_of

# Sizes that rows vary finely; the others say what is run.
VARIED = (
    *("m", "n", "k", "batch", "new_tokens", "past_tokens", "num_tokens", "message_size"),
    *("local_heads", "inter_size"),
)
BY = ("engine", "kernel", "kernel_source")
NEAR = np.log(2.0) * 1.01


@dataclass(frozen=True, slots=True)
class Noise:
    """What rows of a file say of each other; `nan` where no two can be compared."""

    file: str
    median_error: float
    pairs: int
    neighbours: float
    same: int
    frameworks: float


def noise(rows: Iterable[Row]) -> list[Noise]:
    """Noise by file."""
    ordered = sorted(rows, key=lambda row: row.file)
    return [_of_file(file, list(own)) for file, own in groupby(ordered, lambda row: row.file)]


def _of_file(file: str, rows: Sequence[Row]) -> Noise:
    apart = list(_neighbours(rows))
    between = list(_frameworks(rows))
    return Noise(
        file=file,
        median_error=statistics_of(rows).median_abs_error,
        pairs=len(apart),
        neighbours=float(np.median(apart)) / 2**0.5 if apart else float("nan"),
        same=len(between),
        frameworks=float(np.median(between)) / 2 if between else float("nan"),
    )


def _neighbours(rows: Sequence[Row]) -> Iterable[float]:
    for own in _groups(rows, lambda row: (row.chip, *_texts(row, ()), *_fixed(row))):
        sizes = np.array([_varied(row) for row in own])
        off = np.array([row.log_error for row in own])
        for i in range(len(own) - 1):
            far: NDArray[np.float64] = np.abs(sizes[i + 1 :] - sizes[i]).sum(axis=1)
            near = int(far.argmin())
            if far[near] <= NEAR:
                yield abs(float(off[i + 1 + near] - off[i]))


def _frameworks(rows: Sequence[Row]) -> Iterable[float]:
    for own in _groups(rows, lambda row: (row.chip, *_texts(row, BY), *_fixed(row), *_varied(row))):
        times = {row.engine.partition("-")[0]: row.measured_s for row in own}
        logs = sorted(np.log(list(times.values())))
        if len(logs) > 1:
            yield float(logs[-1] - logs[0])


def _groups(rows: Sequence[Row], key) -> Iterable[list[Row]]:  # type: ignore[no-untyped-def]
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return (own for own in found.values() if len(own) > 1)


def _texts(row: Row, without: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.columns.get(name, "")) for name in sorted(TEXT) if name not in without)


def _fixed(row: Row) -> tuple[float, ...]:
    return tuple(float(row.columns.get(name, 0)) for name in SIZES if name not in VARIED)


def _varied(row: Row) -> tuple[float, ...]:
    return tuple(float(np.log1p(float(row.columns.get(name, 0)))) for name in VARIED)
