"""`v4sim capacity`: how many requests a deployment holds, what binds, and what would free most."""

from __future__ import annotations

from typing import Annotated

import typer

from simulator.basis.errors import UnsupportedError
from simulator.cli.options import Engine, JsonFile, console, save_json


def capacity(
    model: Annotated[str, typer.Option(help="Model name, or path to YAML or config.json.")],
    chip: Annotated[str, typer.Option(help="Chip name, or path to a YAML file.")],
    context: Annotated[
        str, typer.Option(help="Tokens of a request, or a mix: 8192:0.7,131072:0.3.")
    ] = "131072",
    count: Annotated[int, typer.Option(help="Chips; count = tp x dp x pp.")] = 1,
    tp: Annotated[
        int | None, typer.Option(help="Tensor-parallel degree [default: count/dp/pp].")
    ] = None,
    dp: Annotated[int, typer.Option(help="Attention-data-parallel degree.")] = 1,
    ep: Annotated[
        int | None, typer.Option(help="Expert-parallel degree [default: all ranks if dp > 1].")
    ] = None,
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 1,
    cp: Annotated[
        int, typer.Option(help="Ranks of a tensor group that share a request's entries.")
    ] = 1,
    engine: Engine = None,
    requests: Annotated[
        int | None, typer.Option(help="Concurrent requests wanted, on all replicas.")
    ] = None,
    in_flight_tokens: Annotated[
        int, typer.Option(help="Most tokens of a step (max batched tokens, or chunk).")
    ] = 8192,
    draft_tokens: Annotated[
        int, typer.Option(help="Speculative tokens of a step and request; 0: none.")
    ] = 0,
    kv_dtype: Annotated[
        str | None, typer.Option(help="Cache rows [default: the engine's].")
    ] = None,
    index_dtype: Annotated[
        str | None, typer.Option(help="Index keys [default: the engine's].")
    ] = None,
    expert_dtype: Annotated[
        str | None,
        typer.Option(help="Experts: fp4 or fp8 [default: fp4 where the chip multiplies it]."),
    ] = None,
    memory_share: Annotated[
        float | None, typer.Option(help="Share of memory the engine takes [default: its own].")
    ] = None,
    max_requests: Annotated[
        int | None, typer.Option(help="Requests that the engine sets state aside for.")
    ] = None,
    json: JsonFile = None,
) -> int:
    """Memory by term, requests that fit, the limit that binds, and what would free most.

    Exit code: 0 fits, 3 does not fit, 4 unsupported, 2 bad input. Example: v4sim capacity
    --model v4-flash --chip b200 --count 8 --dp 8 --context 1048576 --engine vllm-0.33
    """
    from reports.capacity_text import capacity_to_json, print_capacity
    from simulator.layout.capacity import capacity_of
    from simulator.layout.capacity_question import ask_capacity
    from simulator.layout.verdict import UNSUPPORTED, judge

    try:
        question = ask_capacity(
            model=model,
            chip=chip,
            count=count,
            tp=tp,
            dp=dp,
            ep=ep,
            pp=pp,
            cp=cp,
            engine=engine,
            contexts=context,
            requests=requests,
            in_flight_tokens=in_flight_tokens,
            draft_tokens=draft_tokens,
            kv_dtype=kv_dtype,
            index_dtype=index_dtype,
            expert_dtype=expert_dtype,
            memory_share=memory_share,
            max_requests=max_requests,
        )
        answer = capacity_of(question)
    except UnsupportedError as error:
        console().print(f"unsupported: {error.message}", soft_wrap=True)
        save_json(json, {"verdict": "unsupported", "sentence": error.message})
        return UNSUPPORTED
    verdict = judge(answer)
    save_json(json, capacity_to_json(answer, verdict))
    print_capacity(console(), answer, verdict)
    return verdict.exit_code
