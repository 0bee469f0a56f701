"""Intervals: from residuals, wider without calibration, added up, and their coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.chip import find_chip
from simulator.kernels.constants_file import constants_for, read_constants
from simulator.kernels.interval import (
    UNCALIBRATED_WIDENING,
    Interval,
    interval_from_quantiles,
    interval_of,
    interval_of_residuals,
    interval_of_sum,
    out_of_fold_coverage,
)
from simulator.kernels.registry import FAMILIES


def test_a_slow_prediction_means_that_silicon_is_faster():
    interval = interval_from_quantiles(-0.1, 0.3)
    assert interval.low == pytest.approx(math.exp(-0.3))
    assert interval.high == pytest.approx(math.exp(0.1))


def test_the_prediction_is_inside_even_where_the_family_is_biased():
    assert interval_from_quantiles(0.1, 0.3).high == 1.0
    assert interval_from_quantiles(-0.3, -0.1).low == 1.0


def test_uncalibrated_chips_say_so_and_are_wider():
    near = interval_of(constants_for("nccl_ring", find_chip("h200")))
    far = interval_of(constants_for("nccl_ring", find_chip("mi300x")))
    assert near.calibrated
    assert not far.calibrated
    assert far.low < near.low ** (UNCALIBRATED_WIDENING - 1e-9)
    assert far.high > near.high
    assert far.low * far.high == pytest.approx(1)


def test_one_family_is_correlated_and_families_are_independent():
    ten = Interval(0.9, 1.1)
    assert interval_of_sum({"a": 10.0}, {"a": ten}) == pytest.approx((9, 11))
    low, high = interval_of_sum({"a": 3.0, "b": 4.0}, {"a": ten, "b": ten})
    assert (low, high) == pytest.approx((6.5, 7.5))
    assert interval_of_sum({}, {}) == (0, 0)


@given(
    seconds=st.lists(st.floats(0, 1), min_size=1, max_size=5),
    low=st.floats(0.1, 1),
    high=st.floats(1, 5),
)
def test_a_sum_is_no_wider_than_full_correlation(seconds, low, high):
    times = {str(i): t for i, t in enumerate(seconds)}
    below, above = interval_of_sum(times, dict.fromkeys(times, Interval(low, high)))
    total = sum(seconds)
    assert total * low * (1 - 1e-9) - 1e-12 <= below <= total * (1 + 1e-9)
    assert total * (1 - 1e-9) <= above <= total * high * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", ["normal", "heavy", "skewed"])
def test_coverage_out_of_fold_is_eighty_per_cent(seed, shape):
    random = np.random.default_rng(seed)
    residuals = {
        "normal": random.normal(0, 0.1, 400),
        "heavy": random.standard_t(2, 400) * 0.05,
        "skewed": random.gamma(2, 0.05, 400) - 0.1,
    }[shape]
    assert 0.75 <= out_of_fold_coverage(residuals) <= 0.85


def test_an_interval_holds_most_of_its_own_residuals():
    residuals = np.linspace(-0.2, 0.2, 101)
    interval = interval_of_residuals(residuals)
    held = (np.exp(-residuals) >= interval.low) & (np.exp(-residuals) <= interval.high)
    assert 0.79 <= held.mean() <= 0.83


def test_shipped_intervals_bracket_one():
    for name in FAMILIES:
        for architecture, fit in read_constants(name).architectures.items():
            interval = interval_from_quantiles(fit.log_error_p10, fit.log_error_p90)
            assert 0.4 < interval.low <= 1 <= interval.high < 2.5, (name, architecture)
