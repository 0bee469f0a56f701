"""Lanes of a costed step's kernels on the machine: of every family the longest kernel."""

from __future__ import annotations

from dataclasses import dataclass

from hwmodels.machine.lanes import MOST_STRETCHES, KernelLanes, kernel_lanes
from hwmodels.machine.program import KernelProgram
from hwmodels.machine.spec import MachineSpec, machine_of
from hwmodels.machine.steady import kernel_time
from simulator.cost.engine_price import program_price
from simulator.cost.machine_calls import call_program
from simulator.cost.price import Target
from simulator.cost.question import AskedStep
from simulator.cost.result import KernelRecord, StepResult
from simulator.cost.step import rank_graph
from simulator.engine.kernel import Demand
from simulator.engine.lowering import lower
from workloads.run_stats import RunStats


@dataclass(frozen=True, kw_only=True)
class ShownKernel:
    """A launch of the step, the family that prices it, the program and its lanes."""

    record: KernelRecord
    program: str
    chip: MachineSpec
    lanes: KernelLanes


def machine_lanes(
    asked: AskedStep, result: StepResult, stats: RunStats | None = None, most: int = MOST_STRETCHES
) -> tuple[ShownKernel, ...]:
    """Lanes of the longest kernel of each family, in order of their begin.

    Kernels without a program, and those that only wait to be launched, have none. The lanes of a
    kernel hold at most `most` stretches.
    """
    target = Target(asked.chip, asked.node, asked.deployment.profile)
    machine = machine_of(asked.chip)
    demands = demands_of(asked, stats)
    shown = []
    for record in _longest(result, demands):
        found = longest_program(demands[record.path], target, machine)
        if found is None or not any(launch.stages.any() for launch in found.launches):
            continue
        lanes = kernel_lanes(found, machine, most)
        shown.append(ShownKernel(record=record, program=found.name, chip=machine, lanes=lanes))
    return tuple(shown)


def demands_of(asked: AskedStep, stats: RunStats | None = None) -> dict[str, Demand]:
    """Demands of the kernels of the very step that is asked for, by path."""
    precision = asked.deployment.formats.precision
    graph = rank_graph(asked.question, asked.config, precision)
    kernels = lower(graph, asked.deployment.profile, stats or RunStats())
    return {f"{kernel.scope}/{kernel.name}": kernel.demand for kernel in kernels}


def longest_program(demand: Demand, target: Target, machine: MachineSpec) -> KernelProgram | None:
    """The program of a kernel's call that takes the longest; None where tiles price the kernel."""
    found = program_price(demand, target)
    if found is None:
        return None
    programs = [call_program(call, target.chip) for call in found[1]]
    tdp_w = target.chip.tdp_w
    return max(programs, key=lambda program: kernel_time(program, machine, tdp_w).seconds)


def _longest(result: StepResult, demands: dict[str, Demand]) -> list[KernelRecord]:
    longest: dict[tuple[str, str], KernelRecord] = {}
    for record in result.kernels:
        known = longest.get((record.priced_by, record.program))
        if record.path in demands and (known is None or record.duration_ps > known.duration_ps):
            longest[record.priced_by, record.program] = record
    return sorted(longest.values(), key=lambda record: record.start_ps)
