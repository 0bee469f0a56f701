"""What a program says of one kernel: its time by cause, and the family whose constants it used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwmodels.chip import ChipSpec
from simulator.cost.price import Target
from simulator.engine.kernel import Demand
from simulator.engine.kernel_section import FamilyRule, FusedKernel
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constants_file import StoredConstants, constants_for
from simulator.kernels.interval import UNCALIBRATED_WIDENING, Interval, interval_of
from simulator.kernels.parts import Parts
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
