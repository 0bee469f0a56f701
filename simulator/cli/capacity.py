"""`v4sim capacity`: how many requests a deployment holds, what binds, and what would free most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from simulator.basis.errors import UnsupportedError
from simulator.cli.deployment_options import takes_deployment
from simulator.cli.options import JsonFile, PageFile, command_line, console, save_json


@takes_deployment()
def capacity(
    deployment: Mapping[str, Any],
    context: Annotated[
        str, typer.Option(help="Tokens of a request, or a mix: 8192:0.7,131072:0.3.")
    ] = "131072",
    requests: Annotated[
        int | None, typer.Option(help="Concurrent requests wanted, on all replicas.")
    ] = None,
    in_flight_tokens: Annotated[
        int, typer.Option(help="Most tokens of a step (max batched tokens, or chunk).")
    ] = 8192,
    draft_tokens: Annotated[
        int, typer.Option(help="Speculative tokens of a step and request; 0: none.")
    ] = 0,
    page: PageFile = None,
    json: JsonFile = None,
) -> int:
    """Memory by term, requests that fit, the limit that binds, and what would free most.

    Exit code: 0 fits, 3 does not fit, 4 unsupported, 2 bad input. Example: v4sim capacity
    --model v4-flash --chip b200 --count 8 --dp 8 --context 1048576 --engine vllm-0.33
    """
    from reports.capacity_text import capacity_to_json, print_capacity
    from simulator.capacity.capacity import capacity_of
    from simulator.capacity.capacity_question import ask_capacity
    from simulator.capacity.verdict import UNSUPPORTED, judge

    try:
        question = ask_capacity(
            **deployment,
            contexts=context,
            requests=requests,
            in_flight_tokens=in_flight_tokens,
            draft_tokens=draft_tokens,
        )
        answer = capacity_of(question)
    except UnsupportedError as error:
        console().print(f"unsupported: {error.message}", soft_wrap=True)
        save_json(json, {"verdict": "unsupported", "sentence": error.message})
        return UNSUPPORTED
    verdict = judge(answer)
    save_json(json, capacity_to_json(answer, verdict))
    if page is not None:
        from reports.capacity_report import capacity_report
        from reports.report_page import write_report_page

        write_report_page(page, capacity_report(answer, verdict), command_line())
    print_capacity(console(), answer, verdict)
    if page is not None:
        console().print(f"Open the report in a browser: {page.resolve()}", soft_wrap=True)
    return verdict.exit_code
