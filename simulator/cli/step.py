"""`v4sim step`: what one decode or prefill step costs on a node, operation by operation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simulator.cli.options import JsonFile, console, save_json, say_files, write_files


def step(
    model: Annotated[str, typer.Option(help="Model name, or path to YAML or config.json.")],
    chip: Annotated[str, typer.Option(help="Chip name, or path to a YAML file.")],
    batch: Annotated[int, typer.Option(help="Requests in the step, over all chips.")] = 1,
    context: Annotated[
        int, typer.Option(help="Tokens of a request after the step.", show_default=True)
    ] = 8192,
    phase: Annotated[str, typer.Option(help="decode or prefill.")] = "decode",
    new_tokens: Annotated[
        int | None, typer.Option(help="Prefill: new tokens of a request [default: the context].")
    ] = None,
    count: Annotated[int, typer.Option(help="Chips; count = tp x dp.")] = 1,
    tp: Annotated[
        int | None, typer.Option(help="Tensor-parallel degree [default: count/dp].")
    ] = None,
    dp: Annotated[int, typer.Option(help="Attention-data-parallel degree.")] = 1,
    ep: Annotated[int, typer.Option(help="Expert-parallel degree; divides count.")] = 1,
    fidelity: Annotated[str, typer.Option(help="roofline, tile or cycle.")] = "tile",
    engine: Annotated[
        str,
        typer.Option(
            help="ideal, sglang-0.5, vllm-0.22, vllm-0.33, trtllm-1.3, ascend, or path to YAML."
        ),
    ] = "ideal",
    index_dtype: Annotated[str, typer.Option(help="Index keys: fp8, fp4 or bf16.")] = "fp8",
    expert_dtype: Annotated[
        str | None,
        typer.Option(help="Experts: fp4 or fp8 [default: fp4 where the chip multiplies it]."),
    ] = None,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Print the kernel list, a line a distinct kernel.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write report, tables and timeline here.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Cost one step. --context counts a request's tokens after the step.

    Example: v4sim step --model v4-pro --chip b200 --count 8 --phase decode --batch 64
    --context 131072 --out out/pro
    """
    from reports.terminal import print_step
    from simulator.cost.question import ask
    from simulator.cost.step import cost_step

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
    )
    result = cost_step(asked.question, asked.config, asked.chip, asked.node)
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
