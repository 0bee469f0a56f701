"""Interval of a predicted time, from p10 to p90 of what silicon may take.

It has two parts. A family that was off by 10 % on rows of a regime that it was not fitted to will
be off by as much on the next one; and on a chip that was not fitted all families are off by
something that they share (`Standing`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.kernels.constants_file import StoredConstants
from simulator.kernels.regime import Situation, regime_of

# A kernel with constants of another one of the same kind, or in a form that was never fitted, is
# this much less certain in log time: a guess, since no row of such kernels is at hand.
BORROWED_WIDENING = 3.0
# Share of the variance of a step that its kernel families have in common, such as the floor of
# launches and what they share of a memory: a guess, and no less than what steps need to be no
# narrower than the modules that they consist of.
COMMON_SHARE = 0.5


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

    def beyond(self, low: float, high: float) -> Interval:
        """Wider by an independent error, which reaches so far below and above in log time."""
        below, above = math.hypot(math.log(self.low), low), math.hypot(math.log(self.high), high)
        return Interval(math.exp(-below), math.exp(above), self.calibrated)


# A plain roofline with a launch was fast by a factor of 2.4 to 5 on half of the kernels, and close
# on the rest: for kernels that no family covers.
UNMODELLED = Interval(0.8, 5.0, calibrated=False)


def interval_from_quantiles(log_error_p10: float, log_error_p90: float) -> Interval:
    """Interval whose errors (log of predicted over measured) lie between two quantiles.

    The prediction itself is always inside, also where a family is biased.
    """
    return Interval(min(math.exp(-log_error_p90), 1.0), max(math.exp(-log_error_p10), 1.0))


def interval_of(
    stored: StoredConstants,
    call: Situation,
    seconds: float,
    *,
    borrowed: bool = False,
    alone: bool = False,
) -> Interval:
    """Interval of a call that is predicted to take `seconds` with a family's constants.

    Constants that no row was fitted to, but single published times, are not calibrated. `alone`:
    timed by itself, as measured rows and published figures are, and not in a step.

    Assumes: constants of another kernel of the same kind, or in a derived form, are off by three
        times as much in log time.
    """
    regime = regime_of(stored.fit.regimes, call)
    found = interval_from_quantiles(regime.log_error_p10, regime.log_error_p90)
    if borrowed:
        found = found.widened(BORROWED_WIDENING)
    standing = stored.standing
    calibrated = found.calibrated and standing.measured_cores and stored.fit.rows > 0
    found = Interval(found.low, found.high, calibrated)
    return found.beyond(*standing.reaches(seconds, alone=alone))


@dataclass(frozen=True, slots=True)
class Share:
    """A launch's part of a step: its time there, and how far p10 and p90 lie from it.

    `below` and `above` are shares of the time; `common_below` and `common_above` those of them that
    all kernels of the chip have in common.
    """

    family: str
    seconds: float
    below: float
    above: float
    common_below: float = 0.0
    common_above: float = 0.0


def interval_of_sum(shares: Sequence[Share]) -> tuple[float, float]:
    """p10 and p90 of a sum of predicted times.

    Assumes: what kernels are off by because of their chip is the same for all; of the rest, one
        family is fully correlated with itself (its error is one of its constants), and half of the
        variance is common to all families (facts and launches are).
    """
    total = sum(share.seconds for share in shares)
    below = _deviation([(s.family, s.seconds, s.below, s.common_below) for s in shares])
    above = _deviation([(s.family, s.seconds, s.above, s.common_above) for s in shares])
    return total - below, total + above


def _deviation(shares: Sequence[tuple[str, float, float, float]]) -> float:
    """Deviation of a sum to one side: (family, seconds, share of it in all, share in common)."""
    common, own = 0.0, dict[str, float]()
    for family, seconds, whole, shared in shares:
        common += seconds * min(shared, whole)
        rest = math.sqrt(max(whole**2 - shared**2, 0.0))
        own[family] = own.get(family, 0.0) + seconds * rest
    together = sum(own.values())
    apart = math.hypot(*own.values(), 0.0)
    return math.sqrt(common**2 + COMMON_SHARE * together**2 + (1 - COMMON_SHARE) * apart**2)


def least_deviation(shares: Sequence[tuple[float, float]]) -> float:
    """What a step is off by at least, as a share: from its launches' (seconds, share of them).

    Assumes: errors that are common to half of the variance do not cancel beyond that half.
    """
    whole = sum(seconds for seconds, _ in shares)
    mean = sum(seconds * share for seconds, share in shares)
    return math.sqrt(COMMON_SHARE) * mean / whole if whole else 0.0
