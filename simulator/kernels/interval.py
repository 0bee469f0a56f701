"""Interval of a predicted time, from p10 to p90 of what silicon may take.

It follows from the cross-validated log residuals of the kernel's family: a family that was off by
10 % on rows it was not fitted to will be off by as much on the next one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simulator.kernels.constants_file import StoredConstants
from simulator.kernels.folds import folds_of
from simulator.kernels.parts import Floats

LOW, HIGH = 0.1, 0.9
# Without calibration the interval is this much wider in log time: a guess, since no row of such
# chips is at hand; chips of calibrated cores that were never fitted are within 1.4.
UNCALIBRATED_WIDENING = 3.0


@dataclass(frozen=True, slots=True)
class Interval:
    """Factors on a predicted time; `low` at most 1, `high` at least 1."""

    low: float
    high: float
    calibrated: bool = True

    def widened(self, factor: float) -> Interval:
        """As much wider in log time on both sides, and no longer counted as calibrated.

        Assumes: without calibration an error is as likely to either side, so that the wider side
            counts for both.
        """
        reach = factor * max(-math.log(self.low), math.log(self.high))
        return Interval(math.exp(-reach), math.exp(reach), calibrated=False)


# A plain roofline with a launch was fast by a factor of 2.4 to 5 on half of the kernels, and close
# on the rest: for kernels that no family covers.
UNMODELLED = Interval(0.8, 5.0, calibrated=False)


def interval_from_quantiles(log_error_p10: float, log_error_p90: float) -> Interval:
    """Interval whose errors (log of predicted over measured) lie between two quantiles.

    The prediction itself is always inside, also where a family is biased.
    """
    return Interval(min(math.exp(-log_error_p90), 1.0), max(math.exp(-log_error_p10), 1.0))


def interval_of(stored: StoredConstants) -> Interval:
    """Interval of predictions with a family's stored constants."""
    found = interval_from_quantiles(stored.fit.log_error_p10, stored.fit.log_error_p90)
    return found if stored.calibrated else found.widened(UNCALIBRATED_WIDENING)


def interval_of_residuals(residuals: Floats) -> Interval:
    """Interval from log residuals, predicted over measured."""
    return interval_from_quantiles(
        float(np.quantile(residuals, LOW)), float(np.quantile(residuals, HIGH))
    )


def out_of_fold_factors(residuals: Floats) -> tuple[Floats, Floats]:
    """Interval of every row from the residuals of the other folds: low and high factors."""
    low, high = np.empty(len(residuals)), np.empty(len(residuals))
    for held_out in folds_of(len(residuals)):
        others = np.delete(residuals, held_out)
        interval = interval_of_residuals(others if len(others) else residuals)
        low[held_out], high[held_out] = interval.low, interval.high
    return low, high


def holds(residuals: Floats, low: Floats, high: Floats) -> np.ndarray:
    """Whether the measured time lies between predicted x low and predicted x high."""
    measured_over_predicted = np.exp(-residuals)
    return (measured_over_predicted >= low) & (measured_over_predicted <= high)


def out_of_fold_coverage(residuals: Floats) -> float:
    """Share of rows that the interval of the other folds holds; 0.8 when all is well."""
    return float(holds(residuals, *out_of_fold_factors(residuals)).mean())


def interval_of_sum(
    seconds: Mapping[str, float], intervals: Mapping[str, Interval]
) -> tuple[float, float]:
    """p10 and p90 of a sum of predicted times, given by kernel family.

    Assumes: one family is fully correlated with itself (its error is one of its constants), and
        families are independent, so that their deviations add up in squares.
    """
    total = sum(seconds.values())
    below = math.hypot(*(t * (1 - intervals[name].low) for name, t in seconds.items()), 0.0)
    above = math.hypot(*(t * (intervals[name].high - 1) for name, t in seconds.items()), 0.0)
    return total - below, total + above
