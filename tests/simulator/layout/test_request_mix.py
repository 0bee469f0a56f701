"""Mixes of context lengths: parsing, and means against a loop over every length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.layout.request_mix import ContextRange, RequestMix, mean, parse_mix
from simulator.layout.sweep import Remainder

RANGES = st.builds(
    lambda low, width, count: ContextRange(low, low + width, count),
    st.integers(1, 500),
    st.integers(0, 300),
    st.integers(1, 9),
)


def test_parts_of_a_mix() -> None:
    mix = parse_mix("4096:10, 1-8:2", 2**20)
    assert mix.ranges == (ContextRange(4096, 4096, 10), ContextRange(1, 8, 2))
    assert (mix.requests, mix.longest_tokens) == (12, 4096)
    assert mix.typical() == (4096,) * 10 + (7, 3)


@given(st.lists(RANGES, min_size=1, max_size=4), st.integers(1, 64))
def test_mean_is_that_of_every_length(ranges: list[ContextRange], granule: int) -> None:
    mix = RequestMix(tuple(ranges), "")
    by_hand = sum(
        part.requests
        * sum(n % granule for n in range(part.low_tokens, part.high_tokens + 1))
        / (part.high_tokens - part.low_tokens + 1)
        for part in ranges
    )
    assert mean(mix, Remainder(granule)) == pytest.approx(by_hand / mix.requests)


@given(RANGES)
def test_typical_lengths_are_in_their_range(part: ContextRange) -> None:
    lengths = part.typical()
    assert len(lengths) == part.requests
    assert part.low_tokens <= min(lengths) <= max(lengths) <= part.high_tokens
    assert lengths == sorted(lengths)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4096", "neither LENGTH:REQUESTS nor LOW-HIGH:REQUESTS"),
        ("4096:0", "has a zero"),
        ("0-4:1", "has a zero"),
        ("9-4:1", "from 9 down to 4"),
        ("1-2000:1", "at most 1,000 (1,000 too many)"),
        ("8:2000000", "(951,424 too many)"),
    ],
)
def test_bad_mix(text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        parse_mix(text, 1000)
    assert words in error.value.message
