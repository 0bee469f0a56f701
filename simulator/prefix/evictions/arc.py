"""ARC: recency against frequency, balanced by which of the two's ghosts are asked for again.

Source: Megiddo and Modha, ARC: A Self-Tuning, Low Overhead Replacement Cache, FAST 2003.
"""

from __future__ import annotations

from simulator.prefix.evictions.policy import BlockPolicy, Use

_ONCE, _AGAIN = 0, 1


class Arc(BlockPolicy):
    """Blocks used once and again, each with a ghost; `_target`: room of the first."""

    queues = 2

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._target = 0.0
        self._queue: dict[int, int] = {}
        self._ghosts: tuple[dict[int, None], dict[int, None]] = ({}, {})
        self._sizes = [0, 0]
        self._from_again = False

    def wanted(self, block: int) -> None:
        """A ghost that is asked for again moves the target its way."""
        once, again = self._ghosts
        self._from_again = block in again
        if block in once:
            step = max(1.0, len(again) / len(once))
            self._target = min(float(self.capacity), self._target + step)
        elif self._from_again:
            step = max(1.0, len(once) / len(again))
            self._target = max(0.0, self._target - step)

    def stored(self, block: int, use: Use) -> None:
        """Ghosts come back as used again."""
        super().stored(block, use)
        known = any(block in ghost for ghost in self._ghosts)
        for ghost in self._ghosts:
            ghost.pop(block, None)
        self._queue[block] = _AGAIN if known else _ONCE
        self._sizes[self._queue[block]] += 1
        self._trim()

    def used(self, block: int, use: Use) -> None:
        """Used again, most recently."""
        super().used(block, use)
        self._sizes[self._queue[block]] -= 1
        self._queue[block] = _AGAIN
        self._sizes[_AGAIN] += 1

    def queue(self, block: int) -> int:
        """Once or again."""
        return self._queue[block]

    def first(self, sizes: list[int]) -> int:
        """From those used once while they are more than their target."""
        once = sizes[_ONCE]
        over = once > self._target or (self._from_again and once == self._target)
        return _ONCE if once and over else _AGAIN

    def left(self, block: int, queue: int) -> None:
        """Into the ghost of its queue."""
        super().left(block, queue)
        del self._queue[block]
        self._sizes[queue] -= 1
        self._ghosts[queue][block] = None
        self._trim()

    def _trim(self) -> None:
        """Those used once and their ghost are at most the room, all together twice as many."""
        once, again = self._ghosts
        while once and self._sizes[_ONCE] + len(once) > self.capacity:
            del once[next(iter(once))]
        while again and sum(self._sizes) + len(once) + len(again) > 2 * self.capacity:
            del again[next(iter(again))]
