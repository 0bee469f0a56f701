"""Random waits of a family with a given mean and coefficient of variation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError, unknown_name

FAMILIES = ("poisson", "gamma", "weibull", "lognormal")
_LEAST_CV, _MOST_CV = 0.01, 30.0


def draw(
    rng: np.random.Generator, family: str, mean: float, cv: float, count: int
) -> NDArray[np.float64]:
    """`count` values of a family with this mean and coefficient of variation (1 for `poisson`)."""
    if family not in FAMILIES:
        raise InputError(unknown_name("family", family, FAMILIES))
    if not _LEAST_CV <= cv <= _MOST_CV:
        raise InputError(
            f"a coefficient of variation is {cv:g}, expected {_LEAST_CV} to {_MOST_CV}"
        )
    if family == "poisson":
        return rng.exponential(mean, count)
    if family == "gamma":
        return rng.gamma(1 / cv**2, mean * cv**2, count)
    if family == "lognormal":
        sigma = math.sqrt(math.log1p(cv**2))
        return rng.lognormal(math.log(mean) - sigma**2 / 2, sigma, count)
    shape = weibull_shape(cv)
    return mean / math.gamma(1 + 1 / shape) * rng.weibull(shape, count)


def weibull_shape(cv: float) -> float:
    """Shape k of a Weibull law: cv^2 + 1 = Gamma(1 + 2/k) / Gamma(1 + 1/k)^2, by bisection."""
    low, high = 0.05, 200.0
    for _ in range(100):
        k = math.sqrt(low * high)
        log_ratio = math.lgamma(1 + 2 / k) - 2 * math.lgamma(1 + 1 / k)
        low, high = (k, high) if log_ratio > math.log1p(cv**2) else (low, k)
    return math.sqrt(low * high)


def arrivals_s(
    rng: np.random.Generator, family: str, rate_per_s: float, cv: float, count: int
) -> NDArray[np.float64]:
    """`count` arrival times in seconds, the first after one gap."""
    return np.cumsum(draw(rng, family, 1 / rate_per_s, cv, count))


def arrivals_within_s(
    rng: np.random.Generator, family: str, rate_per_s: float, cv: float, span_s: float
) -> NDArray[np.float64]:
    """Arrival times in [0, span) of a process that has already run for 20 mean gaps or more."""
    before = 20 / rate_per_s
    parts, reached = [], -before
    while reached < span_s:
        expected = (span_s - reached) * rate_per_s
        times = reached + arrivals_s(rng, family, rate_per_s, cv, int(expected * 1.1) + 16)
        parts.append(times)
        reached = float(times[-1])
    joined = np.concatenate(parts)
    return joined[(joined >= 0) & (joined < span_s)]
