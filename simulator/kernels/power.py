"""Power limit: a kernel that would draw more than the package may runs at a lower clock."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.parts import Floats
from simulator.kernels.pipes import exposed

PICO = 1e-12
# Power grows with about the square of the clock, since the voltage rises with it.
CLOCK_EXPONENT = 2.0


def power_seconds(operations: Floats, pj_per_operation: float, chip: ChipSpec) -> Floats:
    """Time of so many operations at their full-clock energy and the package's power limit.

    Assumes: all of the TDP serves the operations.
    """
    return operations * (pj_per_operation * PICO / chip.tdp_w)


def throttled_seconds(busy: Floats, at_limit: Floats) -> Floats:
    """Seconds under the limit of work that takes `busy` at the full clock.

    `at_limit` / `busy` is the power at the full clock over the limit; where it is above one, the
    clock falls by its square root: seconds = root(busy x at_limit).

    Assumes: power goes with the square of the clock, and all of `busy` stretches with it.
    """
    excess = np.maximum(at_limit / np.maximum(busy, np.finfo(float).tiny), 1.0)
    return busy * excess ** (1.0 / CLOCK_EXPONENT)


def with_power_limit(
    seconds: Mapping[str, Floats], at_limit: Floats, busy: Floats
) -> dict[str, Floats]:
    """Adds what throttling costs beyond `busy`, the full-clock time of the call, as `power`."""
    return {**seconds, "power": exposed(throttled_seconds(busy, at_limit), busy)}
