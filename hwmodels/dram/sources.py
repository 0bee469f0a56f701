"""Chunks of the standard patterns: streams, gathers, reads and writes mixed, arrivals at a rate."""

from __future__ import annotations

import numpy as np

from hwmodels.dram.chunks import Chunks

_NO_ARRIVALS = np.empty(0, dtype=np.int64)


def gather_chunks(
    count: int, granule: int, align: int, capacity: int, write_fraction: float, seed: int
) -> Chunks:
    """Chunks at addresses uniform over the capacity, aligned; each draws address, then direction.

    A chunk that would pass the end starts a granule before it, aligned down.
    """
    from hwmodels.dram.mersenne import mersenne_words

    drawn = mersenne_words(seed, 2 * count)
    starts = (drawn[0::2] % np.uint64(capacity // align)).astype(np.int64) * align
    starts[starts + granule > capacity] = (capacity - granule) // align * align
    writes = (drawn[1::2].astype(np.float64) / 2.0**64 < write_fraction).astype(np.int64)
    return Chunks(starts, np.full(count, granule, np.int64), writes, _NO_ARRIVALS)


def stream_chunks(
    count: int, granule: int, capacity: int, write_fraction: float, seed: int
) -> Chunks:
    """Consecutive chunks of one array; which of them are writes is drawn."""
    from hwmodels.dram.mersenne import mersenne_words

    starts = np.arange(count, dtype=np.int64) * granule % (capacity // granule * granule)
    drawn = mersenne_words(seed, count)
    writes = (drawn.astype(np.float64) / 2.0**64 < write_fraction).astype(np.int64)
    return Chunks(starts, np.full(count, granule, np.int64), writes, _NO_ARRIVALS)


def copy_chunks(count: int, granule: int, capacity: int, write_fraction: float) -> Chunks:
    """A read stream and a write stream, each consecutive in its own half, evenly interleaved.

    Assumes: the cores work in step, so that reads and writes mix as evenly as their shares allow.
    """
    order = np.arange(count, dtype=np.int64)
    written = np.floor((order + 1) * write_fraction).astype(np.int64)
    writes = np.diff(written, prepend=0)
    half = capacity // 2 // granule
    place = np.where(writes == 1, half + (written - 1) % half, (order - written) % half)
    return Chunks(place * granule, np.full(count, granule, np.int64), writes, _NO_ARRIVALS)


def with_arrivals(chunks: Chunks, bytes_per_s: float, seed: int) -> Chunks:
    """The same chunks in an open loop: exponential gaps with a mean that gives this rate."""
    from hwmodels.dram.mersenne import mersenne_words

    drawn = mersenne_words(seed + 1, chunks.count).astype(np.float64) / 2.0**64
    gaps_ps = -np.log1p(-np.minimum(drawn, 1 - 2.0**-53)) * chunks.sizes * 1e12 / bytes_per_s
    arrivals = np.cumsum(gaps_ps).astype(np.int64)
    return Chunks(chunks.starts, chunks.sizes, chunks.writes, arrivals)
