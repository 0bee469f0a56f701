"""`v4sim bandwidth`: what a chip's memory delivers, by access pattern."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError
from simulator.cli.deployment_options import Edits
from simulator.cli.options import (
    JsonFile,
    command_line,
    console,
    error_console,
    save_json,
)

if TYPE_CHECKING:
    from hwmodels.bandwidth.access import Access
    from hwmodels.bandwidth.measurement import Measurement
    from hwmodels.bandwidth.sweep import SweepPoint
    from hwmodels.dram.chip_memory import ChipMemory
    from reports.memory_text import TextTable


def bandwidth(
    chip: Annotated[str, typer.Option(help="Chip name, or path to a YAML file.")],
    edits: Edits = None,
    pattern: Annotated[
        str | None, typer.Option(help="stream or gather [default: a sweep over both].")
    ] = None,
    granule: Annotated[int | None, typer.Option(help="Bytes of a run.")] = None,
    align: Annotated[
        int | None, typer.Option(help="Gather: runs begin at multiples of this [default: granule].")
    ] = None,
    outstanding: Annotated[
        int | None, typer.Option(help="Runs in flight over the whole chip [default: enough].")
    ] = None,
    write_fraction: Annotated[float, typer.Option(help="Share of runs that are written.")] = 0.0,
    channels: Annotated[
        int | None, typer.Option(help="Channels to simulate for all [default: one stack's].")
    ] = None,
    refresh: Annotated[str, typer.Option(help="per-bank, all-bank or none.")] = "per-bank",
    mapping: Annotated[
        str, typer.Option(help="Address digits, lowest first: c columns, p, g, b, s.")
    ] = "c8,p,g,c,b,s",
    interleave: Annotated[int, typer.Option(help="Consecutive bytes on one channel.")] = 256,
    queue_ns: Annotated[
        float | None, typer.Option(help="Traffic that a read queue holds, in ns [default: 103].")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random addresses.")] = 7,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Sweep: write page, CSV and JSON here.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Bandwidth and latency of a chip's memory, simulated burst by burst.

    Example: v4sim bandwidth --chip h200 --pattern gather --granule 584 --align 640
    """
    from hwmodels.bandwidth.access import Access
    from hwmodels.chip import find_chip
    from hwmodels.chip_edits import edited_chip
    from hwmodels.dram.chip_memory import QUEUED_NS, ChipController, chip_memory

    single = any(value is not None for value in (pattern, granule, align, outstanding))
    _check_options(single or write_fraction != 0.0, granule, out)
    base = Access(
        kind=pattern or "gather",
        granule_bytes=granule if granule is not None else 4096,
        align_bytes=align,
        outstanding=outstanding,
        write_fraction=write_fraction,
        channels=channels,
        seed=seed,
        controller=ChipController(
            mapping,
            interleave,
            QUEUED_NS if queue_ns is None else queue_ns,
            refresh,  # type: ignore[arg-type]
        ),
    )
    memory = chip_memory(edited_chip(find_chip(chip), edits or ()))
    if single or write_fraction != 0.0:
        _one(memory, base, json)
    else:
        _sweep(memory, base, out, json)


def _check_options(single: bool, granule: int | None, out: Path | None) -> None:
    if single and granule is None:
        raise InputError("one pattern needs --granule, the bytes of a run, such as --granule 584")
    if single and out is not None:
        raise InputError("--out writes the page of a sweep: leave out the pattern, or use --json")


def _one(memory: ChipMemory, access: Access, json: Path | None) -> None:
    from hwmodels.bandwidth.measurement import measure
    from reports.memory_rows import measurement_row
    from reports.memory_text import percent, time_table

    with error_console().status(f"simulating {memory.preset.name}"):
        found = measure(memory, access)
    save_json(json, {"chip": memory.chip, **measurement_row(found)})
    console().print(_sentence(memory, found), style="bold")
    console().print(
        f"Whole bursts {percent(found.achieved_fraction)} of the peak, row hits "
        f"{percent(found.row_hit_rate)}, {found.outstanding:,} runs in flight "
        f"({found.bytes_in_flight / 2**20:,.2f} MiB); {_preset_text(memory, found.channels)}."
    )
    _print_table(time_table(found))


def _sentence(memory: ChipMemory, found: Measurement) -> str:
    from reports.memory_text import percent

    return (
        f"{memory.chip}, {_name(found.access)}: {found.useful_bytes_per_s / 1e9:,.0f} GB/s useful, "
        f"{percent(found.useful_fraction)} of the peak of {memory.peak_bytes_per_s / 1e9:,.0f}; "
        f"latency {found.latency_p50_ns:,.0f} ns at the median, {found.latency_p99_ns:,.0f} at p99."
    )


def _name(access: Access) -> str:
    at = f" at multiples of {access.align:,} B" if access.kind == "gather" else ""
    written = f", {100 * access.write_fraction:.0f} % written" if access.write_fraction else ""
    return f"{access.kind} of {access.granule_bytes:,} B{at}{written}"


def _preset_text(memory: ChipMemory, channels: int) -> str:
    return (
        f"{channels} of {memory.channels} channels simulated as {memory.preset.name} and taken for "
        "all"
    )


def _sweep(memory: ChipMemory, base: Access, out: Path | None, json: Path | None) -> None:
    from hwmodels.bandwidth.sweep import sweep
    from reports.memory_page import sweep_answer
    from reports.memory_rows import sweep_row
    from reports.memory_text import sweep_tables

    total, running = sweep(memory, base)
    points: list[SweepPoint] = []
    with error_console().status("") as status:
        for point in running:
            points.append(point)
            status.update(f"simulated {len({p.measurement.access for p in points})} of {total}")
    data = {"chip": memory.chip, "points": [sweep_row(point) for point in points]}
    files = {} if out is None else _write(out, memory, points, data)
    save_json(json, data)
    console().print(sweep_answer(memory, points), style="bold")
    console().print(_preset_text(memory, points[0].measurement.channels) + ".")
    for table in sweep_tables(points):
        _print_table(table)
    for path in files.values():
        console().print(f"wrote {path}", soft_wrap=True)


def _write(
    out: Path, memory: ChipMemory, points: Sequence[SweepPoint], data: dict[str, Any]
) -> dict[str, Path]:
    """Files first, then the page that links to them."""
    from hwmodels.bandwidth.measurement import measure
    from hwmodels.dram.chip_memory import ChipController, chip_memory
    from hwmodels.dram.core_streams import core_stream_chunks
    from reports.memory_page import sweep_answer, write_memory_page
    from reports.memory_rows import rows_table
    from reports.step_json import write_json
    from reports.tables import write_csv
    from simulator.basis.assumptions import assumptions_of

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make directory {out}: {error.strerror}") from error
    files = {"All points (CSV)": out / "bandwidth.csv", "All points (JSON)": out / "bandwidth.json"}
    write_csv(files["All points (CSV)"], rows_table(data["points"]))
    write_json(files["All points (JSON)"], data)
    page = out / "bandwidth.html"
    assumed = assumptions_of([chip_memory, ChipController, measure, core_stream_chunks])
    write_memory_page(
        page, memory, points, sweep_answer(memory, points), assumed, files, command_line()
    )
    return {**files, "page": page}


def _print_table(table: TextTable) -> None:
    from reports.text_table import TextColumn, text_table, wrapped

    width = console().width
    console().print(f"\n{table.title}", style="bold")
    if table.note:
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
