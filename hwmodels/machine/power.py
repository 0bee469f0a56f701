"""Power limit of a package: above it the clock falls."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Power grows with about the square of the clock, since the voltage rises with it.
CLOCK_EXPONENT = 2.0
Floats = NDArray[np.float64]


def throttled_seconds(busy: Floats | float, at_limit: Floats | float) -> Floats:
    """Seconds under the limit of work that takes `busy` at the full clock.

    `at_limit` / `busy` is the power at the full clock over the limit; where it is above one, the
    clock falls by its square root: seconds = root(busy x at_limit).

    Assumes: power goes with the square of the clock, and all of `busy` stretches with it.
    """
    excess = np.maximum(at_limit / np.maximum(busy, np.finfo(float).tiny), 1.0)
    return np.asarray(busy * excess ** (1.0 / CLOCK_EXPONENT))
