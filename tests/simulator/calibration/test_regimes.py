"""Regimes: found where errors differ, not found in noise, and calibrated on rows left out."""

import numpy as np
import pytest

from simulator.calibration.regimes import (
    LEAST_ROWS,
    factors_of,
    quantile_pair,
    regimes_of,
)
from simulator.kernels.regime import Regime, Situation, regime_of


def situations(random, count):
    return [
        Situation(
            seconds=float(10 ** random.uniform(-6, -3)),
            cause=str(random.choice(["launch", "matrix"])),
            decode=bool(random.random() < 0.5),
            tokens=float(random.integers(1, 4096)),
            requests=None,
        )
        for _ in range(count)
    ]


def test_noise_is_one_regime():
    found = []
    for seed in range(10):
        random = np.random.default_rng(seed)
        found.append(len(regimes_of(random.normal(0, 0.05, 400), situations(random, 400))))
    assert np.mean(found) < 2.5


def test_a_wide_regime_is_found_and_named():
    random = np.random.default_rng(3)
    calls = situations(random, 800)
    spread = np.array([0.3 if call.cause == "launch" else 0.03 for call in calls])
    regimes = regimes_of(random.normal(0, 1, 800) * spread, calls)
    launch = regime_of(regimes, Situation(seconds=1e-5, cause="launch", decode=True, tokens=9.0))
    matrix = regime_of(regimes, Situation(seconds=1e-5, cause="matrix", decode=True, tokens=9.0))
    assert launch.log_error_p90 > 5 * matrix.log_error_p90
    assert any(regime.cause for regime in regimes)
    assert all(regime.rows >= LEAST_ROWS for regime in regimes)
    assert sum(regime.rows for regime in regimes) == 800


def test_every_call_has_a_regime_and_the_last_takes_what_is_not_known():
    random = np.random.default_rng(5)
    calls = situations(random, 600)
    spread = np.array([0.3 if call.seconds < 1e-5 else 0.03 for call in calls])
    regimes = regimes_of(random.normal(0, 1, 600) * spread, calls)
    assert len(regimes) > 1
    assert not regimes[-1].conditions
    assert regime_of(regimes, Situation()) == regimes[-1]
    counted = [sum(regime_of(regimes, call) == regime for call in calls) for regime in regimes]
    assert counted == [regime.rows for regime in regimes]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", ["normal", "heavy", "skewed"])
def test_coverage_of_rows_left_out_is_eighty_per_cent(seed, shape):
    random = np.random.default_rng(seed)
    residuals = {
        "normal": random.normal(0, 0.1, 600),
        "heavy": random.standard_t(2, 600) * 0.05,
        "skewed": random.gamma(2, 0.05, 600) - 0.1,
    }[shape]
    low, high = factors_of(residuals, situations(random, 600))
    measured_over_predicted = np.exp(-residuals)
    held = (measured_over_predicted >= low) & (measured_over_predicted <= high)
    assert 0.74 <= held.mean() <= 0.87


def test_quantiles_of_few_rows_reach_further():
    residuals = np.linspace(-0.2, 0.2, 11)
    low, high = quantile_pair(residuals)
    assert high > np.quantile(residuals, 0.9)
    assert low < np.quantile(residuals, 0.1)
    assert quantile_pair(np.array([0.1])) == (0.1, 0.1)


def test_conditions_in_words():
    regime = Regime(
        cause="launch",
        decode=False,
        seconds_below=2e-5,
        tokens_below=64,
        requests_below=2,
        log_error_p10=-0.1,
        log_error_p90=0.1,
        rows=60,
    )
    assert regime.conditions == "launch, prefill, below 20 us, below 64 tokens, below 2 requests"
