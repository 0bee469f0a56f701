"""`v4sim capacity`: how many requests a deployment holds, what binds, and what would free most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from simulator.basis.errors import UnsupportedError
from simulator.basis.sizes import SIZES
from simulator.cli.deployment_options import takes_deployment
from simulator.cli.launch_option import agreed, launch_json, launch_text
from simulator.cli.options import JsonFile, PageFile, command_line, console, save_json


@takes_deployment()
def capacity(
    deployment: Mapping[str, Any],
    launch: Any,
    context: Annotated[
        str,
        typer.Option(
            metavar="TOKENS",
            help=f"Tokens of a request, or a mix: 8K:0.7,128K:0.3 {SIZES}.",
        ),
    ] = "131072",
    requests: Annotated[
        int | None, typer.Option(help="Concurrent requests wanted, on all replicas.")
    ] = None,
    in_flight_tokens: Annotated[
        int | None,
        typer.Option(
            help="Most tokens of a step (max batched tokens, or chunk) [default: the engine's on "
            "the chip]."
        ),
    ] = None,
    draft_tokens: Annotated[
        int, typer.Option(help="Speculative tokens of a step and request; 0: none.")
    ] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write page, tables and JSON here.")
    ] = None,
    page: PageFile = None,
    json: JsonFile = None,
) -> int:
    """Memory by term, requests that fit, the limit that binds, and what would free most.

    Exit code: 0 fits, 3 does not fit, 4 unsupported, 2 bad input. Example: v4sim capacity
    --model v4-flash --chip b200 --count 8 --dp 8 --context 1048576 --engine vllm-0.33
    """
    from reports.capacity_text import capacity_to_json, print_capacity
    from reports.text_table import wrapped
    from simulator.capacity.capacity import capacity_of
    from simulator.capacity.capacity_question import ask_capacity
    from simulator.capacity.verdict import UNSUPPORTED, judge

    if launch is not None:
        in_flight_tokens = agreed("--in-flight-tokens", in_flight_tokens, launch.step_tokens)
        draft_tokens = agreed("--draft-tokens", draft_tokens, launch.drafts, 0)
    try:
        question = ask_capacity(
            **deployment,
            contexts=context,
            requests=requests,
            in_flight_tokens=in_flight_tokens,
            draft_tokens=draft_tokens,
            running_requests=launch and launch.running_requests,
        )
        if launch is not None:
            launch.refuse_beyond(question.longest_context)
        answer = capacity_of(question)
    except UnsupportedError as error:
        if launch is not None:
            error.message = launch.worded(error.message)
        console().print(f"unsupported: {error.message}", soft_wrap=True)
        save_json(json, {"verdict": "unsupported", "sentence": error.message})
        return UNSUPPORTED
    verdict = judge(answer, hangs_on=True)
    if launch is not None:
        verdict = replace(verdict, sentence=launch.worded(verdict.sentence))
    told = {} if launch is None else {"launch": launch_json(launch)}
    save_json(json, capacity_to_json(answer, verdict) | told)
    files: list[Path] = []
    if page is not None or out is not None:
        from reports.kinds import report_of
        from reports.report_files import write_report_folder
        from reports.report_page import write_report_page

        report = report_of("capacity", answer, verdict)
        if page is not None:
            write_report_page(page, report, command_line())
            files.append(page)
        if out is not None:
            files += write_report_folder(out, report, command_line())
    if launch is not None:
        console().print(wrapped(launch_text(launch), console().width))
    print_capacity(console(), answer, verdict)
    for path in files:
        said = "Open the report in a browser:" if path.suffix == ".html" else "wrote"
        console().print(f"{said} {path.resolve()}", soft_wrap=True)
    return verdict.exit_code
