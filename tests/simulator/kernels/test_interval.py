"""Intervals: from the residuals of a regime, wider away from fitted chips, added up in steps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.kernels.constants_file import constants_for, read_constants
from simulator.kernels.interval import (
    BORROWED_WIDENING,
    COMMON_SHARE,
    Interval,
    Share,
    interval_from_quantiles,
    interval_of,
    interval_of_sum,
    least_deviation,
)
from simulator.kernels.regime import Situation
from simulator.kernels.registry import FAMILIES
from simulator.kernels.standing import FAR_HIGH, FAR_LOW

CALL = Situation(seconds=1e-4, cause="communication")


def test_a_slow_prediction_means_that_silicon_is_faster():
    interval = interval_from_quantiles(-0.1, 0.3)
    assert interval.low == pytest.approx(math.exp(-0.3))
    assert interval.high == pytest.approx(math.exp(0.1))


def test_the_prediction_is_inside_even_where_the_family_is_biased():
    assert interval_from_quantiles(0.1, 0.3).high == 1.0
    assert interval_from_quantiles(-0.3, -0.1).low == 1.0


def test_an_interval_widens_with_the_distance_of_the_chip():
    near, same, far = (
        interval_of(constants_for("nccl_ring", find_chip(chip)), CALL, 1e-4)
        for chip in ("h200", "h100", "mi300x")
    )
    assert near.calibrated
    assert same.calibrated
    assert not far.calibrated
    assert near.low > same.low > far.low
    assert near.high < same.high < far.high
    assert far.high == pytest.approx(math.exp(math.hypot(math.log(near.high), FAR_HIGH)), rel=0.01)
    assert far.low == pytest.approx(math.exp(-math.hypot(math.log(near.low), FAR_LOW)), rel=0.02)


def test_constants_of_another_kernel_are_less_certain():
    stored = constants_for("nccl_ring", find_chip("h200"))
    own = interval_of(stored, CALL, 1e-4)
    borrowed = interval_of(stored, CALL, 1e-4, borrowed=True)
    reach = max(-math.log(own.low), math.log(own.high))
    assert not borrowed.calibrated
    assert math.log(borrowed.high) == pytest.approx(BORROWED_WIDENING * reach)
    assert borrowed.low * borrowed.high == pytest.approx(1)


def test_a_launch_timed_alone_is_less_certain_on_another_chip():
    stored = constants_for("index_logits_vllm", find_chip("gb200"))
    short = Situation(seconds=6e-6, cause="launch")
    alone = interval_of(stored, short, 6e-6, alone=True)
    assert alone.high > interval_of(stored, short, 6e-6).high


def test_one_family_is_correlated_and_half_of_the_rest_is_common():
    assert interval_of_sum([Share("a", 10.0, 0.1, 0.1)]) == pytest.approx((9, 11))
    low, high = interval_of_sum([Share("a", 3.0, 0.1, 0.1), Share("b", 4.0, 0.1, 0.1)])
    apart, together = 0.5, 0.7
    expected = math.sqrt(COMMON_SHARE * together**2 + (1 - COMMON_SHARE) * apart**2)
    assert (low, high) == pytest.approx((7 - expected, 7 + expected))
    assert interval_of_sum([]) == (0, 0)


def test_what_a_chip_is_off_by_is_common_to_all():
    shares = [Share(name, 1.0, 0.1, 0.2, common_below=0.1, common_above=0.2) for name in "abcd"]
    assert interval_of_sum(shares) == pytest.approx((3.6, 4.8))


@given(
    seconds=st.lists(st.floats(0, 1), min_size=1, max_size=5),
    below=st.floats(0, 0.9),
    above=st.floats(0, 4),
    common=st.floats(0, 1),
)
def test_a_sum_is_no_wider_than_full_correlation_and_no_narrower_than_half(
    seconds, below, above, common
):
    shares = [
        Share(str(i), t, below, above, common * below, common * above)
        for i, t in enumerate(seconds)
    ]
    low, high = interval_of_sum(shares)
    total = sum(seconds)
    least = math.sqrt(COMMON_SHARE)
    assert total * (1 - below) - 1e-9 <= low <= total * (1 - least * below) + 1e-9
    assert total * (1 + least * above) - 1e-9 <= high <= total * (1 + above) + 1e-9
    floor = least_deviation([(t, above) for t in seconds])
    assert floor == pytest.approx(least * above if total else 0.0)


def test_independent_errors_add_in_squares():
    wider = Interval(math.exp(-0.3), math.exp(0.4)).beyond(0.4, 0.3)
    assert math.log(wider.high) == pytest.approx(0.5)
    assert math.log(wider.low) == pytest.approx(-0.5)


def test_shipped_intervals_bracket_one():
    for name in FAMILIES:
        for architecture, fit in read_constants(name).architectures.items():
            for regime in fit.regimes:
                interval = interval_from_quantiles(regime.log_error_p10, regime.log_error_p90)
                assert 0.3 < interval.low <= 1 <= interval.high < 3, (name, architecture)
            assert not fit.regimes[-1].conditions
