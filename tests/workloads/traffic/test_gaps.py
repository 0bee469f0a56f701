"""Random waits: mean and coefficient of variation of every family, rates within a span."""

import math

import numpy as np
import pytest

from simulator.basis.errors import InputError
from workloads.traffic.gaps import FAMILIES, arrivals_within_s, draw, weibull_shape


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
def test_mean_and_variation(family, cv):
    values = draw(np.random.default_rng(3), family, 20.0, cv, 400_000)
    assert values.mean() == pytest.approx(20.0, rel=0.02)
    expected = 1.0 if family == "poisson" else cv
    assert values.std() / values.mean() == pytest.approx(expected, rel=0.05)


def test_weibull_shapes_by_hand():
    assert weibull_shape(1.0) == pytest.approx(1.0)
    # k = 1/2: Gamma(5) / Gamma(3)^2 = 24 / 4 = 6, so cv = sqrt(5).
    assert weibull_shape(math.sqrt(5)) == pytest.approx(0.5)


@pytest.mark.parametrize("family", ["poisson", "gamma", "weibull"])
def test_arrivals_within_a_span_have_the_rate(family):
    times = arrivals_within_s(np.random.default_rng(5), family, 2.0, 1.5, 20_000.0)
    assert 0 <= times.min() < times.max() < 20_000
    assert (np.diff(times) >= 0).all()
    assert len(times) == pytest.approx(40_000, rel=0.03)


@pytest.mark.parametrize(
    ("family", "cv", "words"),
    [("gama", 1.0, "did you mean 'gamma'"), ("gamma", 0.0, "expected 0.01 to 30")],
)
def test_bad_parameters(family, cv, words):
    with pytest.raises(InputError, match=words):
        draw(np.random.default_rng(0), family, 1.0, cv, 1)
