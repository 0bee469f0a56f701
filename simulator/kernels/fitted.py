"""Fitted constants as they are kept: values, how well rows fix them, and how far off they were.

The same form serves every layer: an architecture's constants, a chip's own, and a user's.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from simulator.basis.errors import FileFormatError
from simulator.basis.yaml_loader import StrictModel
from simulator.kernels.constant import Constant
from simulator.kernels.regime import Regime

# Stored values have six digits; a bound may be missed by what rounding leaves.
ROUNDING = 1e-4


class Fitted(StrictModel):
    """Constants of one family, fitted to one group of rows, and the quality of their fit.

    `standard_errors` are of the logarithm of each constant; `not_identified` names those that rows
    alone do not fix: a chip's are then drawn to its architecture's. Errors are of |predicted -
    measured| / measured under constants that were not fitted to the row; `bias` is the mean
    logarithm of predicted over measured; `regimes` hold its quantiles, the last takes every call.
    """

    constants: dict[str, float]
    standard_errors: dict[str, float] = Field(default_factory=dict)
    not_identified: tuple[str, ...] = ()
    rows: int
    median_error: float
    p90_error: float
    bias: float
    regimes: tuple[Regime, ...]


class FamilyFile(StrictModel):
    """Constants of a family by layer: of core architectures, and of chips that have their own."""

    family: str
    architectures: dict[str, Fitted] = Field(default_factory=dict)
    chips: dict[str, Fitted] = Field(default_factory=dict)


def check_fitted(fitted: Fitted, constants: Sequence[Constant], where: str) -> None:
    """Names of constants are the family's, values lie within bounds, and there is a regime.

    Raises a FileFormatError that begins with `where`.
    """
    expected = {c.name: c for c in constants}
    if set(fitted.constants) != set(expected):
        raise FileFormatError(
            f"{where} has constants {', '.join(fitted.constants) or 'none'}, expected "
            f"{', '.join(expected) or 'none'}; run 'v4sim calibrate' again"
        )
    if not fitted.regimes:
        raise FileFormatError(f"{where} has no regimes, expected at least one")
    for name, value in fitted.constants.items():
        low, high = expected[name].low, expected[name].high
        if not low * (1 - ROUNDING) <= value <= high * (1 + ROUNDING):
            raise FileFormatError(
                f"{where}: {name} is {value:g}, expected {low:g} to {high:g} {expected[name].unit}"
            )
