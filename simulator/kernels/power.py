"""Power limit: a kernel that would draw more than the package may runs at a lower clock."""

from __future__ import annotations

from collections.abc import Mapping

from hwmodels.chip import ChipSpec
from hwmodels.machine.power import throttled_seconds
from simulator.kernels.parts import Floats
from simulator.kernels.pipes import exposed

PICO = 1e-12


def power_seconds(operations: Floats, pj_per_operation: float, chip: ChipSpec) -> Floats:
    """Time of so many operations at their full-clock energy and the package's power limit.

    Assumes: all of the TDP serves the operations.
    """
    return operations * (pj_per_operation * PICO / chip.tdp_w)


def with_power_limit(
    seconds: Mapping[str, Floats], at_limit: Floats, busy: Floats
) -> dict[str, Floats]:
    """Adds what throttling costs beyond `busy`, the full-clock time of the call, as `power`."""
    return {**seconds, "power": exposed(throttled_seconds(busy, at_limit), busy)}
