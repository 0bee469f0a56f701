"""`v4sim serve`: requests served by replicas on a simulated clock, from a scenario file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import DoesNotFitError, InputError
from simulator.cli.launch_option import LaunchCommand, launch_text, read_launch_of
from simulator.cli.options import (
    JsonFile,
    command_line,
    console,
    error_console,
    save_json,
    tokens_option,
)
from simulator.cli.progress import progress

if TYPE_CHECKING:
    from reports.memory_text import TextTable
    from reports.served import Served
    from simulator.engine.launch import Launch
    from simulator.serve.run import ServingRun
    from simulator.serve.scenario import Scenario

DOES_NOT_FIT = 3


_LIKE = "Like a benchmark tool"
_LIKE_NAMES = ("model", "chip", "count", "tp", "dp", "ep", "engine")


def serve(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCENARIO]",
            help="Path to YAML, or one that ships: agents, chat, documents, fixed-8k1k.",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key of the scenario, such as traffic.made.rate_per_s=2; repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write page, Parquet tables and summary here."),
    ] = None,
    interval: Annotated[
        bool,
        typer.Option("--interval", help="Print p10 to p90 of the medians and the rate (slower)."),
    ] = False,
    like: Annotated[
        str | None,
        typer.Option(
            help="In place of a scenario: what sglang-bench, vllm-bench or aiperf sends.",
            rich_help_panel=_LIKE,
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model.", rich_help_panel=_LIKE)] = None,
    chip: Annotated[str | None, typer.Option(help="Chip.", rich_help_panel=_LIKE)] = None,
    count: Annotated[int, typer.Option(help="Chips; count = tp x dp.", rich_help_panel=_LIKE)] = 1,
    tp: Annotated[
        int | None,
        typer.Option(
            help="Tensor-parallel degree [default: what dp leaves].", rich_help_panel=_LIKE
        ),
    ] = None,
    dp: Annotated[
        int, typer.Option(help="Attention-data-parallel degree.", rich_help_panel=_LIKE)
    ] = 1,
    ep: Annotated[
        int | None,
        typer.Option(
            help="Expert-parallel degree [default: all ranks if dp > 1].", rich_help_panel=_LIKE
        ),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine [default: the chip's].", rich_help_panel=_LIKE)
    ] = None,
    input_tokens: Annotated[
        int,
        tokens_option(
            "--input", "Nominal input length, as the tool reads it", rich_help_panel=_LIKE
        ),
    ] = 1024,
    output_tokens: Annotated[
        int, tokens_option("--output", "Nominal output length", rich_help_panel=_LIKE)
    ] = 1024,
    concurrency: Annotated[
        int | None, typer.Option(help="Requests at once [default: all].", rich_help_panel=_LIKE)
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Requests a second, in place of a concurrency.", rich_help_panel=_LIKE),
    ] = None,
    prompts: Annotated[
        int | None,
        typer.Option(help="Prompts [default: 10 a request at once].", rich_help_panel=_LIKE),
    ] = None,
    range_ratio: Annotated[
        float | None,
        typer.Option(help="Range of lengths by the tool's own definition.", rich_help_panel=_LIKE),
    ] = None,
    launch: LaunchCommand = None,
    json: JsonFile = None,
) -> None:
    """Serve a scenario's requests: latencies, throughput, goodput and cost.

    Exit codes: 0 served; 1 a law of the run is broken; 2 bad input; 3 the model does not fit.

    Example: v4sim serve chat --set traffic.made.rate_per_s=8 --out out/chat
    """
    if (scenario is None) == (like is None):
        raise InputError("give a scenario, or --like a benchmark tool: one of both")
    asked: Scenario | str
    given: dict[str, Any] = {"model": model, "chip": chip, "count": count, "engine": engine}
    given |= {"tp": tp, "dp": dp, "ep": ep}
    launched: Launch | None = None
    if like is not None:
        from simulator.serve.like import scenario_like

        if launch is not None:
            given, launched = read_launch_of(launch, given, {"count": 1, "dp": 1})
        if given["model"] is None or chip is None:
            raise InputError("--like needs --model and --chip; try --model v4-flash --chip b200")
        if changes:
            raise InputError("--set changes a scenario; with --like give the tool's own options")
        asked = scenario_like(
            like,
            **{name: given[name] for name in _LIKE_NAMES},
            launch=launched,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            concurrency=concurrency,
            rate_per_s=rate,
            prompts=prompts,
            range_ratio=range_ratio,
        )
    else:
        assert scenario is not None
        asked = scenario
        if launch is not None:
            from simulator.serve.launched import launched_scenario

            asked, launched = launched_scenario(scenario, changes or [], launch)
    if launched is not None:
        from reports.text_table import wrapped

        console().print(wrapped(launch_text(launched), console().width))
    if like is not None:
        lengths = f"{input_tokens:,} input and {output_tokens:,} output tokens"
        console().print(f"Like {like}: requests of {lengths}, nominal.", soft_wrap=True)
    from reports.served import served

    try:
        run = _run(asked, changes or [])
        if launched is not None:
            longest = run.trace.input_tokens + run.trace.output_tokens
            launched.refuse_beyond(int(longest.max()))
        with error_console().status("measuring"):
            found = served(run, with_use=out is not None or json is not None)
    except DoesNotFitError as error:
        error.exit_code = DOES_NOT_FIT
        raise
    _answer(found, out, json)
    if interval:
        _say_bands(run)
    if not found.summary.lawful:
        raise typer.Exit(1)


def _say_bands(run: ServingRun) -> None:
    from simulator.serve.interval import run_bands, serving_figures

    with error_console().status("serving the slow ends"):
        bands = run_bands(run, serving_figures, run.trace)
    console().print("\np10 to p90, of kernels, host and acceptance", style="bold")
    for name, band in bands.items():
        console().print(f"{name}: {band.low:,.4g} to {band.high:,.4g}")


def _run(scenario: Scenario | str, changes: list[str]) -> ServingRun:
    from simulator.serve.money import prices_for
    from simulator.serve.run import require_finished, run_scenario
    from simulator.serve.scenario_file import open_scenario

    asked = open_scenario(scenario, changes) if isinstance(scenario, str) else scenario
    prices_for(asked)  # a price that is not known is said before any work
    with progress(f"serving {asked.name}") as tick:
        run = run_scenario(asked, progress=tick)
    require_finished(run)
    return run


def _answer(served: Served, out: Path | None, json: Path | None) -> None:
    """Write what was asked for, then print."""
    from reports.serve_bundle import write_serve_report
    from reports.serve_tables import serve_json
    from reports.serve_text import (
        alarms,
        law_sentence,
        serve_sentence,
        serve_tables,
        transfer_sentence,
    )
    from reports.text_table import wrapped

    files = [] if out is None else write_serve_report(out, served, command_line())
    save_json(json, serve_json(served) if json is not None else None)
    width = console().width
    console().print(wrapped(serve_sentence(served), width), style="bold")
    for alarm in alarms(served):
        console().print(wrapped(f"! {alarm}.", width, 2), style="bold red")
    if moved := transfer_sentence(served):
        console().print(wrapped(moved, width))
    for table in serve_tables(served):
        _print_table(table)
    console().print()
    style = "dim" if served.summary.lawful else "bold red"
    console().print(wrapped(law_sentence(served), width, 2), style=style)
    for note in served.notes[:-1]:  # the price stands with the costs
        console().print(wrapped(note, width, 2), style="dim")
    for path in files:
        console().print(f"wrote {path}", soft_wrap=True)


def _print_table(table: TextTable) -> None:
    from reports.text_table import TextColumn, left_out, text_table, wrapped

    width = console().width
    console().print(f"\n{table.title}", style="bold")
    console().print(wrapped(table.note, width), style="dim")
    columns = [
        TextColumn(
            heading=heading,
            cells=[row[place] for row in table.rows],
            left=place == 0,
            rank=place,
        )
        for place, heading in enumerate(table.headings)
    ]
    console().print(text_table(columns, width))
    missing = left_out(columns, width)
    if missing:
        console().print(wrapped(missing, width), style="dim")
