"""How many hits a pool could have at most: one bound that can be run, one that no policy passes.

For blocks of one size the first is Belady's optimum (`belady.py`). For objects of several sizes it
is `farthest_hits`, and the other is a relaxation, `pfoo_hits`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.prefix.belady import NEVER, KnownFuture

Ints = NDArray[np.int64]


def pfoo_hits(future: KnownFuture, capacity_blocks: int) -> Ints:
    """Blocks of each request that a pool could hit by a relaxation of the offline optimum.

    A block that is kept from one use to the next takes room over all requests in between. The room
    over all requests is given to the shortest such spans, whenever they lie; the last is rounded
    up. (PFOO-U of Berger et al., Practical Bounds on Optimal Caching with Variable Object Sizes,
    2018.)

    Assumes: the upper bound keeps within the room in the mean over a trace alone, not at each
    request, and does not ask that a prefix is held from its beginning.
    """
    requests = len(future.offsets) - 1
    request = np.repeat(np.arange(requests), np.diff(future.offsets))
    again = future.next_use < NEVER
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


def object_spans(paths: Sequence[Sequence[int]]) -> tuple[Ints, Ints, Ints]:
    """Request, next request and object of every use that is followed by another."""
    last: dict[int, int] = {}
    rows = []
    for request, path in enumerate(paths):
        for one in path:
            if one in last:
                rows.append((last[one], request, one))
            last[one] = request
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def upper_bytes(paths: Sequence[Sequence[int]], sizes: Sequence[int], capacity: int) -> int:
    """Bytes that can be hit at most by the relaxation; objects of a path are its prefixes' ends."""
    begin, end, objects = object_spans(paths)
    size = np.array(sizes, dtype=np.int64)[objects]
    return int(_relaxed(begin, end, size, capacity, len(paths)).sum())


def farthest_bytes(
    paths: Sequence[Sequence[int]], sizes: Sequence[int], capacity: int, parents: Sequence[int]
) -> int:
    """Bytes hit where the end whose next use is farthest, times its size, leaves first.

    `paths`: objects of each request, from the root. `parents` [objects]: what an object needs, -1
    for none; what others need stays. A bound from below that can be run; for objects of one size it
    is Belady's optimum.
    """
    uses: dict[int, list[int]] = {}
    for request in range(len(paths) - 1, -1, -1):
        for one in paths[request]:
            uses.setdefault(one, []).append(request)
    held: set[int] = set()
    children = [0] * len(sizes)
    used = hit = 0
    for request, path in enumerate(paths):
        for one in path:
            uses[one].pop()
            if one in held:
                hit += sizes[one]
                continue
            held.add(one)
            used += sizes[one]
            if parents[one] >= 0:
                children[parents[one]] += 1
        while used > capacity:
            leaving = max(
                (one for one in held if not children[one]),
                key=lambda one: (_wait(uses[one], request) * sizes[one], one),
            )
            held.discard(leaving)
            used -= sizes[leaving]
            if parents[leaving] >= 0:
                children[parents[leaving]] -= 1
    return hit


def _wait(uses: list[int], request: int) -> int:
    return uses[-1] - request if uses else NEVER
