"""Context lengths of the requests that a layout holds: fixed ones, or even over a range.

`4096:10,1-8192:32` are ten requests of 4,096 tokens and 32 whose lengths are anywhere from 1 to
8,192 with equal chance. Means over a mix are exact: whole sums over every length.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError

# Made up: short chats beside long documents; every length of a range is equally likely, so that no
# page size is favoured by lengths that it divides.
DEFAULT_MIX = "1-8192:32,8193-32768:16,32769-131072:12,131073-262144:4"
MOST_REQUESTS = 2**20
_PART = re.compile(r"(\d+)(?:-(\d+))?:(\d+)")

Lengths = NDArray[np.int64]
Term = Callable[[Lengths], Lengths]


@dataclass(frozen=True, slots=True)
class ContextRange:
    """`requests` whose context is any whole number of tokens from `low` to `high`."""

    low_tokens: int
    high_tokens: int
    requests: int

    @property
    def lengths(self) -> Lengths:
        """Every length of the range."""
        return np.arange(self.low_tokens, self.high_tokens + 1, dtype=np.int64)

    def typical(self) -> list[int]:
        """A length for each request, evenly through the range."""
        width = self.high_tokens - self.low_tokens + 1
        return [
            self.low_tokens + (2 * i + 1) * width // (2 * self.requests)
            for i in range(self.requests)
        ]


@dataclass(frozen=True, slots=True)
class RequestMix:
    """Ranges of context lengths, and how the user wrote them."""

    ranges: tuple[ContextRange, ...]
    text: str

    @property
    def requests(self) -> int:
        """Requests in all."""
        return sum(part.requests for part in self.ranges)

    @property
    def longest_tokens(self) -> int:
        """Longest context."""
        return max(part.high_tokens for part in self.ranges)

    def typical(self) -> tuple[int, ...]:
        """A length for every request, longest first."""
        return tuple(sorted((n for part in self.ranges for n in part.typical()), reverse=True))


@lru_cache(maxsize=4096)
def mean(mix: RequestMix, term: Term) -> float:
    """Mean of a whole-numbered term of the length over the requests, exact up to its last bit.

    `term` maps lengths [n] to int64 [n]; equal terms (frozen dataclasses) are added up once.
    """
    total = Fraction(0)
    for part in mix.ranges:
        width = part.high_tokens - part.low_tokens + 1
        total += Fraction(int(term(part.lengths).sum()) * part.requests, width)
    return float(total / mix.requests)


def parse_mix(text: str, most_tokens: int) -> RequestMix:
    """A mix as it is written on the command line; every fault is one `InputError` sentence."""
    ranges = []
    for piece in text.split(","):
        found = _PART.fullmatch(piece.strip())
        if found is None:
            raise InputError(
                f"{piece.strip()!r} in --mix is neither LENGTH:REQUESTS nor LOW-HIGH:REQUESTS; "
                "try --mix 4096:10,1-8192:32"
            )
        low, high, requests = int(found[1]), int(found[2] or found[1]), int(found[3])
        if low < 1 or requests < 1:
            raise InputError(f"{piece.strip()!r} in --mix has a zero; both must be at least 1")
        if low > high:
            raise InputError(
                f"{piece.strip()!r} in --mix runs from {low:,} down to {high:,} tokens"
            )
        if high > most_tokens:
            raise InputError(
                f"{piece.strip()!r} in --mix reaches {high:,} tokens, but the model takes at most "
                f"{most_tokens:,} ({high - most_tokens:,} too many)"
            )
        ranges.append(ContextRange(low, high, requests))
    mix = RequestMix(tuple(ranges), text)
    if mix.requests > MOST_REQUESTS:
        raise InputError(
            f"--mix has {mix.requests:,} requests, but at most {MOST_REQUESTS:,} can be swept "
            f"({mix.requests - MOST_REQUESTS:,} too many)"
        )
    return mix
