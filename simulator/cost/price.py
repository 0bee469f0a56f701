"""Price of one kernel alone on a machine, and what it is priced against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hwmodels.chip import ChipSpec
from hwmodels.node import NodeSpec
from simulator.cost.machine_view import MachineView
from simulator.cost.traffic import Traffic
from simulator.engine.profile import EngineProfile, FusedKernel
from simulator.kernels.causes import binding_resource
from simulator.kernels.interval import UNMODELLED

# What kernels side by side share.
PIPES = ("matrix", "vector", "special", "memory", "llc", "link")


@dataclass(frozen=True)
class Target:
    """What kernels run on: a chip, its node (None for a chip on its own), an engine's tiles."""

    chip: ChipSpec
    node: NodeSpec | None
    profile: EngineProfile

    @cached_property
    def kernels(self) -> Mapping[str, FusedKernel]:
        """The profile's kernels by name."""
        return {kernel.name: kernel for kernel in self.profile.kernels}


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A kernel alone: launch gap, then `run_ps`.

    `busy_ps` is what each resource alone would need, launch gap included; `causes_ps` divides the
    duration by what it waits for. `low` and `high` are
    factors on the duration from p10 to p90 of silicon, `priced_by` the model (a kernel family, tile
    or roofline), `calibrated` whether that was fitted on such cores and kernels. A kernel that
    `contends` slows others down by the pipes that it keeps busy. `cut` says which tiles and parts
    the engine's rule chose: with others, more work may take less time. `work` is what the time is
    for: `macs` in all, and by cause what no node asks for (see `Parts`). `machine` is what a
    simulated machine saw; None for what no machine ran.
    """

    run_ps: int
    busy_ps: Mapping[str, int]
    traffic: Traffic
    causes_ps: Mapping[str, int]
    priced_by: str
    low: float = UNMODELLED.low
    high: float = UNMODELLED.high
    calibrated: bool = False
    contends: bool = True
    cut: str = ""
    work: Mapping[str, float] = field(default_factory=dict)
    machine: MachineView | None = None

    @property
    def bound(self) -> str:
        """Resource that most of the duration waits for."""
        return binding_resource(self.causes_ps)

    @property
    def launch_ps(self) -> int:
        """Gap before the kernel starts to work."""
        return self.busy_ps["launch"]

    @property
    def alone_ps(self) -> int:
        """Duration with nothing beside it."""
        return self.launch_ps + self.run_ps

    @property
    def shares(self) -> dict[str, float]:
        """Share of each pipe that is busy while the kernel runs."""
        if not self.run_ps or not self.contends:
            return {}
        busy = ((pipe, self.busy_ps.get(pipe, 0)) for pipe in PIPES)
        return {pipe: min(1.0, busy_ps / self.run_ps) for pipe, busy_ps in busy if busy_ps}
