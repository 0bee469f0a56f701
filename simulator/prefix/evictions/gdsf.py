"""GreedyDual-Size-Frequency: uses times the cost of computing a block again, with ageing.

Source: Cherkasova, Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching, 1998.
"""

from __future__ import annotations

from simulator.prefix.evictions.policy import BlockPolicy, Use

_EQUAL_COST_BLOCKS_TOKENS = 131_072


class GreedyDual(BlockPolicy):
    """Rank: level at the last use, plus uses times cost; the level is that of what left last.

    Assumes: computing a block costs its tokens plus tokens times context, both equal at a context
    of 131,072 tokens; blocks are of one size, so that cost per byte goes by cost.
    """

    def __init__(self, capacity: int, block_tokens: int) -> None:
        super().__init__(capacity)
        self._tokens = block_tokens
        self._level = 0.0
        self._facts: dict[int, tuple[float, int]] = {}  # level and uses

    def stored(self, block: int, use: Use) -> None:
        """The first use."""
        super().stored(block, use)
        self._facts[block] = (self._level, 1)

    def used(self, block: int, use: Use) -> None:
        """At the level of today."""
        super().used(block, use)
        self._facts[block] = (self._level, self._facts[block][1] + 1)

    def rank(self, block: int) -> tuple[float, ...]:
        """Value, then the last use."""
        level, uses = self._facts[block]
        middle = (self.last[block].depth + 0.5) * self._tokens
        return level + uses * (1 + middle / _EQUAL_COST_BLOCKS_TOKENS), *self.last[block].order

    def left(self, block: int, queue: int) -> None:
        """What left sets the level for those that come."""
        self._level = max(self._level, self.rank(block)[0])
        super().left(block, queue)
        del self._facts[block]
