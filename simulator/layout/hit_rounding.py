"""Tokens that a prefix hit loses because it has to end where every pool has a whole page."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from simulator.engine.physical_layout import CacheGeometry
from simulator.layout.request_mix import Lengths, RequestMix, mean


@dataclass(frozen=True, slots=True)
class Remainder:
    """Tokens of a length beyond the last multiple of the granule."""

    granule_tokens: int

    def __call__(self, lengths: Lengths) -> Lengths:
        """Tokens lost [n] of lengths [n]."""
        lost: Lengths = lengths % self.granule_tokens
        return lost


def hit_granule_tokens(cut: CacheGeometry) -> int:
    """A hit is a multiple of this: every pool ends a page there, and a compressed one an entry."""
    return lcm(*(max(1, one.page_tokens) for one in cut.pools), *(one.ratio for one in cut.pools))


def lost_tokens_uniform(granule_tokens: int) -> float:
    """Mean over all lengths with equal chance."""
    return (granule_tokens - 1) / 2


def lost_tokens(granule_tokens: int, mix: RequestMix) -> float:
    """Mean over hits as long as the requests of a mix."""
    return mean(mix, Remainder(granule_tokens))
