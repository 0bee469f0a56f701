"""LFU with decay: a use counts half as much after `half_life` requests."""

from __future__ import annotations

import math

from simulator.prefix.evictions.policy import BlockPolicy, Use


class DecayedLfu(BlockPolicy):
    """Ranks by the logarithm of the decayed count, which time shifts for all blocks alike."""

    def __init__(self, capacity: int, half_life: float) -> None:
        super().__init__(capacity)
        self._half_life = half_life
        self._score: dict[int, float] = {}

    def stored(self, block: int, use: Use) -> None:
        """The first use."""
        super().stored(block, use)
        self._score[block] = use.turn / self._half_life

    def used(self, block: int, use: Use) -> None:
        """log2(2^old + 2^new), from the larger of both."""
        super().used(block, use)
        old, new = self._score[block], use.turn / self._half_life
        self._score[block] = new + math.log2(1 + 2.0 ** max(-1000.0, old - new))

    def rank(self, block: int) -> tuple[float, ...]:
        """Count, then the last use."""
        return self._score[block], *self.last[block].order

    def left(self, block: int, queue: int) -> None:
        """Forget the count."""
        super().left(block, queue)
        del self._score[block]
