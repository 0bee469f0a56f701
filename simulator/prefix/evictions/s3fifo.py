"""S3-FIFO: a small queue for what is new, a main one for what was hit, and a ghost of what left.

Source: Yang et al., FIFO Queues are All You Need for Cache Eviction, SOSP 2023.
"""

from __future__ import annotations

from simulator.prefix.evictions.policy import BlockPolicy, Use

_SMALL, _MAIN = 0, 1
_SMALL_PART = 0.1
_MOST_HITS = 3


class S3Fifo(BlockPolicy):
    """A tenth of the room is the small queue's; the ghost remembers as many as the main one has."""

    queues = 2

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._small_room = max(1, round(_SMALL_PART * capacity))
        self._ghost: dict[int, None] = {}
        self._ghost_room = max(1, capacity - self._small_room)
        self._hits: dict[int, int] = {}
        self._place: dict[int, tuple[int, int, int]] = {}
        self._queue: dict[int, int] = {}
        self._moved = 0

    def stored(self, block: int, use: Use) -> None:
        """Into the main queue if it left not long ago."""
        super().stored(block, use)
        known = block in self._ghost
        self._ghost.pop(block, None)
        self._queue[block] = _MAIN if known else _SMALL
        self._hits[block] = 0
        self._place[block] = (use.turn, 0, -use.depth)

    def used(self, block: int, use: Use) -> None:
        """Counted, up to three."""
        super().used(block, use)
        self._hits[block] = min(_MOST_HITS, self._hits[block] + 1)

    def rank(self, block: int) -> tuple[float, ...]:
        """Order in the queue; what is put into it again stands behind the request."""
        return self._place[block]

    def queue(self, block: int) -> int:
        """Small or main."""
        return self._queue[block]

    def first(self, sizes: list[int]) -> int:
        """The small queue while it has its room or more."""
        return _SMALL if sizes[_SMALL] >= self._small_room or not sizes[_MAIN] else _MAIN

    def spares(self, block: int, now: Use) -> bool:
        """Hit twice in the small queue, or once in the main one since it was looked at."""
        if self._queue[block] == _SMALL:
            if self._hits[block] < 2:
                return False
            self._queue[block], self._hits[block] = _MAIN, 0
        elif self._hits[block]:
            self._hits[block] -= 1
        else:
            return False
        self._moved += 1
        self._place[block] = (now.turn, 1, self._moved)
        return True

    def left(self, block: int, queue: int) -> None:
        """What left the small queue is remembered."""
        super().left(block, queue)
        for facts in (self._hits, self._place, self._queue):
            del facts[block]
        if queue == _SMALL:
            self._ghost[block] = None
            if len(self._ghost) > self._ghost_room:
                del self._ghost[next(iter(self._ghost))]
