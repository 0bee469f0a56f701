"""Runs a sweep: keeps the parts there are, computes the others, writes each as it comes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from simulator.basis.errors import InputError, V4SimError
from simulator.sweep.compute import Keep, Outcome, Task
from simulator.sweep.parts import PartFolder
from simulator.sweep.point import Point

Told = Callable[[Outcome], None]


Source = Callable[[Sequence[Task], Keep], Generator[Outcome, None, None]]


class InterruptedSweepError(V4SimError):
    """Ctrl-C: what has finished is on disk."""

    exit_code = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Outcomes by hash; of the distinct points, how many were kept, computed, or no scenario."""

    outcomes: dict[str, Outcome]
    kept: int
    computed: int
    invalid: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep has before it runs: outcomes that are known, and the tasks that are left.

    `kept` counts the parts that were there, `invalid` the points that are no scenario.
    """

    points: tuple[Point, ...]
    parts: PartFolder
    known: dict[str, Outcome]
    tasks: tuple[Task, ...]
    kept: int
    invalid: int


def plan_sweep(points: Sequence[Point], parts: PartFolder) -> Plan:
    """Look at the parts there are; points that cannot be are answered at once."""
    parts.make()
    unique = {point.digest: point for point in points}
    known = parts.kept(unique)
    left = [point for digest, point in unique.items() if digest not in known]
    tasks = tuple(Task(p.digest, p.inputs, p.scenario) for p in left if p.scenario is not None)
    kept = len(known)
    for point in left:
        if point.scenario is None:
            outcome = Outcome(digest=point.digest, status="refused", error=point.error)
            parts.write(outcome, point.inputs)
            known[point.digest] = outcome
    return Plan(tuple(points), parts, known, tasks, kept, len(known) - kept)


def run_sweep(plan: Plan, source: Source, told: Told = lambda _: None) -> Sweep:
    """Compute what is left. Raises InterruptedSweepError on Ctrl-C, with what is kept."""
    found: dict[str, Outcome] = {}
    try:
        if plan.tasks:
            with closing(source(plan.tasks, plan.parts.write)) as outcomes:
                for outcome in outcomes:
                    found[outcome.digest] = outcome
                    told(outcome)
    except KeyboardInterrupt:
        raise InterruptedSweepError(f"interrupted; {_left(plan)}") from None
    except InputError as error:
        if not found:
            raise
        raise InputError(f"{error.message}; {_left(plan)}") from None
    return Sweep(
        outcomes=plan.known | found,
        kept=plan.kept,
        computed=len(found),
        invalid=plan.invalid,
    )


def _left(plan: Plan) -> str:
    plan.parts.clear_temporaries()
    unique = {point.digest for point in plan.points}
    kept = len(plan.parts.kept(unique))
    return (
        f"{kept:,} of {len(unique):,} points are kept in {plan.parts.folder}, and the same "
        "command goes on from there"
    )
