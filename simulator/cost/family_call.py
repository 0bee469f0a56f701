"""What a program asks of a calibrated family, as one row of columns that others may join."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.cost.price import Target
from simulator.engine.kernel import Demand
from simulator.engine.kernel_section import FamilyRule, FusedKernel
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constants_file import StoredConstants, constants_for
from simulator.kernels.interval import UNCALIBRATED_WIDENING, Interval, interval_of
from simulator.kernels.parts import Parts, joined
from simulator.kernels.registry import find_family


@dataclass(frozen=True, slots=True)
class Priced:
    """Seconds by cause, the interval of such predictions, and the family that they belong to."""

    parts: Parts
    interval: Interval
    family: str


@dataclass(frozen=True, slots=True)
class Borrowable:
    """Constants of a family for a chip; `borrowed` from a kernel of the same kind."""

    family: str
    stored: StoredConstants
    borrowed: bool

    @property
    def values(self) -> Mapping[str, float]:
        """Constants by name."""
        return self.stored.values

    def priced(self, parts: Parts, *, derived: bool = False) -> Priced:
        """Parts made with these constants; `derived` in a form that was never fitted.

        Assumes: constants of another kernel of the same kind, or in a derived form, are off by as
            much as those of other cores.
        """
        interval = interval_of(self.stored)
        if (self.borrowed or derived) and interval.calibrated:
            interval = interval.widened(UNCALIBRATED_WIDENING)
        return Priced(parts, interval, self.family)


def kernel_of(demand: Demand, target: Target) -> FusedKernel:
    """The profile's entry of a kernel."""
    assert demand.priced_as is not None
    return target.kernels[demand.priced_as.kernel]


def rule_of(
    kernel: FusedKernel, math: tuple[str, ...], chip: ChipSpec, decode: bool
) -> FamilyRule | None:
    """The first rule of a kernel that holds for its math classes, the chip's cores, the phase."""
    cores = core_architecture(chip)
    return next((rule for rule in kernel.families if rule.fits(math, cores, decode)), None)


def constants_of(demand: Demand, target: Target, math: tuple[str, ...] = ()) -> Borrowable | None:
    """Constants of the family that prices a kernel; None where no rule holds."""
    assert demand.priced_as is not None
    rule = rule_of(kernel_of(demand, target), math, target.chip, demand.priced_as.decode)
    if rule is None:
        return None
    return borrowable(rule.family, target.chip, rule.borrowed)


def borrowable(family: str, chip: ChipSpec, borrowed: bool = False) -> Borrowable:
    """Constants of a family for a chip; an unknown name is an error that lists the known."""
    find_family(family)
    return Borrowable(family, constants_for(family, chip), borrowed)


Columns = Mapping[str, np.ndarray]
# Seconds by cause of calls in columns, one value a call, on a chip with these constants.
Form = Callable[[Columns, ChipSpec, Mapping[str, float]], Parts]


@dataclass(frozen=True, slots=True, eq=False)
class FamilyCall:
    """One row of a form's columns. Rows of equal forms and constants may be worked out at once.

    `row` has names and values. Constants are equal where they come from one reading of a file.
    `derived`: the form was never fitted itself.
    """

    form: Form
    constants: Borrowable
    row: tuple[tuple[str, Any], ...]
    derived: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for rows of the same table."""
        return self.form, id(self.constants.stored.fit), *map(_name, self.row)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FamilyCall):
            return NotImplemented
        same = self.constants.stored.fit is other.constants.stored.fit
        return same and self.form == other.form and self.row == other.row

    def __hash__(self) -> int:
        return hash((self.form, id(self.constants.stored.fit), self.row))


def _name(size: tuple[str, float | str]) -> object:
    """Name of a size; with a number format, one table has one format."""
    return size if size[0] == "math" else size[0]


def parts_of(calls: Sequence[FamilyCall], chip: ChipSpec) -> Parts:
    """Seconds by cause of calls with equal keys, one value a call."""
    first = calls[0]
    columns = {
        name: np.array([call.row[i][1] for call in calls]) for i, (name, _) in enumerate(first.row)
    }
    return first.form(columns, chip, first.constants.values)


def priced_calls(calls: Sequence[FamilyCall] | None, chip: ChipSpec) -> Priced | None:
    """A kernel that takes as long as its calls one after the other; None without calls."""
    if not calls:
        return None
    found = [call.constants.priced(parts_of([call], chip), derived=call.derived) for call in calls]
    if len(found) == 1:
        return found[0]
    return Priced(joined(*(p.parts for p in found)), found[0].interval, found[0].family)
