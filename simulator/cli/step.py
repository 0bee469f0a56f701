"""`v4sim step`: what one decode or prefill step costs on a node, operation by operation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simulator.cli.options import (
    Engine,
    JsonFile,
    console,
    error_console,
    save_json,
    say_files,
    write_files,
)

if TYPE_CHECKING:
    from simulator.cost.question import AskedStep
    from simulator.cost.result import StepResult

Model = Annotated[str, typer.Option(help="Model name, or path to YAML or config.json.")]
Chip = Annotated[str, typer.Option(help="Chip name, or path to a YAML file.")]
Batch = Annotated[int, typer.Option(help="Requests in the step, over all chips.")]
Context = Annotated[int, typer.Option(help="Tokens of a request after the step.")]
Phase = Annotated[str, typer.Option(help="decode or prefill.")]
NewTokens = Annotated[
    int | None, typer.Option(help="Prefill: new tokens of a request [default: the context].")
]
Count = Annotated[int, typer.Option(help="Chips; count = tp x dp.")]
Tensor = Annotated[int | None, typer.Option(help="Tensor-parallel degree [default: count/dp].")]
Data = Annotated[int, typer.Option(help="Attention-data-parallel degree.")]
Expert = Annotated[int, typer.Option(help="Expert-parallel degree; divides count.")]
Fidelity = Annotated[str, typer.Option(help="roofline, tile or cycle.")]
IndexDtype = Annotated[str, typer.Option(help="Index keys: fp8, fp4 or bf16.")]
KvDtype = Annotated[str, typer.Option(help="Cache rows: fp8 or bf16.")]
PageTokens = Annotated[
    int | None, typer.Option(help="Tokens of a page of the cache [default: the engine's].")
]
ExpertDtype = Annotated[
    str | None,
    typer.Option(help="Experts: fp4 or fp8 [default: fp4 where the chip multiplies it]."),
]
Kernels = Annotated[
    bool, typer.Option("--kernels", help="Print the kernel list, a line a distinct kernel.")
]
Choices = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Recorded top-k and expert ids (.npz) in place of stated ones; see "
        "simulator.evaluate.choices.write_choices.",
    ),
]
OutFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write report, tables and timeline here.")
]


def step(
    model: Model,
    chip: Chip,
    batch: Batch = 1,
    context: Context = 8192,
    phase: Phase = "decode",
    new_tokens: NewTokens = None,
    count: Count = 1,
    tp: Tensor = None,
    dp: Data = 1,
    ep: Expert = 1,
    fidelity: Fidelity = "tile",
    engine: Engine = None,
    index_dtype: IndexDtype = "fp8",
    expert_dtype: ExpertDtype = None,
    kv_dtype: KvDtype = "fp8",
    page_tokens: PageTokens = None,
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

    asked = ask(
        model=model,
        chip=chip,
        count=count,
        tp=tp,
        dp=dp,
        ep=ep,
        phase=phase,
        batch=batch,
        context=context,
        new_tokens=new_tokens,
        fidelity=fidelity,
        engine=engine,
        index_dtype=index_dtype,
        expert_dtype=expert_dtype,
        kv_dtype=kv_dtype,
        page_tokens=page_tokens,
    )
    _answer(asked, choices, kernels, out, json)


def _answer(
    asked: AskedStep, choices: Path | None, kernels: bool, out: Path | None, json: Path | None
) -> None:
    """Cost the step, write what was asked for, then print."""
    from reports.terminal import print_step

    with error_console().status("costing the step"):
        result = _costed(asked, choices)
    files = None
    if out is not None:
        files = write_files(out, [(asked.question.phase.capitalize(), result)])
    if json is not None:
        from reports.step_json import step_to_json

        save_json(json, step_to_json(result))
    print_step(console(), result)
    if kernels:
        from reports.kernel_list import print_kernels

        console().print()
        print_kernels(console(), result)
    if files is not None:
        say_files(files)


def _costed(asked: AskedStep, choices: Path | None) -> StepResult:
    """The step; notes say whose choices it has, and what the engine's pools cannot hold."""
    from simulator.cost.step import cost_step
    from simulator.layout.room_note import room_note

    stats, notes = None, []
    if choices is not None:
        from simulator.cost.question import profile_of
        from simulator.evaluate.choices import load_choices
        from workloads.run_stats import RunStats

        stats = RunStats.of(load_choices(choices, asked.config, asked.question.context))
        notes.append(
            f"top-k and expert ids are those of {choices.name}, where it has them: {stats.told}"
        )
        measured = profile_of(asked.question).module is not None
        if measured and asked.question.fidelity == "tile":
            notes.append(
                f"kernels of {asked.question.engine} were measured without them and take the times "
                "of stated ids: --fidelity cycle counts what they change of the wait for memory"
            )
    result = cost_step(asked.question, asked.config, asked.chip, asked.node, stats)
    room = room_note(asked)
    notes += [room] if room else []
    return replace(result, notes=(*result.notes, *notes))
