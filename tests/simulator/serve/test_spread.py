"""Percentiles by hand, plain and weighted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.serve.spread import spread_of, weighted_spread


def test_plain_values_by_hand():
    found = spread_of([4.0, 1.0, 3.0, 2.0, 5.0])
    assert (found.count, found.mean, found.p50, found.most) == (5, 3.0, 3.0, 5.0)
    assert found.p90 == pytest.approx(4.6)  # 0.9 x 4 = place 3.6, between 4 and 5
    assert found.p99 == pytest.approx(4.96)


def test_weighted_values_by_hand():
    # 90 gaps of 10 and 10 of 200: 90 % do not exceed 10, 91 % reach 200.
    found = weighted_spread([200.0, 10.0, 7.0], [10, 90, 0])
    assert (found.count, found.p50, found.p90, found.p99, found.most) == (100, 10, 10, 200, 200)
    assert found.mean == pytest.approx(29.0)


def test_nothing_has_no_spread():
    assert spread_of([]) is None
    assert weighted_spread([3.0], [0]) is None


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 20)), min_size=1, max_size=30))
def test_weights_count_as_often_as_they_say(pairs):
    values, weights = np.array([v for v, _ in pairs]), np.array([w for _, w in pairs])
    found, each = weighted_spread(values, weights), np.repeat(values, weights)
    if found is None:
        assert not len(each)
        return
    by_hand = np.percentile(each, [50, 90, 99], method="inverted_cdf")
    assert [found.p50, found.p90, found.p99] == by_hand.tolist()
    assert found.mean == pytest.approx(each.mean())
