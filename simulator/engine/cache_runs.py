"""Contiguous runs of bytes that cache accesses make: entries of a page, or single entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.engine.physical_layout import PhysicalLayout, PoolGeometry
from workloads.work import Read


@dataclass(frozen=True, slots=True)
class CacheRuns:
    """Cache access of one pattern: `nbytes` distinct ones in runs of `run_bytes`.

    Runs begin at multiples of `run_bytes`. `touch_bytes` counts every fetch by a query's block.
    """

    run_bytes: int
    nbytes: int
    touch_bytes: int
    written: bool


def read_runs(
    physical: PhysicalLayout, rows: PoolGeometry, read: Read, touches: float
) -> CacheRuns:
    """Runs of a read: a row where rows are picked, the rows of a page where all are read in order.

    Assumes: pages lie scattered over memory, the rows of each side by side; what pads rows is read
        along with those of a page.
    """
    picked = read.pattern == "gather"
    run = physical.picked_run_bytes(rows) if picked else rows.run_bytes
    size = moved_row_bytes(rows, read)
    return CacheRuns(run, round(size * read.distinct), round(size * touches), False)


def moved_row_bytes(rows: PoolGeometry, read: Read) -> float:
    """Bytes that memory moves for each row of a read."""
    return rows.picked_row_bytes if read.pattern == "gather" else rows.scanned_row_bytes


def append_runs(rows: PoolGeometry, entries: int) -> CacheRuns:
    """Runs of an append: requests add to pages of their own, row by row.

    Assumes: rows that a step appends lie apart, one run each.
    """
    size = rows.row_bytes
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
