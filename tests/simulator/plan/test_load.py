"""Bursts by hand, and against a slow count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.plan.load import worst_burst


def test_a_burst_by_hand() -> None:
    """100 tokens/s: of 10 at 0 s, then 200 at 5.0 s and 300 at 6.0 s, 400 wait after the latter."""
    at, tokens = np.array([0.0, 5.0, 6.0, 30.0]), np.array([10.0, 200.0, 300.0, 50.0])
    burst = worst_burst(at, tokens, 100.0)
    assert (burst.tokens, burst.requests, burst.seconds) == (500, 2, 1.0)
    assert burst.waiting_s == pytest.approx(4.0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 500)), min_size=1, max_size=12),
    st.integers(1, 200),
)
def test_no_other_stretch_leaves_more(arrivals: list[tuple[int, int]], rate: int) -> None:
    at = np.array([float(t) for t, _ in arrivals])
    tokens = np.array([float(n) for _, n in arrivals])
    burst = worst_burst(at, tokens, float(rate))
    ordered = sorted(arrivals, key=lambda own: own[0])
    most = max(
        sum(n for _, n in ordered[i : j + 1]) - rate * (ordered[j][0] - ordered[i][0])
        for i in range(len(ordered))
        for j in range(i, len(ordered))
    )
    assert burst.tokens - rate * burst.seconds == pytest.approx(most)
