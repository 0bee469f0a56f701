"""Times a step of one data rank beside the others, from a clock that has all ranks alike."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache

from simulator.cost.step_clock import DecodeGroup, PromptChunk, StepClock

# Tokens of a rank, and of all: corners between which what others' tokens add is interpolated.
_TOKENS = (
    1, 16, 64, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    65536, 98304, 131072,
)  # fmt: skip
Padding = Callable[[int], int]
# Time in ps of a step of a rank with new tokens of one prompt, all ranks together having so many.
RankTime = Callable[[int, int], int]


def unpadded(requests: int) -> int:
    """A batch as it is."""
    return requests


class BesideClock:
    """What the tokens of other ranks add to a step: experts compute for all of them."""

    def __init__(self, rank_ps: RankTime) -> None:
        self._corner = lru_cache(maxsize=None)(rank_ps)

    def ns(self, own: float, everyone: float, otherwise: float) -> float:
        """Added by `everyone` tokens in all, where a step was timed with `otherwise`."""
        if everyone == otherwise:
            return 0.0
        own = max(1.0, own)
        return self._at(own, max(own, everyone)) - self._at(own, max(own, otherwise))

    def _at(self, own: float, everyone: float) -> float:
        left, right, part = _between(own)
        low, high, share = _between(everyone)
        total = 0.0
        for tokens, own_share in ((left, 1 - part), (right, part)):
            for whole, weight in ((low, 1 - share), (high, share)):
                if own_share * weight:
                    total += own_share * weight * self._corner(tokens, max(tokens, whole))
        return total / 1000


def _between(value: float) -> tuple[int, int, float]:
    place = min(max(bisect_right(_TOKENS, value) - 1, 0), len(_TOKENS) - 2)
    low, high = _TOKENS[place], _TOKENS[place + 1]
    return low, high, (value - low) / (high - low)


class RankClock:
    """Clock of one rank of `ranks`; decode batches are padded, to at least `floor` requests.

    In a decode step all ranks run the same captured size: the step of ranks that are all alike.

    `skew`: expert rows of the busiest rank over the mean.

    Assumes: rows that pad a batch have a context of one token.
    Assumes: the busiest rank of experts computes as if all ranks had `skew` times the tokens, and
        all others wait for it.
    """

    def __init__(
        self,
        clock: StepClock,
        ranks: int = 1,
        padded: Padding = unpadded,
        beside: BesideClock | None = None,
        new_per_request: int = 1,
        skew: float = 1.0,
    ) -> None:
        self.clock = clock
        self.skew = skew
        self.ranks = ranks
        self.padded = padded
        self.beside = beside
        self.new = new_per_request
        self.floor = 0
        self.knee_tokens = clock.knee_tokens

    def decode_ns(self, groups: Sequence[DecodeGroup]) -> float:
        """A decode step of this rank's requests, the others having as many."""
        count = sum(group.requests for group in groups)
        padding = max(self.floor, self.padded(count)) - count
        alike = self._alike(groups)
        if padding:
            rows = padding * self.ranks
            alike.append(DecodeGroup(requests=rows, context_sum=float(rows * self.new)))
        own = (count + padding) * self.new
        return self.clock.decode_ns(alike) + self._added(own, own * self.ranks, own * self.ranks)

    def step_ns(
        self,
        groups: Sequence[DecodeGroup],
        chunks: Sequence[PromptChunk],
        everyone: int | None = None,
    ) -> float:
        """A step with chunks of this rank's prompts, all ranks having `everyone` tokens."""
        if self.ranks == 1:
            return self.clock.step_ns(groups, chunks)
        own = sum(c.new for c in chunks) + self.new * sum(g.requests for g in groups)
        everyone = own if everyone is None else everyone
        if not chunks:
            time = self.clock.decode_ns(self._alike(groups))
            return time + max(0.0, self._added(own, everyone, own * self.ranks))
        copies = min(self.ranks, max(1, everyone // own))
        alike = [chunk for chunk in chunks for _ in range(copies)]
        # The clock has decoding requests spread over all ranks: as many of them on this one.
        time = self.clock.step_ns(self._alike(groups), alike)
        return time + self._added(own, everyone, own * copies)

    def segment(self, mean: float) -> float:
        """As of the other clock."""
        return self.clock.segment(mean)

    def _added(self, own: int, everyone: int, otherwise: int) -> float:
        if self.beside is None:
            return 0.0
        return self.beside.ns(own, everyone * self.skew, otherwise)

    def _alike(self, groups: Sequence[DecodeGroup]) -> list[DecodeGroup]:
        if self.ranks == 1:
            return list(groups)
        return [
            DecodeGroup(requests=g.requests * self.ranks, context_sum=g.context_sum * self.ranks)
            for g in groups
        ]
