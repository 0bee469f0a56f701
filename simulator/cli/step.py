"""`v4sim step`: what one decode or prefill step costs on a node, operation by operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.basis.whole import ceil_div
from simulator.cli.deployment_options import takes_deployment
from simulator.cli.launch_option import agreed, launch_text, refuse_more
from simulator.cli.options import (
    JsonFile,
    console,
    error_console,
    save_json,
    say_files,
    tokens_option,
    write_files,
)

if TYPE_CHECKING:
    from simulator.cost.machine_lanes import ShownKernel
    from simulator.cost.question import AskedStep
    from simulator.cost.result import StepResult
    from simulator.engine.launch import Launch
    from simulator.serve.drafted import DraftedCycle
    from workloads.run_stats import RunStats

Batch = Annotated[int, typer.Option(help="Requests in the step, over all chips.")]
Context = Annotated[int, tokens_option("--context", "Tokens of a request after the step")]
Phase = Annotated[str, typer.Option(help="decode or prefill.")]
NewTokens = Annotated[
    int | None,
    tokens_option("--new-tokens", "Prefill: new tokens of a request", "the context"),
]
Fidelity = Annotated[str, typer.Option(help="roofline, tile or cycle.")]
Kernels = Annotated[
    bool, typer.Option("--kernels", help="Print the kernel list, a line a distinct kernel.")
]
ExactContext = Annotated[
    bool,
    typer.Option(
        "--exact-context",
        help="Decode: the step at this very context, not the mean over the steps in which "
        "compressed entries complete.",
    ),
]
Choices = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Recorded top-k and expert ids (.npz) in place of stated ones; see "
        "simulator.evaluate.choices.write_choices.",
    ),
]
Drafts = Annotated[
    int,
    typer.Option(
        help="Decode: draft tokens that a request has verified, and drafted anew; also timed as a "
        "cycle, host seams included."
    ),
]
OutFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write report, tables and timeline here.")
]


@takes_deployment("pp", "cp")
def step(
    deployment: Mapping[str, Any],
    launch: Any,
    batch: Batch = 1,
    context: Context = 8192,
    phase: Phase = "decode",
    new_tokens: NewTokens = None,
    fidelity: Fidelity = "tile",
    drafts: Drafts = 0,
    exact_context: ExactContext = False,
    choices: Choices = None,
    kernels: Kernels = False,
    out: OutFolder = None,
    json: JsonFile = None,
) -> None:
    """Cost one step. --context counts a request's tokens after the step.

    Example: v4sim step --model v4-pro --chip b200 --count 8 --phase decode --batch 64
    --context 131072 --out out/pro
    """
    from simulator.cost.question import ask

    if launch is not None:
        drafts = agreed("--drafts", drafts, launch.drafts if phase == "decode" else None, 0)
    asked = ask(
        **deployment,
        phase=phase,
        batch=batch,
        context=context,
        new_tokens=new_tokens,
        fidelity=fidelity,
        draft_tokens=drafts,
    )
    if launch is not None:
        _check_launch(launch, asked)
    cycle = None
    if drafts:
        from simulator.serve.drafted import drafted_cycle

        cycle = drafted_cycle(asked)
    _answer(asked, choices, exact_context, kernels, out, json, cycle)


def _check_launch(launch: Launch, asked: AskedStep) -> None:
    """Refuse a step that the engine as launched does not take, and say what the command became."""
    from reports.text_table import wrapped

    question, data = asked.question, asked.deployment.parallel.data
    launch.refuse_beyond(question.context)
    refuse_more(launch, question.batch, data)
    tokens = ceil_div(question.batch, data) * question.new_tokens
    if question.phase == "prefill" and launch.step_tokens and tokens > launch.step_tokens:
        raise InputError(
            f"a prefill of {tokens:,} new tokens a data rank is more than the "
            f"{launch.step_tokens:,} of a step that {launch.flags['step_tokens']} of the launch "
            f"command says ({tokens - launch.step_tokens:,} too many); ask for a chunk with "
            "--new-tokens"
        )
    console().print(wrapped(launch_text(launch), console().width))


def _answer(
    asked: AskedStep,
    choices: Path | None,
    exact: bool,
    kernels: bool,
    out: Path | None,
    json: Path | None,
    cycle: DraftedCycle | None = None,
) -> None:
    """Cost the step, write what was asked for, then print."""
    from reports.terminal import print_step
    from reports.text_table import wrapped
    from simulator.cost.energy import step_energy

    with error_console().status("costing the step"):
        result = _costed(asked, choices, exact)
    energy = step_energy(result, asked.chip)
    files = None
    if out is not None:
        steps = [(asked.question.phase.capitalize(), result)]
        files = write_files(out, steps, shown=_shown(asked, result, choices))
    if json is not None:
        from reports.step_json import answer_to_json

        told = answer_to_json(result, asked.chip)
        save_json(json, told if cycle is None else told | {"drafts": cycle.to_json()})
    print_step(console(), result)
    console().print()
    console().print(wrapped(energy.sentence, console().width), style="dim")
    if cycle is not None:
        console().print(wrapped(cycle.sentence, console().width))
    if kernels:
        from reports.kernel_list import print_kernels

        console().print()
        print_kernels(console(), result)
    if files is not None:
        say_files(files)


def _shown(asked: AskedStep, result: StepResult, choices: Path | None) -> tuple[ShownKernel, ...]:
    """Kernels whose lanes on the machine the timeline shows: those of a step at cycle."""
    if asked.question.fidelity != "cycle":
        return ()
    from simulator.cost.machine_lanes import machine_lanes

    stats = None if choices is None else _recorded(asked, choices)
    with error_console().status("following the longest kernels"):
        return machine_lanes(asked, result, stats)


def _recorded(asked: AskedStep, choices: Path) -> RunStats:
    """What recorded choices say of a step."""
    from simulator.evaluate.choices import load_choices
    from workloads.run_stats import RunStats

    return RunStats.of(load_choices(choices, asked.config, asked.question.context))


def _costed(asked: AskedStep, choices: Path | None, exact: bool) -> StepResult:
    """The step; notes say whose choices it has, where not stated ones."""
    from simulator.cost.step import cost_step
    from simulator.cost.typical_step import typical_step

    stats, notes = None, []
    if choices is not None:
        stats = _recorded(asked, choices)
        notes.append(
            f"top-k and expert ids are those of {choices.name}, where it has them: {stats.told}"
        )
        measured = asked.deployment.profile.module is not None
        if measured and asked.question.fidelity == "tile":
            notes.append(
                f"kernels of {asked.question.engine} were measured without them and take the times "
                "of stated ids: --fidelity cycle counts what they change of the wait for memory"
            )
    # Recorded choices are those of one context.
    one_step = exact or choices is not None
    result = cost_step(asked, stats) if one_step else typical_step(asked)
    return replace(result, notes=(*result.notes, *notes))
