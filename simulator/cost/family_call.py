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
from simulator.kernels.interval import Interval, interval_of
from simulator.kernels.parts import Parts, joined
from simulator.kernels.regime import Situation
from simulator.kernels.registry import find_family


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


@dataclass(frozen=True, slots=True)
class Priced:
    """Seconds by cause, and the constants that they were made with.

    `borrowed`: of another kernel of the same kind, or in a form that was never fitted.
    """

    parts: Parts
    constants: Borrowable
    borrowed: bool

    @property
    def family(self) -> str:
        """Family that the time belongs to."""
        return self.constants.family

    def interval(self, demand: Demand, *, module: bool = False) -> Interval:
        """Interval of the time of a kernel; of a module's, the regime goes by the step alone."""
        assert demand.priced_as is not None
        asked, seconds = demand.priced_as, float(self.parts.total[0])
        call = Situation(
            seconds=None if module else seconds,
            cause=None if module else self.parts.dominant[0],
            decode=asked.decode,
            tokens=asked.tokens,
            requests=asked.requests,
        )
        return interval_of(self.constants.stored, call, seconds, borrowed=self.borrowed)


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
    parts = [parts_of([call], chip) for call in calls]
    first = calls[0]
    borrowed = first.constants.borrowed or first.derived
    return Priced(parts[0] if len(parts) == 1 else joined(*parts), first.constants, borrowed)
