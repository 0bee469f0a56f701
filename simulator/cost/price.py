"""Price of one kernel alone on a machine, and what it is priced against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hwmodels.chip import ChipSpec
from hwmodels.node import NodeSpec
from simulator.cost.result import RESOURCES
from simulator.cost.traffic import Traffic
from simulator.lower.kernel import Demand
from simulator.lower.profile import EngineProfile


@dataclass(frozen=True)
class Target:
    """What kernels run on: a chip, its node (None for a chip on its own), an engine's tiles."""

    chip: ChipSpec
    node: NodeSpec | None
    profile: EngineProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A kernel alone: launch gap, then `run_ps`.

    `busy_ps` is what each resource alone would need, launch gap included.
    """

    run_ps: int
    busy_ps: Mapping[str, int]
    traffic: Traffic

    @property
    def launch_ps(self) -> int:
        """Gap before the kernel starts to work."""
        return self.busy_ps["launch"]

    @property
    def alone_ps(self) -> int:
        """Duration with nothing beside it."""
        return self.launch_ps + self.run_ps

    @property
    def bound(self) -> str:
        """Resource that would take longest alone."""
        return max(RESOURCES, key=lambda resource: self.busy_ps[resource])

    @property
    def shares(self) -> dict[str, float]:
        """Share of each pipe that is busy while the kernel runs."""
        if not self.run_ps:
            return {}
        pipes = (r for r in RESOURCES if r != "launch")
        return {r: min(1.0, self.busy_ps[r] / self.run_ps) for r in pipes if self.busy_ps[r]}


PriceRule = Callable[[Demand, Target], Price]
