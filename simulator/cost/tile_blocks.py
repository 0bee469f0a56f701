"""Kernel programs of kernels that tiles price: the tiles that the model chose, on the machine.

A tile is a block of the machine: a loop of steps whose operands are loaded ahead, from memory where
they are cold and from the last-level cache where they are fetched again, whose units work at the
rates that the tile model has (of cube cores with the time to fill their L0 buffers), and whose
results are stored. What the machine simulates in place of the model's sums: how blocks are dealt,
how many loads are in flight, how cache, memory and its banks answer, and where a wave ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwmodels.chip import ChipSpec
from hwmodels.machine.live import PICOSECONDS
from hwmodels.machine.program import (
    MOST_STAGES,
    Access,
    Block,
    KernelProgram,
    Launch,
    Region,
    Work,
)
from simulator.cost.price import Target
from simulator.cost.recording import Recording
from simulator.cost.roofline import RESOURCES, Floors, roofline_price
from simulator.cost.tile import TileBatch
from simulator.cost.tile_buffers import running_cores
from simulator.cost.traffic import traffic
from simulator.engine.kernel import Demand
from simulator.kernels.constants_file import fitted_chip
from simulator.kernels.moved_blocks import LEAST_BYTES, after_first_load, collective_blocks
from simulator.kernels.parts import Parts

# Loops beyond this are cut: equal steps, each of as much more.
MOST_STEPS = 1 << 14


@dataclass(frozen=True, slots=True)
class TiledKernel:
    """The way that a kernel is cut, and what a step of one of its blocks takes of every unit.

    `unit_s` are seconds of one core, by resource of the tile model; `link_s` of the whole kernel.
    `memory_share` of the machine's rate is what the family's kernels reach of it.
    """

    blocks: int
    steps: int
    unit_s: dict[str, float]
    link_s: float
    llc_bytes: float
    start_s: float
    memory_share: float


def tiled_kernel(demand: Demand, target: Target) -> TiledKernel:
    """The tile model's choice for a kernel, a step of a block at a time."""
    recording = Recording()
    batch = TileBatch(recording, [demand], target)
    floor = roofline_price(demand, target)
    tiled = batch.tiled(Floors.of_prices([floor]), recording.values)
    busy = dict(zip(RESOURCES, tiled.busy_ps[:, 0].tolist(), strict=True))
    chunks = float(tiled.chunks[0])
    units = max(1, round(float(tiled.ways.units[0])))
    steps = max(1, round(float(tiled.ways.steps[0])))
    return TiledKernel(
        blocks=units,
        steps=min(steps, MOST_STEPS),
        unit_s={
            name: busy[name] / chunks / PICOSECONDS * max(1.0, steps / MOST_STEPS)
            for name in ("matrix", "vector", "special")
        },
        link_s=busy["link"] / PICOSECONDS,
        llc_bytes=floor.traffic.llc_bytes + float(tiled.ways.extra_llc_bytes[0]),
        start_s=batch.rates.starts_ps(floor.busy_ps["launch"])[0] / PICOSECONDS,
        memory_share=float(batch.rates.memory[0]),
    )


