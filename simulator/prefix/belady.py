"""Belady's optimum: the most hits that any eviction policy could have, knowing the future.

One pool of equal blocks. After each request the blocks that are used again soonest stay. Of a
prefix every block is used again no later than those after it, so that what stays is always a set of
whole prefixes, and the leading run of a prompt is all that is held of it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simulator.prefix.prefix_index import PrefixIndex, Runs

NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class KnownFuture:
    """Segments that each request uses, whole, and the request that uses each of them next.

    Segment numbers of request i are `segments[offsets[i]:offsets[i + 1]]`, from the root;
    `next_use` stands beside. `counts`, `starts`: blocks of a segment and before it, by its number.
    """

    offsets: NDArray[np.int64]
    segments: NDArray[np.int64]
    next_use: NDArray[np.int64]
    counts: list[int]
    starts: list[int]


def know_future(prompts: Sequence[Runs]) -> KnownFuture:
    """Read all requests ahead."""
    index = PrefixIndex()
    for runs in prompts:
        index.insert(runs)
    numbers = {segment: number for number, segment in enumerate(index)}
    used = [[numbers[segment] for segment in index.match(runs).path] for runs in prompts]
    offsets = np.zeros(len(used) + 1, dtype=np.int64)
    np.cumsum([len(path) for path in used], out=offsets[1:])
    segments = np.fromiter((n for path in used for n in path), np.int64, int(offsets[-1]))
    return KnownFuture(
        offsets,
        segments,
        next_uses(offsets, segments),
        [segment.count for segment in numbers],
        [segment.start for segment in numbers],
    )


def next_uses(offsets: NDArray[np.int64], segments: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each use of a segment the request of its next use, or NEVER."""
    request = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((request, segments))
    following = np.full(len(segments), NEVER, dtype=np.int64)
    same = segments[order][1:] == segments[order][:-1]
    following[order[:-1][same]] = request[order[1:][same]]
    return following


def belady_hits(future: KnownFuture, capacity_blocks: int) -> tuple[NDArray[np.int64], int]:
    """Leading blocks of each request that are held when it arrives, and the most that were held."""
    counts, starts = future.counts, future.starts
    held: dict[int, int] = {}  # blocks of a segment, counted from its head
    next_of: dict[int, int] = {}
    heap: list[tuple[int, int, int]] = []
    used, peak, hits = 0, 0, []
    segments, next_use = future.segments.tolist(), future.next_use.tolist()
    bounds = future.offsets.tolist()
    for begin, end in pairwise(bounds):
        hit = 0
        for use in range(begin, end):
            segment = segments[use]
            hit += held.get(segment, 0)
            used += counts[segment] - held.get(segment, 0)
            held[segment] = counts[segment]
            next_of[segment] = next_use[use]
            heapq.heappush(heap, (-next_use[use], -starts[segment], segment))
        hits.append(hit)
        while used > capacity_blocks:
            latest, _, segment = heap[0]
            if next_of.get(segment) != -latest:
                heapq.heappop(heap)
                continue
            leaving = min(held[segment], used - capacity_blocks)
            used -= leaving
            held[segment] -= leaving
            if not held[segment]:
                heapq.heappop(heap)
                del held[segment], next_of[segment]
        peak = max(peak, used)
    return np.array(hits, dtype=np.int64), peak
