"""`v4sim trace`: figures of a request trace, and synthetic ones written from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from simulator.cli.options import (
    STANDARD_OUTPUT,
    JsonFile,
    console,
    error_console,
    save_json,
    to_standard_output,
)
from simulator.cli.traffic_options import asked_of, reading_of, takes_traffic

app = typer.Typer(
    help="Request traces: figures of a file, synthetic ones.",
    epilog="Example: v4sim trace info conversation.jsonl.gz",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Name = Annotated[Path, typer.Argument(metavar="FILE", help="Trace, plain or gzip.")]


@app.command("info", epilog="Example: v4sim trace info conversation.jsonl.gz --spread-seed 7")
@takes_traffic
def info(
    traffic: Mapping[str, Any],
    file: _Name,
    format: Annotated[
        str | None, typer.Option(help="Format [default: told from the content].")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse what is else repaired with a note.")
    ] = False,
    block_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a block id [default: what the format says].")
    ] = None,
    max_input_tokens: Annotated[int | None, typer.Option(help="Longest input allowed.")] = None,
    over_limit: Annotated[str, typer.Option(help="refuse or drop longer ones.")] = "refuse",
    zero_output: Annotated[
        str, typer.Option(help="keep, drop or refuse requests without output.")
    ] = "keep",
    spread_seed: Annotated[
        int | None, typer.Option(help="Spread arrivals within the step they were rounded to.")
    ] = None,
    slowdown: Annotated[float, typer.Option(help="Multiply all times by this.")] = 1.0,
    max_delay_s: Annotated[float | None, typer.Option(help="Cut longer waits to this.")] = None,
    seed: Annotated[int, typer.Option(help="Of traffic drawn from a summary.")] = 0,
    duration_s: Annotated[float, typer.Option(help="Of traffic drawn from a summary.")] = 600.0,
    json: JsonFile = None,
) -> None:
    """Print the figures of a trace, and all that reading it dropped, rounded, sorted or spread.

    Example: v4sim trace info conversation.jsonl.gz
    """
    from workloads.traffic.readers import read_trace, trace_assumptions
    from workloads.traffic.summary import trace_summary

    with error_console().status(f"reading {file.name}"):
        trace = read_trace(
            file,
            format,
            strict,
            block_tokens=block_tokens,
            max_input_tokens=max_input_tokens,
            over_limit=over_limit,
            zero_output=zero_output,
            spread_seed=spread_seed,
            slowdown=slowdown,
            max_delay_s=max_delay_s,
            seed=seed,
            duration_s=duration_s,
            **reading_of(traffic),
        )
    trace = asked_of(trace, traffic)
    _show({**trace_summary(trace), "assumes": trace_assumptions(trace)}, json)


@app.command(
    "synth",
    epilog="Example: v4sim trace synth --out agents.jsonl --sessions 710 --requests 49334 "
    "--input-mean 122000 --last-input-mean 183000",
)
def synth(
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Trace to write; .gz compresses, - is the output.")
    ],
    kind: Annotated[str, typer.Option(help="agent, chat or single; sets the defaults.")] = "agent",
    format: Annotated[str, typer.Option(help="weka-ranges or aiperf.")] = "weka-ranges",
    sessions: Annotated[int | None, typer.Option(help="Sessions.")] = None,
    requests: Annotated[
        int | None, typer.Option(help="In all [default: sessions x turns-mean].")
    ] = None,
    turns_mean: Annotated[float | None, typer.Option(help="Requests a session.")] = None,
    turns_cv: Annotated[float | None, typer.Option(help="Their coefficient of variation.")] = None,
    input_mean: Annotated[float | None, typer.Option(help="Tokens, over all requests.")] = None,
    last_input_mean: Annotated[
        float | None, typer.Option(help="Tokens, over the last requests of the sessions.")
    ] = None,
    input_cv: Annotated[
        float | None, typer.Option(help="Of first inputs and growth, between sessions.")
    ] = None,
    output_mean: Annotated[float | None, typer.Option(help="Tokens of a reply.")] = None,
    output_cv: Annotated[float | None, typer.Option(help="Its coefficient of variation.")] = None,
    system_tokens: Annotated[int | None, typer.Option(help="Of the system prompt.")] = None,
    groups: Annotated[
        int | None, typer.Option(help="System prompts that sessions share; 0 for none shared.")
    ] = None,
    wait_mean_s: Annotated[
        float | None, typer.Option(help="Tool or think time before a turn.")
    ] = None,
    wait_cv: Annotated[float | None, typer.Option(help="Its coefficient of variation.")] = None,
    rate_per_s: Annotated[
        float | None, typer.Option(help="Session starts a second [agent: all at 0].")
    ] = None,
    arrival: Annotated[str | None, typer.Option(help="poisson, gamma or weibull.")] = None,
    arrival_cv: Annotated[
        float | None, typer.Option(help="Of the gaps between starts, gamma or weibull.")
    ] = None,
    subagent_share: Annotated[
        float | None, typer.Option(help="Of the requests [weka-ranges agent: 0.05].")
    ] = None,
    subagent_turns: Annotated[float | None, typer.Option(help="Requests a sub-agent.")] = None,
    subagent_input: Annotated[
        float | None, typer.Option(help="Tokens of its task beyond the system prompt.")
    ] = None,
    rewrite_share: Annotated[
        float | None,
        typer.Option(help="Turns that rewrite the block before [weka-ranges agent: 0.05]."),
    ] = None,
    block_tokens: Annotated[int, typer.Option(help="Tokens of a block id.")] = 64,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    json: JsonFile = None,
) -> None:
    """Write a synthetic trace, read it back, and print its figures.

    Example: v4sim trace synth --out agents.jsonl --sessions 20 --seed 3
    """
    given = {
        "sessions": sessions, "requests": requests, "turns_mean": turns_mean, "turns_cv": turns_cv,
        "input_mean": input_mean, "last_input_mean": last_input_mean, "input_cv": input_cv,
        "output_mean": output_mean, "output_cv": output_cv, "system_tokens": system_tokens,
        "groups": groups, "wait_mean_s": wait_mean_s, "wait_cv": wait_cv,
        "rate_per_s": rate_per_s, "arrival": arrival, "arrival_cv": arrival_cv,
        "subagent_share": subagent_share, "subagent_turns": subagent_turns,
        "subagent_input": subagent_input, "rewrite_share": rewrite_share,
        "block_tokens": block_tokens, "seed": seed,
    }  # fmt: skip
    _write(out, kind, format, given, json)


def _write(out: Path, kind: str, format: str, given: dict[str, Any], json: Path | None) -> None:
    from simulator.basis.assumptions import assumptions_of
    from simulator.basis.errors import InputError
    from workloads.traffic.readers import read_trace, trace_assumptions
    from workloads.traffic.summary import trace_summary
    from workloads.traffic.synth import synth_sessions
    from workloads.traffic.synth_files import WRITERS, write_synth
    from workloads.traffic.synth_spec import synth_spec

    if given["requests"] is not None and given["turns_mean"] is not None:
        raise InputError("--requests and --turns-mean say the same; give one of the two")
    if kind == "agent" and format == "weka-ranges":  # deltas can carry neither
        for name in ("subagent_share", "rewrite_share"):
            given[name] = 0.05 if given[name] is None else given[name]
    if out == STANDARD_OUTPUT:
        to_standard_output(True)
    with (
        TemporaryDirectory() as folder,
        error_console().status(f"writing {'a trace' if out == STANDARD_OUTPUT else out.name}"),
    ):
        path = Path(folder) / "synthetic.jsonl" if out == STANDARD_OUTPUT else out
        write_synth(path, synth_spec(kind, **given), format)
        if not path.is_file() or path.is_relative_to("/dev"):
            return  # a pipe cannot be read back
        trace = read_trace(path, strict=True)
        if out == STANDARD_OUTPUT:
            print(path.read_text(encoding="utf-8"), end="")
    drawn = assumptions_of([synth_sessions, WRITERS[format]])
    summary = {**trace_summary(trace), "assumes": [*drawn, *trace_assumptions(trace)]}
    _show(summary, json)
    if out != STANDARD_OUTPUT:
        console().print(f"wrote {out}", soft_wrap=True)


def _show(summary: dict[str, Any], json: Path | None) -> None:
    from reports.text_table import TextColumn, print_table, wrapped

    save_json(json, summary)
    width = console().width
    for line in _sentences(summary):
        console().print(wrapped(line, width))
    names = {"input tokens": "input_tokens", "output tokens": "output_tokens", "wait s": "wait_s"}
    rows = [(name, summary[key]) for name, key in names.items() if summary[key] is not None]
    headings = ("mean", "p50", "p90", "p99", "max")
    columns = [TextColumn(heading="", cells=[name for name, _ in rows], left=True)] + [
        TextColumn(heading=key, cells=[_number(row[key]) for _, row in rows]) for key in headings
    ]
    print_table(console(), columns)
    for note in summary["notes"]:
        console().print(wrapped(f"note: {note}", width), style="dim")
    for sentence in summary["assumes"]:
        console().print(wrapped(f"assumes: {sentence}", width), style="dim")


def _sentences(summary: dict[str, Any]) -> Iterable[str]:
    yield (
        f"{summary['name']}: {summary['requests']:,} requests of {summary['sessions']:,} sessions "
        f"({summary['requests_per_session_mean']:.1f} each), arrivals over "
        f"{_number(summary['span_s'])} s, {summary['requests_after_a_reply']:,} that follow a "
        "reply."
    )
    yield (
        f"{summary['input_tokens_sum']:,} input tokens; a session's longest input is "
        f"{summary['longest_input_tokens_per_session_mean']:,.0f} tokens in the mean."
    )
    if summary["block_tokens"]:
        yield (
            f"{summary['block_ids']:,} block ids of {summary['block_tokens']} tokens, "
            f"{summary['distinct_block_ids']:,} distinct, {summary['shared_block_ids']:,} of them "
            f"in more than one run, in {summary['id_runs']:,} runs."
        )
    if summary["observed_cached_fraction"] is not None:
        share = 100 * summary["observed_cached_fraction"]
        yield f"The source observed {share:.2f} % of input tokens as cached."


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"
