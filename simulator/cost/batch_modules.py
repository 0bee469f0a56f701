"""Kernels of the attention modules of a step: all modules are worked out at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.cost.filling import filled_by
from simulator.cost.price import Target
from simulator.cost.programs import chip_call, modules_kernels
from simulator.kernels.constants_file import constants_for
from simulator.lower.calls import AttentionCall
from simulator.lower.kernel import Demand, ProgramCall


class ModuleBatch:
    """Seconds of kernels of attention modules, by module and part."""

    def __init__(self, demands: Sequence[Demand], target: Target) -> None:
        self._target = target
        # One for each module and part, whatever else the demands have.
        self.kernels = tuple(dict.fromkeys(_named(demand) for demand in demands))
        calls = list(dict.fromkeys(_call(kernel) for kernel in self.kernels))
        self._fills = [filled_by(call) for call in calls]
        self._parts = [(calls.index(_call(kernel)), str(kernel.part)) for kernel in self.kernels]

    def seconds(self, values: Sequence[Any]) -> list[Mapping[str, float]]:
        """Seconds by cause of each kernel in a replay."""
        decisions, chip = self._target.profile.attention, self._target.chip
        if decisions is None or not self.kernels:
            return []
        calls = [chip_call(fill(values), chip) for fill in self._fills]
        stored = constants_for(decisions.family, chip)
        parts = modules_kernels(calls, decisions, chip, stored.values)
        rows = {
            part: {cause: value.tolist() for cause, value in found.seconds.items()}
            for part, found in parts.items()
        }
        return [
            {cause: value[module] for cause, value in rows[part].items()}
            for module, part in self._parts
        ]


def _named(demand: Demand) -> ProgramCall:
    assert demand.priced_as is not None
    return demand.priced_as


def _call(kernel: ProgramCall) -> AttentionCall:
    assert isinstance(kernel.call, AttentionCall)
    return kernel.call
