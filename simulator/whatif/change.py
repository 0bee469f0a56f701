"""A step on two chips, kernel by kernel: the parts of the step and how they change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hwmodels.chip import ChipSpec
from hwmodels.chip_edits import edited_chip
from simulator.cost.critical_path import critical_ps_of
from simulator.cost.question import AskedStep
from simulator.cost.result import StepResult

BETWEEN_LAUNCHES = "(between launches)"
Costed = Callable[[AskedStep], StepResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChange:
    """Part of the step that waits for the launches of one name, in picoseconds."""

    name: str
    before_ps: int
    after_ps: int

    @property
    def change_ps(self) -> int:
        """What the edits add; below 0 where they save."""
        return self.after_ps - self.before_ps


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """A step before and after edits of its chip; changes of kernels add up to the step's."""

    before: StepResult
    after: StepResult
    kernels: tuple[KernelChange, ...]

    @property
    def change_ps(self) -> int:
        """What the edits add to the step."""
        return self.after.total_ps - self.before.total_ps


def on_chip(asked: AskedStep, chip: ChipSpec) -> AskedStep:
    """The step on another chip of its kind, whose links its node then has."""
    return asked.changed(chip=chip, node=asked.node.with_links_of(chip))


def with_edits(asked: AskedStep, edits: Sequence[str]) -> AskedStep:
    """The step on its chip with edits of the form `KEY=VALUE`; formats stay as they were.

    Assumes: an edited chip's kernels keep the constants that were fitted on the chip as it is.
    """
    return on_chip(asked, edited_chip(asked.chip, edits))


def step_parts(result: StepResult) -> dict[str, int]:
    """Picoseconds of the step that wait for the launches of each name; they add up to the step."""
    critical_ps, between_ps = critical_ps_of(result.kernels, result.total_ps)
    parts: dict[str, int] = {}
    for kernel, part_ps in zip(result.kernels, critical_ps, strict=True):
        parts[kernel.name] = parts.get(kernel.name, 0) + part_ps
    if between_ps:
        parts[BETWEEN_LAUNCHES] = between_ps
    return parts


def kernel_changes(
    before_ps: Mapping[str, int], after_ps: Mapping[str, int]
) -> tuple[KernelChange, ...]:
    """Changes of parts of a step, the largest first."""
    found = [
        KernelChange(name=name, before_ps=before_ps.get(name, 0), after_ps=after_ps.get(name, 0))
        for name in dict.fromkeys((*before_ps, *after_ps))
    ]
    return tuple(sorted(found, key=lambda k: (-abs(k.change_ps), -k.before_ps, k.name)))


def step_change(before: StepResult, after: StepResult) -> StepChange:
    """Two costed steps side by side."""
    kernels = kernel_changes(step_parts(before), step_parts(after))
    return StepChange(before=before, after=after, kernels=kernels)