def tile_program(demand: Demand, target: Target, kernel: TiledKernel) -> KernelProgram:
    """What the machine runs for a kernel that tiles price.

    Assumes: units of a block work side by side: its longest sets the pace of its steps, and of the
        others one step is left at the end.
    Assumes: a block loads an equal part of what the kernel reads, step by step; values that tiles
        fetch again, or that cores hand on, come from the last-level cache.
    Assumes: one block is resident on a core, on each vector core where a kernel has no products
        for the cube, and goes through its tiles one after the other, loading ahead over their ends
        with half of the core's memory for loads in flight.
    """
    chip = target.chip
    if kernel.link_s and not demand.products:
        seconds = {"launch": kernel.start_s, "communication": kernel.link_s}
        parts = Parts({cause: np.array([value]) for cause, value in seconds.items()})
        return collective_blocks(parts, chip)
    running, buffer = running_cores(demand, chip)
    resident = max(1, round(running / chip.core_count))
    places = min(kernel.blocks, running)
    regions, moved, stores = _regions(demand, kernel, chip, places)
    step_bytes = sum(access.nbytes for access in moved if not access.stores)
    half = buffer // 2
    # Vector cores share the units of the machine's core: each takes its part of their clocks.
    clock = chip.clock_hz / resident
    longest = max(kernel.unit_s, key=lambda name: kernel.unit_s[name])
    fitted = fitted_chip(chip)
    block = Block(
        stage=_work({longest: kernel.unit_s[longest]}, clock),
        epilogue=_work({k: v for k, v in kernel.unit_s.items() if k != longest}, clock),
        accesses=tuple(moved),
        last_accesses=tuple(stores),
        fixed_bytes=chip.smem_bytes_per_core // (resident + 1) + 1,
        in_flight=max(1, min(MOST_STAGES, half // max(step_bytes, 1))),
        flight_bytes=half,
        held_fill=fitted.matrix_fill_clocks,
        held_issue=fitted.matrix_issue_clocks,
    )
    last = float(sum(access.nbytes for access in stores))
    gap = after_first_load(kernel.start_s, chip, 0.0, float(step_bytes), last)
    tiles = np.full(places, kernel.blocks // places, np.int64)
    tiles[: kernel.blocks % places] += 1
    launch = Launch(
        kinds=(block,), kind=np.zeros(places, np.int64), stages=tiles * kernel.steps, gap_s=gap
    )
    return KernelProgram(regions=tuple(regions), launches=(launch,), name="tiles")


def _work(unit_s: dict[str, float], clock_hz: float) -> Work:
    vector = unit_s.get("vector", 0.0) + unit_s.get("special", 0.0)
    return Work(matrix=unit_s.get("matrix", 0.0) * clock_hz, vector=vector * clock_hz)


def _regions(
    demand: Demand, kernel: TiledKernel, chip: ChipSpec, places: int
) -> tuple[list[Region], list[Access], list[Access]]:
    """Where a kernel's bytes lie, what a block moves by step, and what it stores at its end."""
    moved = traffic(demand, chip.llc_bytes)
    read, written = float(moved.dram_read_bytes), float(moved.dram_write_bytes)
    regions: list[Region] = []
    moved_a_step: list[Access] = []
    stores: list[Access] = []

    def add(nbytes: float, run_bytes: int, warm: float, writes: bool) -> None:
        parts = kernel.blocks * kernel.steps
        each, last = int(nbytes / parts), False
        if each < LEAST_BYTES and writes:
            each, last = int(nbytes / places), True
        if each < LEAST_BYTES:
            # Few bytes: not every step has some.
            each = LEAST_BYTES if nbytes >= LEAST_BYTES * places else 0
        if not each:
            return
        size = max(int(nbytes), LEAST_BYTES)
        regions.append(Region(nbytes=size, run_bytes=run_bytes, warm=warm))
        row = each * (1 if last else kernel.steps * -(-kernel.blocks // places))
        access = Access(
            region=len(regions) - 1, nbytes=each, row_bytes=row, modulo=max(1, size // row),
            stores=writes,
        )  # fmt: skip
        (stores if last else moved_a_step).append(access)

    for run in demand.cache_runs:
        if run.written:
            written -= run.nbytes
        else:
            read -= run.nbytes
        add(float(run.nbytes), int(run.run_bytes), 0.0, run.written)
    add(read, 0, 0.0, False)
    add(written, 0, 0.0, True)
    again = kernel.llc_bytes - moved.dram_read_bytes - moved.dram_write_bytes
    add(again, 0, 1.0, False)
    if not regions:
        regions.append(Region(nbytes=LEAST_BYTES))
    return regions, moved_a_step, stores
