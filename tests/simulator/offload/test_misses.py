"""Closed form and replay against each other, and against hand arithmetic."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.offload.misses import RecordedMisses, StatedMisses, implied_returns, misses_by_query
from simulator.offload.pick_stream import pick_stream
from workloads.run_stats import RecordedChoices

TOP_K, ENTRIES = 64, 2000


def test_closed_form_by_hand() -> None:
    stated = StatedMisses(overlap=0.95)
    # 25.6 of 512 picks come in; 512 of the other 51,988 entries are buffered.
    assert stated.a_query(52_500, 512, 1024) == pytest.approx(25.6 * (1 - 512 / 51_988))
    returning = StatedMisses(overlap=0.95, returns=0.5, return_entries=1024)
    # Half of the incoming picks come from the last 1,024 left, half of which are buffered.
    hit = 0.5 * 0.5 + 0.5 * 512 / 51_988
    assert returning.a_query(52_500, 512, 1024) == pytest.approx(25.6 * (1 - hit))


def test_what_is_all_picked_or_all_buffered_never_misses() -> None:
    stated = StatedMisses(overlap=0.1)
    assert stated.a_query(512, 512, 512) == 0
    assert stated.a_query(100, 512, 1024) == 0
    assert stated.a_query(900, 512, 1024) == 0
    assert stated.a_query(5000, 512, 512) == pytest.approx(0.9 * 512)


STATISTICS = [
    StatedMisses(overlap=0.95),
    StatedMisses(overlap=0.7),
    StatedMisses(overlap=0.9, returns=0.6, return_entries=TOP_K),
    StatedMisses(overlap=0.8, returns=0.9, return_entries=3 * TOP_K),
]


@pytest.mark.parametrize("stated", STATISTICS, ids=str)
@pytest.mark.parametrize("times", [1, 2, 3, 8])
def test_exact_lru_of_a_stream_with_these_statistics(stated: StatedMisses, times: int) -> None:
    queries = 1200
    stream = list(pick_stream(stated, entries=ENTRIES, top_k=TOP_K, queries=queries, seed=4))
    size = times * TOP_K
    by_query = misses_by_query(stream, size, [ENTRIES] * queries)
    replayed = by_query[queries // 2 :].mean()
    assert replayed == pytest.approx(stated.a_query(ENTRIES, TOP_K, size), rel=0.05)


def test_a_stream_has_the_stated_overlap_and_is_seeded() -> None:
    stated = STATISTICS[0]
    first, again = (
        list(pick_stream(stated, entries=ENTRIES, top_k=TOP_K, queries=400, seed=9))
        for _ in range(2)
    )
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert all(len(np.unique(picks)) == TOP_K for picks in first)
    shares = [len(np.intersect1d(a, b)) / TOP_K for a, b in pairwise(first)]
    assert np.mean(shares) == pytest.approx(0.95, abs=0.005)


@given(
    st.floats(0, 1), st.floats(0, 1), st.integers(1, 3000), st.integers(64, 3000), st.integers(1, 9)
)
def test_misses_lie_between_none_and_all_that_come_in(
    overlap: float, returns: float, reach: int, entries: int, times: int
) -> None:
    stated = StatedMisses(overlap=overlap, returns=returns, return_entries=reach)
    small = stated.a_query(entries, 64, 64 * times)
    large = stated.a_query(entries, 64, 64 * times + 32)
    assert -1e-9 <= large <= small + 1e-9
    assert small <= (1 - overlap) * 64 + 1e-9


@given(st.floats(0.01, 0.99), st.floats(0.5, 0.99))
def test_implied_returns_explain_the_misses(returns: float, overlap: float) -> None:
    stated = StatedMisses(overlap=overlap, returns=returns, return_entries=64)
    share = stated.a_query(2000, 64, 128) / 64
    found = implied_returns(share, overlap, entries=2000, top_k=64, buffer_entries=128)
    assert found == pytest.approx(returns, abs=1e-9)


def recorded(queries: list[list[int]], requests: list[int], context: int) -> RecordedMisses:
    choices = RecordedChoices(
        digest=repr((queries, requests)),
        picks={"layer": np.array(queries)},
        experts={},
        requests=np.array(requests),
    )
    return RecordedMisses(choices=choices, context_tokens=context)


def test_replay_counts_the_second_half_of_every_request() -> None:
    # The fortieth entry is made before the second query; rows of two requests take turns.
    one = [[0, 1], [0, 2], [0, 3], [1, 4]]
    two = [[5, 6], [5, 6], [5, 6], [5, 6]]
    mixed = [pick for pair in zip(one, two, strict=True) for pick in pair]
    found = recorded(mixed, [0, 1] * 4, 162)
    # Request 0 in a buffer of two: 3, then 1 and 4, miss; request 1 never.
    assert found.share(2) == pytest.approx(3 / 8)
    # Of the picks that count 0 is shared at first, then none; all of request 1.
    assert found.counted_overlap == pytest.approx((0.5 + 0 + 1 + 1) / 4)
    assert found.a_query(1000, 512, 2) == pytest.approx(512 * 3 / 8)
    # A buffer of three has 0, 2, 3 at last: 1 and 4 miss, and 3 before them.
    assert found.share(3) == pytest.approx(3 / 8)
    assert found.share(5) == pytest.approx(2 / 8)
