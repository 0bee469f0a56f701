"""Contiguous runs of bytes that cache accesses make: entries of a page, or single entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workloads.state_layout import Region
from workloads.work import Read

# Entries of a page, by pool: pages of 256 tokens, as SGLang has them.
_PAGE_ENTRIES = {"window": 128, "c4": 64, "index": 64, "c128": 2}


@dataclass(frozen=True, slots=True)
class CacheRuns:
    """Cache access of one pattern: `nbytes` distinct ones in runs of `run_bytes`.

    Runs begin at multiples of `run_bytes`. `touch_bytes` counts every fetch by a query's block.
    """

    run_bytes: int
    nbytes: int
    touch_bytes: int
    written: bool


def read_runs(region: Region, read: Read, touches: float) -> CacheRuns:
    """Runs of a read: an entry where entries are picked, a page where all are read in order.

    Assumes: pages of 256 tokens lie scattered over memory, their entries packed: 64 entries of a
        C4 or index pool, 2 of a C128 pool; a window's 128 rows are one run.
    """
    size = region.format.nbytes
    entries = 1 if read.pattern == "gather" else _PAGE_ENTRIES.get(region.pool, 1)
    return CacheRuns(entries * size, round(size * read.distinct), round(size * touches), False)


def append_runs(region: Region, entries: int) -> CacheRuns:
    """Runs of an append: requests add to pages of their own, entry by entry.

    Assumes: entries that a step appends lie apart, one run each.
    """
    size = region.format.nbytes
    return CacheRuns(size, size * entries, size * entries, True)


def joined_runs(runs: Iterable[CacheRuns]) -> tuple[CacheRuns, ...]:
    """Runs of equal size and direction added up, empty ones left out."""
    total: dict[tuple[int, bool], tuple[int, int]] = {}
    for run in runs:
        key = (run.run_bytes, run.written)
        nbytes, touched = total.get(key, (0, 0))
        total[key] = nbytes + run.nbytes, touched + run.touch_bytes
    return tuple(
        CacheRuns(size, nbytes, touched, written)
        for (size, written), (nbytes, touched) in sorted(total.items())
        if nbytes
    )
