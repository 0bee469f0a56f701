"""Power limit: a kernel cannot spend its energy faster than the package may draw it."""

from __future__ import annotations

from collections.abc import Mapping

from hwmodels.chip import ChipSpec
from simulator.kernels.parts import Floats
from simulator.kernels.pipes import exposed

PICO = 1e-12


def power_seconds(operations: Floats, pj_per_operation: float, chip: ChipSpec) -> Floats:
    """Least time of so many operations at the package's power limit: energy over TDP.

    Assumes: energy of an operation does not depend on the clock, and all of the TDP serves them.
    """
    return operations * (pj_per_operation * PICO / chip.tdp_w)


def with_power_limit(
    seconds: Mapping[str, Floats], limit: Floats, busy: Floats
) -> dict[str, Floats]:
    """Adds what the limit takes beyond `busy`, the clocked time of the powered work, as `power`."""
    return {**seconds, "power": exposed(limit, busy)}
