"""TTL by predicted reuse: a block lives twice as long as the mean gap between its uses."""

from __future__ import annotations

from simulator.prefix.evictions.policy import BlockPolicy, Use

# Weight of the newest gap, and lifetimes in gaps.
_NEWEST = 0.5
_GAPS = 2.0


class PredictedTtl(BlockPolicy):
    """Rank: when the block expires. `first_s`: lifetime of one that was used once."""

    def __init__(self, capacity: int, first_s: float) -> None:
        super().__init__(capacity)
        self._first_s = first_s
        self._gap: dict[int, float] = {}

    def used(self, block: int, use: Use) -> None:
        """A gap more to learn from."""
        gap = use.now_s - self.last[block].now_s
        known = self._gap.get(block)
        self._gap[block] = gap if known is None else known + _NEWEST * (gap - known)
        super().used(block, use)

    def rank(self, block: int) -> tuple[float, ...]:
        """Expiry, then the last use."""
        return self._expiry_s(block), *self.last[block].order

    def expired(self, block: int, now_s: float) -> bool:
        """Unused for longer than it was predicted to be."""
        return self._expiry_s(block) < now_s

    def left(self, block: int, queue: int) -> None:
        """Forget its gaps."""
        super().left(block, queue)
        self._gap.pop(block, None)

    def _expiry_s(self, block: int) -> float:
        gap = self._gap.get(block)
        return self.last[block].now_s + (self._first_s if gap is None else _GAPS * gap)
