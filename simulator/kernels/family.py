"""A kernel family: its constants, and its program.

A program sees calls as columns of named sizes (one array a size, one value a call, all of one chip)
and the chip's facts; it knows nothing of measured times. At most five constants a family and
architecture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hwmodels.chip import ChipSpec
from simulator.kernels.constant import Constant
from simulator.kernels.parts import Parts

# Numbers are float64 arrays, text is an array of str.
Columns = Mapping[str, NDArray[np.generic]]
# Sizes of one call by name, and constants.
Sizes = Mapping[str, Any]
Constants = Mapping[str, float]
MOST_CONSTANTS = 5


def columns_of(sizes: Sizes) -> dict[str, NDArray[np.generic]]:
    """Sizes of one call as columns of one row."""
    return {name: np.array([value]) for name, value in sizes.items()}


def one(value: Any) -> float:
    """The number of a call that stands alone, of an array of one or as it is."""
    return float(np.asarray(value, dtype=np.float64).reshape(-1)[0])


class Family(ABC):
    """Base of all families; the docstring of each says how its kernels work."""

    name: ClassVar[str]
    constants: ClassVar[tuple[Constant, ...]]

    @abstractmethod
    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Predicted seconds of each call, by cause."""

    @property
    def starts(self) -> dict[str, float]:
        """Constants where a fit begins."""
        return {c.name: c.start for c in self.constants}


def check_families(families: Mapping[str, Family]) -> None:
    """Every family under its own name, with few enough constants."""
    for name, family in families.items():
        assert name == family.name, f"{name} is registered for {family.name}"
        assert len(family.constants) <= MOST_CONSTANTS, f"{name} has too many constants"
