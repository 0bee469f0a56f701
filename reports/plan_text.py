"""A plan in a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from reports.text_table import TextColumn, left_out, text_table, wrapped
from simulator.basis.assumptions import assumptions_of
from simulator.cost import step_clock
from simulator.plan import bounds, sensitivity
from simulator.plan.outcome import Outcome
from simulator.plan.plan_question import PlanQuestion
from simulator.plan.search import SearchResult
from simulator.plan.sensitivity import Sensitivity
from simulator.plan.verdict import plan_sentence, runner_up_sentence, target_text
from simulator.serve import deployment, replica
from workloads.deepseek_v4.config import find_model

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 12
_RULED_SHOWN = 3


def plan_assumptions(question: PlanQuestion) -> tuple[str, ...]:
    """Approximations of the search and of the serving runs below it, and of the model's file."""
    ours = assumptions_of(
        [
            bounds,
            sensitivity.sensitivity,
            step_clock.StepClock,
            deployment.deploy,
            replica.Replica.admit,
        ]
    )
    return (*find_model(question.scenario.model).notes, *ours)


def print_plan(
    console: Console,
    question: PlanQuestion,
    result: SearchResult,
    changes: Sequence[Sensitivity],
) -> None:
    """Verdict, margins, runner-up, sensitivity, and what was tried and ruled out."""
    width = console.width
    console.print(wrapped(plan_sentence(question, result), width), style="bold")
    if result.best is not None:
        for target in result.best.targets:
            console.print(wrapped(target_text(target), width))
    second = runner_up_sentence(question, result)
    if second:
        console.print(wrapped(second, width))
    if changes:
        _table(console, "The plan when things differ", _sensitivity_columns(changes))
    if result.tried:
        _table(console, _tried_title(result), tried_columns(result))
    more = f"{result.skipped} more expensive plans were not looked at; " if result.skipped else ""
    kept = f"{result.kept} outcomes were known from before; " if result.kept else ""
    ruled = f"{len(result.ruled_out)} candidates were ruled out by bounds"
    console.print()
    first = f", the first {_RULED_SHOWN}:" if len(result.ruled_out) > _RULED_SHOWN else ""
    console.print(wrapped(f"{more}{kept}{ruled}{first}", width))
    for out in result.ruled_out[:_RULED_SHOWN]:
        console.print(wrapped(f"- {out.label}: {out.reason}", width, 2), style="dim")
    for line in plan_assumptions(question):
        console.print(wrapped(f"Assumes: {line}", width, 2), style="dim")


def _table(console: Console, title: str, columns: list[TextColumn]) -> None:
    console.print()
    console.print(title, style="bold")
    console.print(text_table(columns, console.width))
    missing = left_out(columns, console.width)
    if missing:
        console.print(wrapped(missing, console.width), style="dim")


def _sensitivity_columns(changes: Sequence[Sensitivity]) -> list[TextColumn]:
    rows = [(change.name, *_cells(change.outcome)) for change in changes]
    return _columns(["change", *_headings(changes[0].outcome)], rows)


def _tried_title(result: SearchResult) -> str:
    count = len(result.tried)
    which = f"{_SHOWN} of {count}; --json has all" if count > _SHOWN else f"{count}"
    return f"Simulated plans ({which})"


def tried_columns(result: SearchResult) -> list[TextColumn]:
    """Plans that were simulated, those that meet the targets first."""
    shown = sorted(result.tried, key=lambda outcome: not outcome.meets)[:_SHOWN]
    rows = [(outcome.label, *_cells(outcome)) for outcome in shown]
    headings = _headings(shown[0]) if shown else []
    return _columns(["plan", *headings], rows)


def _headings(outcome: Outcome) -> list[str]:
    return [*(f"{t.name}\n{t.unit}" for t in outcome.targets), "meets", "$/M out", "busy", "hits"]


def _cells(outcome: Outcome) -> tuple[str, ...]:
    return (
        *(f"{t.found:,.3g}" for t in outcome.targets),
        "yes" if outcome.meets else "no",
        f"{outcome.usd_per_million_output:,.3f}",
        f"{outcome.busy_share:.0%}",
        f"{outcome.hit_share:.0%}",
    )


def _columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[TextColumn]:
    return [
        TextColumn(heading=h, cells=[row[i] for row in rows], left=i == 0, rank=max(0, i - 4))
        for i, h in enumerate(headings)
    ]


def plan_to_json(
    question: PlanQuestion, result: SearchResult, changes: Sequence[Sensitivity]
) -> dict[str, Any]:
    """Every figure."""
    return {
        "question": question.name,
        "objective": question.objective,
        "sentence": plan_sentence(question, result),
        "best": _outcome_json(result.best),
        "runner_up": _outcome_json(result.runner_up),
        "runner_up_sentence": runner_up_sentence(question, result),
        "sensitivity": [{"change": c.name, "outcome": _outcome_json(c.outcome)} for c in changes],
        "tried": [_outcome_json(outcome) for outcome in result.tried],
        "ruled_out": [asdict(out) for out in result.ruled_out],
        "skipped": result.skipped,
        "assumptions": list(plan_assumptions(question)),
    }


def _outcome_json(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    row = asdict(outcome)
    del row["candidate"]
    scenario = outcome.candidate.with_replicas(outcome.replicas)
    return {
        **row,
        "label": outcome.label,
        "meets": outcome.meets,
        "binds": outcome.binds.name,
        "scenario": scenario.model_dump(mode="json", exclude_none=True),
    }
