"""`v4sim demo`: with nothing to choose, two steps, a plan and a comparison of cached prefixes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.basis.errors import InputError
from simulator.cli.options import (
    JsonFile,
    command_line,
    console,
    error_console,
    save_json,
    say_files,
)

if TYPE_CHECKING:
    from simulator.cost.result import ProofLine
    from simulator.plan.plan_question import PlanQuestion
    from simulator.plan.search import SearchResult
    from simulator.prefix.comparison import CacheDeployment, PolicyRow

MODEL, CHIP, COUNT = "v4-flash", "h200", 8
# (phase, batch, context after the step)
STEPS = (("decode", 64, 131072), ("prefill", 1, 8192))
PLAN = "small"
# A trace of synthetic agents: few sessions, so that the demo takes seconds.
SESSIONS, SEED = 6, 3
POLICIES = "full,boundary,zero"
_PLAN_TITLE = "A plan in small: the cheapest chips for a hundred chats"
_PREFIX_TITLE = "Cached prefixes in small: three ways of keeping the sliding window"


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.")] = Path(
        "out/demo"
    ),
    json: JsonFile = None,
) -> None:
    """Cost a decode and a prefill step, plan a small service and compare cached prefixes.

    V4-Flash on 8 x H200 under a calibrated engine; the graph is proved right first. One page holds
    all of it. Example: v4sim demo --out out/demo
    """
    from reports.bundle import write_report
    from reports.step_json import proof_json, step_to_json
    from reports.terminal import print_step
    from simulator.cost.question import ask
    from simulator.cost.typical_step import typical_step

    _make(out)
    with error_console().status("running the golden file through the graph"):
        proof = _prove()
    results = []
    for phase, batch, context in STEPS:
        asked = ask(model=MODEL, chip=CHIP, count=COUNT, phase=phase, batch=batch, context=context)
        with error_console().status(f"costing the {phase} step"):
            result = typical_step(asked)
        results.append((phase.capitalize(), result))
    with error_console().status("planning"):
        question, found = _plan()
    with error_console().status("replaying agents"):
        stored, rows = _prefixes(out / "agents.jsonl")
    sections = {"Plan": _plan_html(question, found), "Prefixes": _prefix_html(rows)}
    with error_console().status("writing the report"):
        files = write_report(out, results, proof=proof, command=command_line(), more=sections)
    steps = {title.lower(): step_to_json(result) for title, result in results}
    save_json(json, steps | {"proof": proof_json(proof)})
    for title, result in results:
        print_step(console(), result, proof=proof if title == results[0][0] else None)
        console().print()
    _print_plan(question, found)
    _print_prefixes(stored, rows)
    say_files(files)


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make directory {out}: {error.strerror}") from error


def _plan() -> tuple[PlanQuestion, SearchResult]:
    from simulator.plan.plan_question import load_plan
    from simulator.plan.search import search

    question = load_plan(PLAN)
    return question, search(question)


def _prefixes(path: Path) -> tuple[CacheDeployment, list[PolicyRow]]:
    from simulator.prefix.comparison import compare_policies, deployment_for
    from simulator.prefix.window_policy import parse_window_policies
    from workloads.traffic.readers import read_trace
    from workloads.traffic.synth_files import write_synth
    from workloads.traffic.synth_spec import synth_spec

    write_synth(path, synth_spec("agent", sessions=SESSIONS, seed=SEED), "weka-ranges")
    stored = deployment_for(model=MODEL, node=f"{CHIP}-x{COUNT}", tiers="node")
    rows = compare_policies(read_trace(path, strict=True), parse_window_policies(POLICIES), stored)
    return stored, rows


def _plan_html(question: PlanQuestion, found: SearchResult) -> str:
    from reports.plain_section import plain_section
    from reports.plan_report import outcome_table
    from reports.report_text import text_columns
    from simulator.plan.verdict import plan_sentence, runner_up_sentence, target_text

    best = found.best
    targets = [target_text(target) for target in best.targets] if best else []
    sentences = [plan_sentence(question, found), *targets]
    sentences.append(runner_up_sentence(question, found) or "")
    tried = sorted(found.tried, key=lambda outcome: not outcome.meets)
    table = outcome_table("tried", "Plans that were simulated", tried)
    tables = [(table.title, text_columns(table))] if tried else []
    return plain_section("plan", _PLAN_TITLE, sentences, tables)


def _prefix_html(rows: list[PolicyRow]) -> str:
    from reports.plain_section import plain_section
    from reports.prefix_table import comparison_answer, hit_columns, tier_columns

    tables = [("Hits and first tokens", hit_columns(rows)), ("Storage", tier_columns(rows))]
    return plain_section(
        "prefixes", _PREFIX_TITLE, [comparison_answer(rows, "agents.jsonl")], tables
    )


def _print_plan(question: PlanQuestion, found: SearchResult) -> None:
    from reports.text_table import wrapped
    from simulator.plan.verdict import plan_sentence, runner_up_sentence, target_text

    width = console().width
    console().print(_PLAN_TITLE, style="bold")
    console().print(wrapped(plan_sentence(question, found), width))
    for target in found.best.targets if found.best else ():
        console().print(wrapped(target_text(target), width))
    if second := runner_up_sentence(question, found):
        console().print(wrapped(second, width))
    console().print()


def _print_prefixes(stored: CacheDeployment, rows: list[PolicyRow]) -> None:
    from reports.prefix_table import comparison_answer, hit_columns
    from reports.text_table import print_table, wrapped

    console().print(_PREFIX_TITLE, style="bold")
    console().print(wrapped(comparison_answer(rows, "agents.jsonl"), console().width))
    print_table(console(), hit_columns(rows))
    console().print()


def _prove() -> ProofLine:
    from simulator.cost.result import ProofLine
    from simulator.evaluate.golden_file import GoldenFile
    from simulator.evaluate.verify import (
        ACTIVATION_TOLERANCE,
        LOGITS_TOLERANCE,
        shipped_golden_file,
        verify_file,
    )

    path = shipped_golden_file()
    checks = list(verify_file(path))
    logits = [check.difference for check in checks if check.quantity == "logits"]
    activations = [check.difference for check in checks if check.quantity != "logits"]
    return ProofLine(
        golden_name=path.name,
        layers=GoldenFile.load(path).config["num_hidden_layers"],
        logits_difference=max(logits),
        logits_tolerance=LOGITS_TOLERANCE,
        activations_difference=max(activations),
        activations_tolerance=ACTIVATION_TOLERANCE,
        checks=len(checks),
    )
