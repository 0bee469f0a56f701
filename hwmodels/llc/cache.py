"""A run of the cache: arrays, the compiled call, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hwmodels.llc.accesses import AccessList, joined
from hwmodels.llc.spec import POLICIES, CacheSpec


@dataclass(frozen=True)
class CacheResult:
    """Counts in sectors. `misses` found no sector, of which `fills` were fetched from memory.

    `hit_rates` are of each list of accesses. `memory` holds the requests to memory in order:
    start, bytes, whether written. `latency_s` is the mean over near and far sectors, hits only.
    """

    accesses: int
    hits: int
    misses: int
    fills: int
    write_backs: int
    evictions: int
    near: int
    far: int
    sector_bytes: int
    latency_s: float
    hit_rates: tuple[float, ...]
    memory: np.ndarray = field(repr=False, compare=False)

    @property
    def hit_rate(self) -> float:
        """Share of sectors that were found."""
        return self.hits / max(self.accesses, 1)

    @property
    def fill_bytes(self) -> int:
        """Bytes fetched from memory."""
        return self.fills * self.sector_bytes

    @property
    def write_back_bytes(self) -> int:
        """Bytes written to memory as lines made room, and with `flush` at the end."""
        return self.write_backs * self.sector_bytes


def run_cache(
    spec: CacheSpec, lists: AccessList | Sequence[AccessList], flush: bool = False
) -> CacheResult:
    """Serve lists of accesses, one after the other, by a cache that is empty at first.

    Assumes: writes take a line without fetching it; sectors written in part are fetched first.
    """
    from hwmodels.llc import engine

    given = [lists] if isinstance(lists, AccessList) else list(lists)
    whole = joined(given)
    lines = spec.partitions * spec.sets * spec.ways
    tags = np.full(lines, -1, np.int64)
    valid, dirty, stamps = (np.zeros(lines, np.int64) for _ in range(3))
    totals = np.zeros(engine.TOTALS, np.int64)
    hits_of = np.zeros(whole.count, np.int64)
    geometry = np.array(
        [spec.line_bytes, spec.sector_bytes, spec.ways, spec.sets, spec.partitions,
         POLICIES.index(spec.policy)], np.int64,
    )  # fmt: skip
    trace = np.empty((_most_requests(spec, whole), 3), np.int64)
    engine.run_cache(
        whole.starts, whole.sizes, whole.writes, whole.cores, tags, valid, dirty, stamps,
        geometry, totals, hits_of, trace,
    )  # fmt: skip
    if flush:
        engine.flush_cache(tags, dirty, geometry, totals, trace)
    return _result(spec, given, totals, hits_of, trace)


def _most_requests(spec: CacheSpec, whole: AccessList) -> int:
    """A line that is touched asks memory at most for its sectors, now and when it goes."""
    touched = (whole.starts + whole.sizes - 1) // spec.line_bytes - whole.starts // spec.line_bytes
    runs_a_line = (spec.sectors_a_line + 1) // 2
    return int((touched + 1).sum()) * 2 * runs_a_line


def _result(
    spec: CacheSpec,
    lists: Sequence[AccessList],
    totals: np.ndarray,
    hits_of: np.ndarray,
    trace: np.ndarray,
) -> CacheResult:
    hits, misses, fills, back, evictions, near, far, traced = map(int, totals)
    rates, first = [], 0
    for one in lists:
        own = slice(first, first + one.count)
        last = (one.starts + one.sizes - 1) // spec.sector_bytes
        sectors = int((last - one.starts // spec.sector_bytes + 1).sum())
        rates.append(int(hits_of[own].sum()) / max(sectors, 1))
        first += one.count
    reached = near + far
    wait = near * spec.near_latency_s + far * spec.far_latency_s
    return CacheResult(
        accesses=hits + misses,
        hits=hits,
        misses=misses,
        fills=fills,
        write_backs=back,
        evictions=evictions,
        near=near,
        far=far,
        sector_bytes=spec.sector_bytes,
        latency_s=wait / reached if reached else spec.near_latency_s,
        hit_rates=tuple(rates),
        memory=trace[:traced].copy(),
    )
