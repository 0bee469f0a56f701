"""Streams of many cores side by side: each reads (or writes) its own region from front to back."""

from __future__ import annotations

import numpy as np

from hwmodels.dram.chunks import Chunks

TURN_BYTES = 4096
_NO_ARRIVALS = np.empty(0, dtype=np.int64)


def core_stream_chunks(
    count: int, granule: int, capacity: int, write_fraction: float, streams: int, seed: int
) -> Chunks:
    """`count` chunks or a few more, so that turns are whole.

    Reads lie in the lower part of the memory, writes in the upper one, a region for each core.

    Assumes: regions begin anywhere, as the physical pages of an allocation do.
    Assumes: a core asks for 4 KiB of its stream in one go; cores take turns and drift apart by up
        to one turn; turns that write are spread as evenly as their share allows.
    """
    random = np.random.default_rng(seed)
    chunks_a_turn = max(1, TURN_BYTES // granule)
    turn_bytes = chunks_a_turn * granule
    turns = -(-count // chunks_a_turn)
    order = np.arange(turns)
    order = order[np.argsort(order + random.random(turns) * streams, kind="stable")]
    written_before = np.floor(order * write_fraction).astype(np.int64)
    writes = np.floor((order + 1) * write_fraction).astype(np.int64) - written_before
    number = np.where(writes == 1, written_before, order - written_before)
    region = max(1, capacity // 2 // streams // turn_bytes)  # in turns
    first = random.integers(0, region, 2 * streams)
    stream = number % streams + writes * streams
    starts = (stream * region + (first[stream] + number // streams) % region) * turn_bytes
    within = np.arange(chunks_a_turn) * granule
    all_starts = (starts[:, None] + within[None, :]).reshape(-1).astype(np.int64)
    all_writes = np.repeat(writes, chunks_a_turn)
    return Chunks(all_starts, np.full(len(all_starts), granule, np.int64), all_writes, _NO_ARRIVALS)
