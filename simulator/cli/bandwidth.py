"""`v4sim bandwidth`: what a chip's memory delivers, by access pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simulator.basis.errors import InputError, UnsupportedError
from simulator.cli.deployment_options import Edits
from simulator.cli.options import (
    JsonFile,
    command_line,
    console,
    error_console,
    save_json,
    tokens_option,
)

if TYPE_CHECKING:
    from hwmodels.bandwidth.access import Access
    from hwmodels.bandwidth.measurement import Measurement
    from hwmodels.bandwidth.sweep import SweepPoint
    from hwmodels.dram.chip_memory import ChipMemory
    from reports.memory_text import TextTable
    from simulator.cost.kernel_patterns import KernelPattern
    from simulator.cost.question import AskedStep


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
    kernels: Annotated[
        bool,
        typer.Option("--kernels", help="An engine's kernels on the machine, in place of patterns."),
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="Kernels: whose decode step [default: v4-flash].")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Kernels: a profile [default: as of v4sim step].")
    ] = None,
    page_tokens: Annotated[
        list[int] | None,
        typer.Option(help="Kernels: tokens of a page; repeatable [default: the engine's]."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Kernels: requests of a chip [default: 64].")
    ] = None,
    context: Annotated[
        int | None, tokens_option("--context", "Kernels: tokens of a request", "65536")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Sweep: write page, CSV and JSON here.")
    ] = None,
    json: JsonFile = None,
) -> None:
    """Bandwidth and latency of a chip's memory, simulated burst by burst.

    Example: v4sim bandwidth --chip h200 --pattern gather --granule 584 --align 640
    With --kernels: index scan, sparse gather, expert and GEMM weights, cache append and
    hyper-connection streams as an engine's kernels move them; --out adds them to the sweep's page.
    """
    from hwmodels.bandwidth.access import Access
    from hwmodels.chip import find_chip
    from hwmodels.chip_edits import edited_chip
    from hwmodels.dram.chip_memory import QUEUED_NS, ChipController, chip_memory

    single = any(value is not None for value in (pattern, granule, align, outstanding))
    single = single or write_fraction != 0.0
    of_kernels = {"model": model, "engine": engine, "batch": batch, "context": context}
    _check_kernels(kernels, single, {**of_kernels, "page-tokens": page_tokens or None})
    _check_options(single, granule, out)
    found = _kernels(chip, edits, page_tokens, of_kernels) if kernels else None
    if found is not None and out is None:
        _say_kernels(found, json)
        return
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
    if single:
        _one(memory, base, json)
    else:
        _sweep(memory, base, found, out, json)


def _check_kernels(kernels: bool, single: bool, of_kernels: Mapping[str, object]) -> None:
    if kernels and single:
        raise InputError(
            "--kernels has patterns of its own: leave out --pattern, --granule, --align, "
            "--outstanding and --write-fraction"
        )
    given = next((name for name, value in of_kernels.items() if value is not None), None)
    if given is not None and not kernels:
        raise InputError(f"--{given} is of an engine's kernels: add --kernels, or leave it out")


# Chips of the deployment whose kernels are run: every one has all heads, an eighth of the experts.
_CHIPS = 8


def _kernels(
    chip: str,
    edits: Sequence[str] | None,
    pages: Sequence[int] | None,
    of_kernels: Mapping[str, Any],
) -> Kernels:
    """An engine's kernels as memory sees them."""
    from simulator.cost.kernel_patterns import kernel_patterns
    from simulator.cost.question import ask

    given = {name: value for name, value in of_kernels.items() if value is not None}
    asked: dict[str, Any] = {"model": "v4-flash", "batch": 64, "context": 65536, **given}
    asked["batch"] *= _CHIPS
    sizes: Sequence[int | None] = pages or [None]
    steps = [
        ask(
            chip=chip, edits=edits, count=_CHIPS, dp=_CHIPS, fidelity="cycle", page_tokens=page,
            **asked,
        )
        for page in sizes
    ]  # fmt: skip
    patterns = []
    with error_console().status("running kernels") as status:
        for one in kernel_patterns(steps):
            patterns.append(one)
            status.update(f"ran {one.pattern}")
    if not patterns:
        raise UnsupportedError(
            f"{steps[0].question.engine} has no kernel with a program of its own to run on the "
            "machine; nearest: --engine sglang-0.5, or the sweep without --kernels"
        )
    return Kernels(steps[0], patterns)


@dataclass(frozen=True)
class Kernels:
    """Patterns of an engine's kernels, and the first step that they are of."""

    step: AskedStep
    patterns: list[KernelPattern]

    @property
    def answer(self) -> str:
        """What matters most, in a sentence."""
        from reports.kernel_patterns_text import patterns_answer

        return patterns_answer(self.patterns, self.step.question.engine, self.step.chip.name)

    @property
    def table(self) -> TextTable:
        """A line a kernel and state of the cache."""
        from reports.kernel_patterns_text import patterns_table

        return patterns_table(self.patterns, self.step.question)

    @property
    def data(self) -> dict[str, Any]:
        """Everything for JSON."""
        from reports.kernel_patterns_text import pattern_row

        question = self.step.question
        return {
            "model": question.model,
            "engine": question.engine,
            "chips": question.count,
            "requests_per_chip": question.batch // question.count,
            "context_tokens": question.context,
            "patterns": [pattern_row(one) for one in self.patterns],
        }


def _say_kernels(found: Kernels, json: Path | None) -> None:
    save_json(json, {"chip": found.step.chip.name, "kernels": found.data})
    console().print(found.answer, style="bold")
    _print_table(found.table)


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


def _sweep(
    memory: ChipMemory, base: Access, kernels: Kernels | None, out: Path | None, json: Path | None
) -> None:
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
    data: dict[str, Any] = {
        "chip": memory.chip,
        "points": [sweep_row(point) for point in points],
    }
    if kernels is not None:
        data["kernels"] = kernels.data
    files = {} if out is None else _write(out, memory, points, kernels, data)
    save_json(json, data)
    console().print(sweep_answer(memory, points), style="bold")
    console().print(_preset_text(memory, points[0].measurement.channels) + ".")
    for table in sweep_tables(points):
        _print_table(table)
    if kernels is not None:
        _print_table(kernels.table)
    for path in files.values():
        console().print(f"wrote {path}", soft_wrap=True)


def _write(
    out: Path,
    memory: ChipMemory,
    points: Sequence[SweepPoint],
    kernels: Kernels | None,
    data: dict[str, Any],
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
    sources: list[object] = [chip_memory, ChipController, measure, core_stream_chunks]
    if kernels is not None:
        from simulator.cost.kernel_patterns import kernel_patterns

        sources.append(kernel_patterns)
    write_memory_page(
        page,
        memory,
        points,
        sweep_answer(memory, points),
        assumptions_of(sources),
        files,
        command_line(),
        () if kernels is None else (kernels.table,),
    )
    return {**files, "page": page}


def _print_table(table: TextTable) -> None:
    from reports.text_table import TextColumn, print_table, wrapped

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
    print_table(console(), columns)
