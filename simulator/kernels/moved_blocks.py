"""Kernel programs of kernels without products: elementwise passes, plain launches, collectives."""

from __future__ import annotations

import numpy as np

from hwmodels.chip import ChipSpec
from hwmodels.llc.spec import chip_cache
from hwmodels.machine.program import (
    Access,
    Block,
    KernelProgram,
    Launch,
    Region,
    Work,
    equal_blocks,
)
from simulator.kernels.constants_file import fitted_chip
from simulator.kernels.core_rates import vector_ops_per_clock
from simulator.kernels.family import one
from simulator.kernels.parts import Parts
from simulator.kernels.warmth import warm_share

# One step of a core in an elementwise kernel: 1,024 threads with 16 bytes each.
STEP_BYTES = 16384
THREADS = 1024
# Registers of a thread in a kernel without products: what lets two blocks of 1,024 be resident.
THREAD_REGISTERS_BYTES = 32 * 4
# Stages whose loads such a kernel has in flight (guessed).
PASS_STAGES = 4
LEAST_BYTES = 32  # a sector


def after_first_load(
    launch_s: float, chip: ChipSpec, warm: float = 1.0, nbytes: float = 0.0, stored: float = 0.0
) -> float:
    """A launch without the first loads and last stores of its blocks, which the machine adds.

    Of a block `nbytes` are loaded first and `stored` last.

    Assumes: what was fitted as launch covers the latency of a kernel's first loads, the way of
        their bytes into the cores, and the way of the last stores out of the cores to the cache,
        of the chip where it was fitted.
    """
    fitted = fitted_chip(chip)
    moved = (nbytes + stored) / (fitted.core_port_bytes_per_clock * fitted.clock_hz)
    taken = load_latency_s(fitted, 1.0) / 2
    return max(launch_s - load_latency_s(fitted, warm) - moved - taken, 0.0)


def load_latency_s(chip: ChipSpec, warm: float) -> float:
    """Idle time of a load, from memory or from the partitions of the cache, mean over both."""
    spec = chip_cache(chip)
    others = spec.partitions - 1
    cached = (spec.near_latency_s + others * spec.far_latency_s) / spec.partitions
    return warm * cached + (1.0 - warm) * chip.dram_latency_s


def passed(
    moved: float, clocks: float, chip: ChipSpec, gap_s: float, warm: float, region: int = 0
) -> Launch:
    """A pass over `moved` bytes, half read and half written, in so many clocks of every core.

    Assumes: blocks are as even as the bytes allow, one resident block a core at least.
    """
    cores = chip.core_count
    steps = max(1, round(moved / cores / STEP_BYTES))
    each = max(LEAST_BYTES, int(moved / cores / steps / 2))
    half = each * steps * cores
    # What is written lies behind what is read.
    accesses = (
        Access(region=region, nbytes=each, row_bytes=each * steps),
        Access(region=region, nbytes=each, row_bytes=each * steps, stores=True, first=half),
    )
    block = Block(
        stage=Work(vector=clocks / steps),
        accesses=accesses,
        threads=THREADS,
        registers_bytes=THREADS * THREAD_REGISTERS_BYTES,
        in_flight=PASS_STAGES,
    )
    return equal_blocks(block, cores, steps, gap_s=after_first_load(gap_s, chip, warm, each, each))


def elementwise_blocks(
    moved: float, operations: float, chip: ChipSpec, bytes_per_clock: float
) -> KernelProgram:
    """One elementwise kernel: bytes at the cores' pace, from cache as far as they fit."""
    warm = one(warm_share(np.array([moved]), chip))
    clocks = np.hypot(moved / bytes_per_clock, operations / vector_ops_per_clock(chip))
    launch = passed(moved, float(clocks) / chip.core_count, chip, chip.launch_gap_s, warm)
    region = Region(nbytes=int(max(moved, LEAST_BYTES)), warm=warm)
    return KernelProgram(regions=(region,), launches=(launch,), name="elementwise")


def waited(seconds: float, name: str = "launch") -> KernelProgram:
    """A kernel that does nothing but start."""
    block = Block(stage=Work())
    return KernelProgram(
        regions=(Region(nbytes=LEAST_BYTES),),
        launches=(equal_blocks(block, 1, 0, gap_s=seconds, fills_chip=False),),
        name=name,
    )


def collective_blocks(parts: Parts, chip: ChipSpec, steps: int = 1) -> KernelProgram:
    """A collective by its start, its dependent steps and what crosses the link.

    Each step is a chunk over the chip's links and the wait of a hop.

    Assumes: bytes beyond the payload (flags, headers, an unused part of a mesh) take the links'
        time as the payload does.
    """
    launch, serial, transfer = (
        one(parts.seconds.get(cause, 0.0)) for cause in ("launch", "serial", "communication")
    )
    sent = int(transfer * chip.scale_up_bytes_per_s / steps)
    block = Block(stage=Work(wait=serial / steps * chip.clock_hz, send_bytes=sent), threads=512)
    return KernelProgram(
        regions=(Region(nbytes=LEAST_BYTES),),
        launches=(equal_blocks(block, 1, steps, gap_s=launch, fills_chip=False),),
        name="collective",
    )
