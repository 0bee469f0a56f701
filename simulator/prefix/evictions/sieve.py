"""SIEVE: a hand moves from old to new, spares what was hit since it last came by.

Source: Zhang et al., SIEVE is Simpler than LRU, NSDI 2024. Of a prefix only the end can leave, so
that the hand looks at ends alone.
"""

from __future__ import annotations

from simulator.prefix.evictions.policy import BlockPolicy, Use


class Sieve(BlockPolicy):
    """Rank: the hand's lap at which a block is looked at, then its age."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._lap = 0
        self._place: dict[int, tuple[int, int, int]] = {}
        self._hit: set[int] = set()

    def stored(self, block: int, use: Use) -> None:
        """At the head, in front of the hand."""
        super().stored(block, use)
        self._place[block] = (self._lap, *use.order)

    def used(self, block: int, use: Use) -> None:
        """Marked, where it stands."""
        super().used(block, use)
        self._hit.add(block)

    def rank(self, block: int) -> tuple[float, ...]:
        """Lap and age; the hand passes what is no end, which waits for its next lap."""
        lap, turn, depth = self._place[block]
        return max(lap, self._lap), turn, depth

    def spares(self, block: int, now: Use) -> bool:
        """The hand is here; a mark is taken off and the block looked at in the next lap."""
        lap, turn, depth = self._place[block]
        self._lap = max(self._lap, lap)
        if block not in self._hit:
            return False
        self._hit.discard(block)
        self._place[block] = (self._lap + 1, turn, depth)
        return True

    def left(self, block: int, queue: int) -> None:
        """Forget its place."""
        super().left(block, queue)
        del self._place[block]
        self._hit.discard(block)
