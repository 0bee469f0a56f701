"""Hits under LRU for all capacities from one pass: reuse distances of runs of blocks.

A request touches its blocks from the last to the first. What lies between a block and the top of
the recency stack is then every block touched by a later request, and of the request that touched it
last those before it in the prompt. So blocks of a path that were last touched together form a group
whose distances are consecutive, and a pool of C blocks holds of a group what is left of C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.prefix.prefix_index import Match, PrefixIndex, Runs
from simulator.prefix.segment import Segment

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseGroups:
    """Groups of blocks seen before: `request` that asks, blocks `above` them, `count` [groups].

    A pool of C blocks holds the first clip(C - above, 0, count) of a group. `distinct` [requests]:
    blocks seen up to and with a request.
    """

    request: Ints
    above: Ints
    count: Ints
    distinct: Ints

    def hit_blocks(self, capacity_blocks: int) -> Ints:
        """Leading blocks of each request that an LRU pool holds when it arrives [requests]."""
        held = np.clip(capacity_blocks - self.above, 0, self.count)
        hits = np.bincount(self.request, weights=held, minlength=len(self.distinct))
        return hits.astype(np.int64)  # sums of whole numbers far below 2^53

    def curve(self, first: int = 0) -> tuple[Ints, Ints]:
        """Capacities at which the curve bends, and blocks hit there by requests from `first` on.

        Between them hits are linear in the capacity: this is the whole curve.
        """
        mine = self.request >= first
        begin, end = self.above[mine], (self.above + self.count)[mine]
        bends = np.unique(np.concatenate([[0], begin, end]))
        slope = np.zeros(len(bends) + 1, dtype=np.int64)
        np.add.at(slope, np.searchsorted(bends, begin), 1)
        np.add.at(slope, np.searchsorted(bends, end), -1)
        rise = np.cumsum(slope[:-1])[:-1] * np.diff(bends)
        return bends, np.concatenate([[0], np.cumsum(rise)]).astype(np.int64)

    def peak_blocks(self, capacity_blocks: int) -> int:
        """Most blocks that a pool ever holds."""
        return min(capacity_blocks, int(self.distinct[-1])) if len(self.distinct) else 0


class LastUses:
    """When every block of an index was touched last, and how many since any time."""

    def __init__(self, index: PrefixIndex, requests: int) -> None:
        self._index = index
        self._last: dict[Segment, int] = {}
        self._size = requests
        self._tree = [0] * (requests + 1)  # Fenwick tree: blocks by the request of their last use
        self._seen = 0
        index.listen(self)

    def on_split(self, head: Segment, tail: Segment) -> None:
        """Both parts were touched together; a new segment has not been touched yet."""
        if tail in self._last:
            self._last[head] = self._last[tail]

    def groups(self, found: Match) -> list[tuple[int, int]]:
        """Blocks above, and count, of each group of a match, from the root on."""
        out: list[tuple[int, int]] = []
        current, count = -1, 0
        for segment in found.path:
            last = self._last[segment]
            blocks = min(segment.end, found.blocks) - segment.start
            if last == current:
                count += blocks
                continue
            if count:
                out.append((self._later(current), count))
            current, count = last, blocks
        if count:
            out.append((self._later(current), count))
        return out

    def touch(self, path: Iterable[Segment], request: int) -> None:
        """All blocks of a path are used by a request."""
        moved, last_known = 0, self._last
        old, blocks = -1, 0
        for segment in path:
            last = last_known.get(segment, -1)
            if last != old:
                self._add(old, -blocks)
                old, blocks = last, 0
            blocks += segment.count
            moved += segment.count
            if last < 0:
                self._seen += segment.count
            last_known[segment] = request
        self._add(old, -blocks)
        self._add(request, moved)

    @property
    def seen_blocks(self) -> int:
        """Distinct blocks so far."""
        return self._seen

    def _later(self, request: int) -> int:
        """Blocks whose last use is later than a request."""
        upto, place = 0, request + 1
        while place:
            upto += self._tree[place]
            place &= place - 1
        return self._seen - upto

    def _add(self, request: int, blocks: int) -> None:
        if request < 0 or not blocks:
            return
        place = request + 1
        while place <= self._size:
            self._tree[place] += blocks
            place += place & -place


def reuse_groups(
    prompts: Iterable[Runs], requests: int, advance: Callable[[int], None] | None = None
) -> ReuseGroups:
    """Reuse distances of all prompts, looked up in order and inserted at once.

    `advance` is called with every request's number.
    """
    index = PrefixIndex()
    uses = LastUses(index, requests)
    rows: list[tuple[int, int, int]] = []
    distinct = []
    for request, runs in enumerate(prompts):
        found = index.match(runs)
        rows += [(request, above, count) for above, count in uses.groups(found)]
        uses.touch(index.insert(runs, found=found), request)
        distinct.append(uses.seen_blocks)
        if advance is not None:
            advance(request)
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return ReuseGroups(
        request=table[:, 0],
        above=table[:, 1],
        count=table[:, 2],
        distinct=np.array(distinct, dtype=np.int64),
    )
