"""`v4sim offload`: C4 entries in host memory behind a hot buffer on the device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.deployment_options import takes_deployment
from simulator.cli.options import (
    JsonFile,
    command_line,
    console,
    error_console,
    save_json,
)

if TYPE_CHECKING:
    from simulator.offload.misses import RecordedMisses
    from simulator.offload.question import OffloadQuestion
    from simulator.offload.recording import Reuse


@takes_deployment("pp", "cp", model="v4-flash", chip="b200", count=2)
def offload(
    deployment: Mapping[str, Any],
    prompt: Annotated[int, typer.Option(help="Tokens of a request's prompt.")] = 200_000,
    output: Annotated[int, typer.Option(help="Tokens of its output.")] = 20_000,
    contexts: Annotated[
        str, typer.Option(metavar="LIST", help="Other request lengths in tokens to compare.")
    ] = "8192,32768,65536,131072,262144,524288,1048576",
    buffer: Annotated[
        int | None,
        typer.Option(help="Entries on the device a request and C4 layer [default: 2 x top-k]."),
    ] = None,
    overlap: Annotated[
        float, typer.Option(help="Share of a query's picks that the query before had.")
    ] = 0.95,
    returns: Annotated[
        float, typer.Option(help="Share of the other picks that were left a short time ago.")
    ] = 0.0,
    return_entries: Annotated[
        int | None,
        typer.Option(help="Entries left last that such picks come from [default: top-k]."),
    ] = None,
    choices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Recorded picks of the model (.npz) instead of these."),
    ] = None,
    choices_context: Annotated[
        int | None,
        typer.Option(help="Tokens after the last recorded query [default: prompt + output]."),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Also run a small model (tiny) and measure its picks."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --measure: write the picks of its random run."),
    ] = None,
    fidelity: Annotated[str, typer.Option(help="roofline or tile, for the step.")] = "tile",
    gather_share: Annotated[
        float | None,
        typer.Option(help="Useful share of the host link for scattered rows [default: derived]."),
    ] = None,
    host_gb: Annotated[
        float | None, typer.Option(help="Host memory for C4 entries [default: no limit].")
    ] = None,
    host_ratio: Annotated[
        int | None,
        typer.Option(help="SGLang's host_to_device_ratio [default: room for buffers alone]."),
    ] = None,
    window_ratio: Annotated[
        float | None, typer.Option(help="Window slots a full token [default: the engine's].")
    ] = None,
    offload_window_ratio: Annotated[
        float | None, typer.Option(help="The same with the offload [default: as without].")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a page with figures here.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Compare C4 entries on the host with all on the device: room, hits, step time, tokens/s.

    Example: v4sim offload --model v4-flash --chip b200 --count 2 --dp 2 --prompt 200000
    --output 20000 --out out/offload
    """
    from reports.offload_json import offload_to_json
    from reports.offload_text import print_offload
    from simulator.offload.question import ask_offload, read_lengths
    from simulator.offload.study import study

    if record is not None and measure is None:
        raise InputError("--record is given without --measure, so nothing is run; add it")
    question = ask_offload(
        **deployment,
        prompt_tokens=prompt,
        output_tokens=output,
        buffer_entries=buffer,
        overlap=overlap,
        returns=returns,
        return_entries=return_entries,
        fidelity=fidelity,
        gather_share=gather_share,
        host_gigabytes=host_gb,
        window_ratio=window_ratio,
        offload_window_ratio=offload_window_ratio,
        host_ratio=host_ratio,
    )
    lengths = read_lengths(contexts)
    recorded = _recorded(choices, choices_context, question)
    reuse = [] if recorded is None else [_reuse_of_file(recorded, choices, question)]
    if measure is not None:
        reuse += _measured(measure, record)
    with error_console().status("comparing"):
        found = study(question, lengths, recorded, reuse)
    page = None
    if out is not None:
        from reports.offload_page import write_offload_page

        _make(out)
        page = out / "offload.html"
        write_offload_page(page, found, command_line())
    save_json(json, offload_to_json(found, "stated" if choices is None else str(choices)))
    print_offload(console(), found)
    if page is not None:
        console().print(f"Open the report in a browser: {page.resolve()}", soft_wrap=True)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make directory {folder}: {error.strerror}") from error


def _recorded(
    choices: Path | None, context: int | None, question: OffloadQuestion
) -> RecordedMisses | None:
    """Picks of the user's file."""
    if choices is None:
        if context is not None:
            raise InputError("--choices-context is given without --choices; add the file")
        return None
    from simulator.offload.recording import read_picks

    return read_picks(choices, question.capacity.config, context or question.last_context)


def _reuse_of_file(
    recorded: RecordedMisses, choices: Path | None, question: OffloadQuestion
) -> Reuse:
    from simulator.offload.recording import reuse_of

    name = choices.name if choices is not None else ""
    return reuse_of(recorded, name, question.capacity.config.name, [question.buffer_entries])


def _measured(model: str, record: Path | None) -> list[Reuse]:
    """Runs of a small model, one for each kind of next tokens."""
    from simulator.offload import recording
    from simulator.offload.misses import RecordedMisses
    from simulator.offload.question import MOVED_LAYER
    from simulator.prove.small_model import small_model

    config = small_model(model)
    if MOVED_LAYER not in config.layers:
        raise InputError(f"{config.name} has no C4 layer, so nothing is picked; try tiny")
    found = []
    prompt, steps = recording.PROMPT_TOKENS, recording.STEPS
    for kind, words in recording.NEXT_TOKENS.items():
        with error_console().status(f"running {config.name}, {words}"):
            picks = recording.record_picks(config, kind, prompt_tokens=prompt, steps=steps)
        if record is not None and kind == "random":
            recording.save_record(record, config, picks)
        choices = recording.choices_of(picks)
        run = RecordedMisses(choices=choices, context_tokens=prompt + steps)
        found.append(recording.reuse_of(run, words, config.name))
    return found
