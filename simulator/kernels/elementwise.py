"""Elementwise kernels (norms, RoPE, quantise, cache insert, compressor): bound by core cycles.

Their loads, conversions and stores go through the cores, so their time is bytes over what a core
moves a cycle, not bytes over memory bandwidth, unless memory is slower still.
"""

from __future__ import annotations

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.constant import Constant
from simulator.kernels.core_rates import vector_ops_per_clock
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.pipes import exposed
from simulator.kernels.warmth import memory_bytes_per_s, warm_share

MOVE = Constant(
    name="move",
    unit="B/clk",
    meaning="bytes that a core reads and writes a cycle in elementwise kernels",
    start=12.0,
    low=2.0,
    high=64.0,
)


def elementwise_parts(
    moved: Floats, operations: Floats, chip: ChipSpec, bytes_per_cycle: float
) -> Parts:
    """Seconds of one kernel that reads and writes `moved` bytes: launch + bytes over the cores.

    Assumes: what fits the last-level cache is there, written by the kernel before.
    Assumes: operations overlap with the bytes only partly: the root of the sum of the squares.
    """
    rate = chip.core_count * chip.clock_hz
    passed = moved / (bytes_per_cycle * rate)
    vector = np.hypot(passed, operations / (vector_ops_per_clock(chip) * rate))
    cold = moved * (1.0 - warm_share(moved, chip)) / memory_bytes_per_s(chip)
    return Parts(
        {
            "launch": np.full(moved.shape, chip.launch_gap_s),
            "vector": vector,
            "dram_bandwidth": exposed(cold, vector),
        }
    )
