"""How far two sets of arrays are apart, with NaN counted and never taken for equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """Largest absolute difference of the finite values, and how many values are not finite."""

    largest: float
    not_finite: int
    values: int

    @property
    def equal(self) -> bool:
        """Every value finite and within the tolerance; of nothing at all, nothing is claimed."""
        return self.values > 0 and not self.not_finite and self.largest <= TOLERANCE


def compare(ours: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[Any]]) -> Difference:
    """Compare arrays of the same names and shapes; the wanted ones are finite."""
    largest, not_finite, values = 0.0, 0, 0
    for name, array in wanted.items():
        assert ours[name].shape == array.shape, f"{name}: {ours[name].shape} and {array.shape}"
        finite = np.isfinite(ours[name])
        gaps = np.abs(ours[name] - array)[finite]
        largest = max(largest, float(gaps.max(initial=0.0)))
        not_finite += int((~finite).sum())
        values += array.size
    return Difference(largest, not_finite, values)
