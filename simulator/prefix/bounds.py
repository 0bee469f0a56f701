"""How many hits a pool could have at most: one bound that can be run, one that no policy passes.

For blocks of one size the first is Belady's optimum (`belady.py`). For objects of several sizes it
is `farthest_bytes`; the other is a relaxation, `pfoo_hits` of blocks and `upper_bytes` of objects.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.prefix.belady import NEVER, KnownFuture, next_uses

Ints = NDArray[np.int64]


def pfoo_hits(future: KnownFuture, capacity_blocks: int, first: int = 0) -> Ints:
    """Blocks of each request that a pool could hit by a relaxation of the offline optimum.

    A block that is kept from one use to the next takes room over all requests in between. The room
    over all requests is given to the shortest such spans, whenever they lie; the last is rounded
    up. (PFOO-U of Berger et al., Practical Bounds on Optimal Caching with Variable Object Sizes,
    2018.) Hits of requests before `first`, a warm-up, are not counted and take no room.

    Assumes: the upper bound keeps within the room in the mean over a trace alone, not at each
    request, and does not ask that a prefix is held from its beginning.
    """
    requests = len(future.offsets) - 1
    request = np.repeat(np.arange(requests), np.diff(future.offsets))
    again = (future.next_use < NEVER) & (future.next_use >= first)
    counts = np.array(future.counts, dtype=np.int64)[future.segments][again]
    return _relaxed(request[again], future.next_use[again], counts, capacity_blocks, requests)


def _relaxed(begin: Ints, end: Ints, size: Ints, capacity: int, requests: int) -> Ints:
    """Sizes that are hit at each request, where spans are served from the shortest on."""
    length = end - begin
    order = np.argsort(length, kind="stable")
    cost = np.cumsum((length * size)[order])
    room = capacity * max(0, requests - 1)
    whole = int(np.searchsorted(cost, room, side="right"))
    hits = np.zeros(requests, dtype=np.int64)
    np.add.at(hits, end[order[:whole]], size[order[:whole]])
    if whole < len(order):
        last = order[whole]
        left = room - (int(cost[whole - 1]) if whole else 0)
        hits[end[last]] += min(int(size[last]), -(-left // int(length[last])))
    return hits


def upper_bytes(
    paths: Sequence[Sequence[int]], sizes: Sequence[int], capacity: int, first: int = 0
) -> int:
    """Bytes that can be hit at most by the relaxation, over requests from `first` on.

    `paths`: objects of each request, of `sizes` [objects].
    """
    request, objects, following = _uses(paths)
    again = (following < NEVER) & (following >= first)
    size = np.array(sizes, dtype=np.int64)[objects[again]]
    hits = _relaxed(request[again], following[again], size, capacity, len(paths))
    return int(hits.sum())


def farthest_bytes(
    paths: Sequence[Sequence[int]],
    sizes: Sequence[int],
    capacity: int,
    parents: Sequence[int],
    first: int = 0,
) -> int:
    """Bytes hit where the end whose next use is farthest, times its size, leaves first.

    `paths`: objects of each request, from the root. `parents` [objects]: what an object needs, -1
    for none; what others need stays. A bound from below that can be run; for objects of one size it
    is Belady's optimum. Requests before `first` are played and not counted.
    """
    size = np.array(sizes, dtype=np.float64)
    waits = np.full(len(sizes), np.inf)  # request of the next use
    is_end = np.zeros(len(sizes), dtype=bool)  # held, and needed by nothing that is held
    held, children = [False] * len(sizes), [0] * len(sizes)
    following = iter(_uses(paths)[2].tolist())
    used = hit = 0
    for request, path in enumerate(paths):
        for one in path:
            waits[one] = next(following)
            if held[one]:
                hit += sizes[one] * (request >= first)
                continue
            held[one], is_end[one] = True, True
            used += sizes[one]
            if parents[one] >= 0:
                children[parents[one]] += 1
                is_end[parents[one]] = False
        while used > capacity:
            ends = np.flatnonzero(is_end)[::-1]
            leaving = int(ends[np.argmax((waits[ends] - request) * size[ends])])
            held[leaving], is_end[leaving] = False, False
            used -= sizes[leaving]
            above = parents[leaving]
            if above >= 0:
                children[above] -= 1
                is_end[above] = held[above] and not children[above]
    return hit


def _uses(paths: Sequence[Sequence[int]]) -> tuple[Ints, Ints, Ints]:
    """Request, object and request of the next use (or NEVER), of every use in order."""
    offsets = np.zeros(len(paths) + 1, dtype=np.int64)
    np.cumsum([len(path) for path in paths], out=offsets[1:])
    objects = np.fromiter((one for path in paths for one in path), np.int64, int(offsets[-1]))
    request = np.repeat(np.arange(len(paths)), np.diff(offsets))
    return request, objects, next_uses(offsets, objects)
