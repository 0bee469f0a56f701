"""`v4sim plan`: the cheapest deployment that meets the targets, from a question in YAML."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.basis.errors import InputError, V4SimError
from simulator.cli.options import JsonFile, console, save_json
from simulator.cli.progress import progress

if TYPE_CHECKING:
    from simulator.plan.search import SearchResult
    from simulator.plan.sensitivity import Sensitivity

NO_PLAN = 3


class InterruptedPlanError(V4SimError):
    """Ctrl-C: what was simulated is in the journal."""

    exit_code = 130


def plan(
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION",
            help="Path to YAML, or one that ships: agents, chat, documents, small.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep outcomes here as they come, and scenario files of the plan and runner-up; "
            "the same command again goes on where it was stopped.",
        ),
    ] = None,
    sensitivity: Annotated[
        bool, typer.Option(help="Also run the plan with other traffic and slower kernels.")
    ] = True,
    json: JsonFile = None,
) -> int:
    """Search chips, layouts, limits and strategies for the cheapest plan that meets the targets.

    Exit codes: 0 a plan was found; 3 none meets the targets; 2 bad input.

    Example: v4sim plan chat --out out/chat
    """
    from reports.plan_text import plan_to_json, print_plan
    from simulator.plan.plan_question import load_plan
    from simulator.plan.search import search
    from simulator.plan.sensitivity import sensitivity as changes_of

    asked = load_plan(question)
    journal = _journal(out)
    with progress("reading the question") as tick, _kept_on_stop(journal):

        def note(text: str) -> None:
            tick(what=text)

        result = search(asked, journal=journal, note=note)
        changes: tuple[Sensitivity, ...] = ()
        if sensitivity and result.best is not None:
            note("the plan with other traffic and kernels")
            deployed = result.deployments[result.best.candidate.key]
            changes = changes_of(result.best, deployed, result.trace)
    files = _write_scenarios(out, result)
    save_json(json, plan_to_json(asked, result, changes) if json else None)
    print_plan(console(), asked, result, changes)
    for path in files:
        console().print(f"wrote {path}", soft_wrap=True)
    return 0 if result.best is not None else NO_PLAN


def _journal(out: Path | None) -> Path | None:
    if out is None:
        return None
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make folder {out}: {error.strerror}") from None
    return out / "outcomes.jsonl"


@contextmanager
def _kept_on_stop(journal: Path | None) -> Iterator[None]:
    """Say on Ctrl-C what is kept; without a journal nothing is."""
    from simulator.plan.journal import Journal

    try:
        yield
    except KeyboardInterrupt:
        if journal is None:
            raise
        raise InterruptedPlanError(
            f"interrupted; {len(Journal(journal)):,} outcomes are kept in {journal}, and the same "
            "command goes on from there"
        ) from None


def _write_scenarios(out: Path | None, result: SearchResult) -> list[Path]:
    """Scenario files that `v4sim serve` runs to the same figures."""
    import yaml

    from simulator.basis.atomic import write_text
    from simulator.sweep.inputs import with_whole_paths

    files = []
    for name, outcome in (("plan", result.best), ("runner-up", result.runner_up)):
        if out is None or outcome is None:
            continue
        scenario = with_whole_paths(outcome.candidate.with_replicas(outcome.replicas))
        data = scenario.model_dump(mode="json", exclude_none=True)
        path = out / f"{name}.yaml"
        write_text(path, yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
        files.append(path)
    return files
