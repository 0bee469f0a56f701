"""Measured rates of whole chips beside what the machine makes of plain streams and of products.

`python -m tests.validation.machine_rates` prints the table.

Assumes: a stream is read and written by resident blocks that do nothing else; the measured kernels
    convert or multiply meanwhile.
Assumes: a long stream goes on as its first stages do; with longer runs its rate is up to 4 % off.
Assumes: the FP8 products are those of tensors with a scale a block; the measured ones have one a
    tensor. Weights are cold.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from hwmodels.chip import ChipSpec, find_chip
from hwmodels.machine.program import Access, Block, KernelProgram, Region, Work, equal_blocks
from hwmodels.machine.spec import PICOSECONDS, machine_of
from hwmodels.machine.steady import kernel_time, simulated
from simulator.basis.errors import UnsupportedError
from simulator.basis.yaml_loader import StrictModel, load_yaml
from simulator.engine.sizes import row
from simulator.kernels.blocks import family_blocks
from simulator.kernels.constants_file import constants_for
from simulator.kernels.registry import find_family
from tests.validation.report import table

PATH = Path(__file__).parent / "rates" / "measured.yaml"
FAMILIES = {"bf16": "gemm_bf16", "fp8": "gemm_fp8_deepgemm"}
WEIGHT_BYTES = {"bf16": 2, "fp8": 1}
# A stream's bytes, and one step of a block in it.
STREAM_BYTES, STEP_BYTES = 1 << 30, 12288


class Source(StrictModel):
    """Where figures were read, and the licence there."""

    what: str
    licence: str


class StreamRow(StrictModel):
    """A measured stream: so many parts of its bytes read and written."""

    chip: str
    pattern: str
    reads: int
    writes: int
    gb_per_s: float
    source: str
    not_covered: str | None = None


class ProductRow(StrictModel):
    """A measured C[m, n] = A[m, k] B[k, n]."""

    chip: str
    math: Literal["bf16", "fp8"]
    m: int
    n: int
    k: int
    tflop_per_s: float
    not_covered: str | None = None


class MeasuredFile(StrictModel):
    """All rows; products are from the source `ml-engineering`."""

    sources: dict[str, Source]
    reasons: dict[str, str]
    streams: tuple[StreamRow, ...]
    products: tuple[ProductRow, ...]


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A measured rate, the machine's and, of products, the closed form's; None: it has no run."""

    chip: str
    what: str
    unit: str
    measured: float
    machine: float | None
    closed: float | None = None

    @property
    def error(self) -> float:
        """Machine over measured, less one."""
        assert self.machine is not None
        return self.machine / self.measured - 1.0


def measured() -> MeasuredFile:
    """The carried rows."""
    return load_yaml(PATH, MeasuredFile)


def stream_program(reads: int, writes: int, chip: ChipSpec) -> KernelProgram:
    """Blocks that read and write their parts of a gigabyte and do nothing else."""
    cores, parts = chip.core_count, reads + writes
    blocks = cores * max(1, chip.threads_per_core // 1024)
    steps = STREAM_BYTES // blocks // STEP_BYTES
    accesses = []
    for region, (part, stores) in enumerate(((reads, False), (writes, True))):
        nbytes = STEP_BYTES * part // parts
        if nbytes:
            one = Access(region=region, nbytes=nbytes, row_bytes=nbytes * steps, stores=stores)
            accesses.append(one)
    block = Block(stage=Work(), accesses=tuple(accesses), threads=1024, in_flight=4)
    return KernelProgram(
        regions=(Region(nbytes=STREAM_BYTES), Region(nbytes=STREAM_BYTES)),
        launches=(equal_blocks(block, blocks, steps),),
        name="stream",
    )


def stream_bytes_per_s(reads: int, writes: int, chip: ChipSpec) -> float:
    """Bytes a second that the machine reads and writes."""
    program = stream_program(reads, writes, chip)
    (launch,) = program.launches
    found = simulated(program, machine_of(chip))
    moved = sum(a.nbytes for a in launch.kinds[0].accesses) * int(launch.stages.sum())
    return moved / found.duration_ps * PICOSECONDS


def stream_rates(chips: Collection[str] | None = None) -> list[Rate]:
    """Streams that have a run, on these chips or on all."""
    known: dict[tuple[str, int, int], float] = {}
    rates = []
    for one in measured().streams:
        if one.not_covered or (chips is not None and one.chip not in chips):
            continue
        key = (one.chip, one.reads, one.writes)
        if key not in known:
            known[key] = stream_bytes_per_s(one.reads, one.writes, find_chip(one.chip)) / 1e9
        rates.append(
            Rate(
                chip=one.chip, what=one.pattern, unit="GB/s", measured=one.gb_per_s,
                machine=known[key],
            )
        )  # fmt: skip
    return rates


def product_rates() -> list[Rate]:
    """Products on chips that are described."""
    return [_product(one) for one in measured().products if not one.not_covered]


def _product(one: ProductRow) -> Rate:
    chip, name = find_chip(one.chip), FAMILIES[one.math]
    constants = constants_for(name, chip).values
    sizes = row(
        rows=one.m, columns=one.n, depth=one.k, macs=one.m * one.n * one.k,
        weight_bytes=one.n * one.k * WEIGHT_BYTES[one.math], quantised=1.0, warm=0.0, replayed=0.0,
    )  # fmt: skip
    flops = 2.0 * one.m * one.n * one.k
    family = find_family(name)
    columns = {key: np.array([value]) for key, value in sizes}
    closed = flops / float(family.parts(columns, chip, constants).total[0]) / 1e12
    machine = None
    try:
        program = family_blocks(family, dict(sizes), chip, constants)
        machine = flops / kernel_time(program, machine_of(chip), chip.tdp_w).seconds / 1e12
    except UnsupportedError:
        pass  # its tiles fit on none of the chip's cores
    what = f"{one.math} {one.m} x {one.n} x {one.k}"
    return Rate(
        chip=one.chip, what=what, unit="TFLOP/s", measured=one.tflop_per_s, machine=machine,
        closed=closed,
    )  # fmt: skip


def rates_table() -> str:
    """All rows with their errors, and those that no run is held against."""
    found = measured()
    rates = [*stream_rates(), *product_rates()]
    covered = [
        (
            r.chip, r.what, r.unit, f"{r.measured:,.0f}",
            "-" if r.machine is None else f"{r.machine:,.0f}",
            "-" if r.machine is None else f"{r.error:+.1%}",
            "-" if r.closed is None else f"{r.closed / r.measured - 1:+.1%}",
        )
        for r in rates
    ]  # fmt: skip
    header = ("chip", "what", "unit", "measured", "machine", "error", "closed form")
    lines = [table(header, covered, 3), ""]
    for one in (*found.streams, *found.products):
        if one.not_covered:
            what = one.pattern if isinstance(one, StreamRow) else one.math
            lines.append(f"- {one.chip}, {what}: {found.reasons[one.not_covered]}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(rates_table())
