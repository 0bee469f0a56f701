"""`v4sim plan`: the cheapest deployment that meets the targets, from a question in YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.basis.errors import InputError, V4SimError
from simulator.cli.options import (
    CsvFile,
    JsonFile,
    PageFile,
    console,
    say_report,
)
from simulator.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.plan.plan_question import PlanQuestion
    from simulator.plan.sensitivity import Sensitivity
    from simulator.serve.scenario import Scenario

NO_PLAN = 3


class InterruptedPlanError(V4SimError):
    """Ctrl-C: what was simulated is in the journal."""

    exit_code = 130


_FLEET = "Fleets"
_ASKED = "In place of a question, or to change it"


def plan(
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUESTION]",
            help="Path to YAML, or one that ships: agents, chat, documents, small; or give "
            "--traffic.",
        ),
    ] = None,
    fleet: Annotated[
        str | None,
        typer.Option(
            metavar="16xh200,...",
            help="The inverse: what load these chips carry within the targets, what binds, and "
            "what more chips buy. A chip is a name or a file; with --budget without a number.",
            rich_help_panel=_FLEET,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="USD/TIME",
            help="The fleet that carries most of 50/hour or 36000/month (730.5 hours), of the "
            "chips of --fleet or of the question.",
            rich_help_panel=_FLEET,
        ),
    ] = None,
    traffic: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A request trace.", rich_help_panel=_ASKED),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model [default: v4-flash].", rich_help_panel=_ASKED),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Engines to consider [default: that of each chip].",
            rich_help_panel=_ASKED,
        ),
    ] = None,
    ttft_s: Annotated[
        float | None,
        typer.Option(help="Target: time to the first token, s.", rich_help_panel=_ASKED),
    ] = None,
    tpot_ms: Annotated[
        float | None,
        typer.Option(help="Target: time per output token, ms.", rich_help_panel=_ASKED),
    ] = None,
    percentile: Annotated[
        float | None,
        typer.Option(help="Of the targets [default: 95].", rich_help_panel=_ASKED),
    ] = None,
    prices: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.yaml",
            help="Your prices of a chip, in the form of hwmodels/prices; repeatable.",
            rich_help_panel=_ASKED,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Page, tables, figures, and scenario files of the plan and runner-up; outcomes as "
            "they come, so that the same command again goes on where it was stopped.",
        ),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(help="Also run the plan with other traffic, targets, prices and kernels."),
    ] = True,
    each: Annotated[
        bool, typer.Option(help="Also find the best plan of each chip and engine.")
    ] = True,
    page: PageFile = None,
    csv: CsvFile = None,
    json: JsonFile = None,
) -> int:
    """Search chips, layouts, limits and strategies for the cheapest plan that meets the targets.

    With --fleet or --budget: the load that given chips carry. Exit codes: 0 a plan was found; 3
    none meets the targets; 2 bad input. Example: v4sim plan chat --out out/chat
    """
    from simulator.plan.asked import asked_plan

    asked = asked_plan(
        question,
        traffic=traffic,
        model=model,
        engines=engine,
        ttft_s=ttft_s,
        tpot_ms=tpot_ms,
        percentile=percentile,
        prices=() if fleet is not None else tuple(prices or ()),
    )
    files = {"json": json, "csv": csv, "page": page, "out": out}
    if fleet is not None or budget is not None:
        return _fleets(asked, fleet, budget, tuple(prices or ()), files)
    return _cheapest(asked, files, sensitivity=sensitivity, each=each)


def _cheapest(
    asked: PlanQuestion, files: dict[str, Path | None], *, sensitivity: bool, each: bool
) -> int:
    from reports.kinds import report_of
    from simulator.plan.search import search
    from simulator.plan.sensitivity import answers_when
    from simulator.plan.sensitivity import sensitivity as changes_of

    journal = _journal(files["out"])
    with _progress() as note, _kept_on_stop(journal):
        result = search(asked, journal=journal, note=note, of_each=each)
        changes: tuple[Sensitivity, ...] = ()
        if sensitivity and result.best is not None:
            note("the plan with other traffic and kernels")
            deployed = result.deployments[result.best.candidate.key]
            changes = changes_of(result.best, deployed, result.trace)
            changes += answers_when(asked, result, note)
    named = {"plan": result.best, "runner-up": result.runner_up}
    written = _write_scenarios(
        files["out"],
        {n: o.candidate.with_replicas(o.replicas) for n, o in named.items() if o is not None},
    )
    say_report(report_of("plan", asked, result, changes), **files, assumptions=True)
    for path in written:
        console().print(f"wrote {path}", soft_wrap=True)
    return 0 if result.best is not None else NO_PLAN


def _fleets(
    asked: PlanQuestion,
    fleet: str | None,
    budget: str | None,
    prices: tuple[Path, ...],
    files: dict[str, Path | None],
) -> int:
    from reports.fleet_report import best_of
    from reports.kinds import report_of
    from simulator.plan.asked import asked_fleets
    from simulator.plan.fleet import FleetQuestion, FleetSearch

    question = FleetQuestion(plan=asked, fleets=asked_fleets(asked, fleet, budget, prices))
    with _progress() as note:
        search = FleetSearch(question, note)
        answers = [search.with_near(answer) for answer in search.all_carried()]
        more = [
            search.more(answer, chip) for answer, chip in zip(answers, question.fleets, strict=True)
        ]
    written = _write_scenarios(
        files["out"],
        {f"fleet-{n}": own.met.scenario for n, own in enumerate(answers, 1) if own.met},
    )
    report = report_of("fleet", question, search.trace, answers, more, budget)
    say_report(report, **files, assumptions=True)
    for path in written:
        console().print(f"wrote {path}", soft_wrap=True)
    return 0 if best_of(answers) is not None else NO_PLAN


def _journal(out: Path | None) -> Path | None:
    if out is None:
        return None
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make folder {out}: {error.strerror}") from None
    return out / "outcomes.jsonl"


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """What is being looked at, on standard error."""
    with progress("reading the question") as tick:
        yield lambda text: tick(what=text)


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


def _write_scenarios(out: Path | None, scenarios: Mapping[str, Scenario]) -> list[Path]:
    """Scenario files that `v4sim serve` runs to the same figures."""
    import yaml

    from simulator.basis.atomic import write_text
    from simulator.sweep.inputs import with_whole_paths

    files = []
    for name, scenario in scenarios.items() if out is not None else ():
        assert out is not None
        out.mkdir(parents=True, exist_ok=True)
        data = with_whole_paths(scenario).model_dump(mode="json", exclude_none=True)
        path = out / f"{name}.yaml"
        write_text(path, yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
        files.append(path)
    return files
