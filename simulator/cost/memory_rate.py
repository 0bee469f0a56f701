"""How fast device memory serves a kernel, by what it moves and how much it keeps in flight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hwmodels.bandwidth.efficiency import mix_efficiency
from hwmodels.chip import ChipSpec
from simulator.cost.memory_mix import memory_mix
from simulator.cost.tile_plan import Values
from simulator.cost.traffic import Traffic
from simulator.engine.kernel import Demand

# Bytes per second for numbers of bytes in flight over the whole chip.
MemoryRate = Callable[[Values], Values]
MemoryRule = Callable[[Demand, Traffic, ChipSpec], MemoryRate]


def table_rate(demand: Demand, moved: Traffic, chip: ChipSpec) -> MemoryRate:
    """Rate by the table of memory efficiency by pattern.

    Assumes: device memory delivers the share of its peak that the burst-level model gives to
        streams, gathers and mixes of reads and writes like the kernel's.
    Assumes: too few bytes in flight take the latency of an idle memory, and no more.
    """
    full = mix_efficiency(chip, memory_mix(demand, moved)) * chip.hbm_bandwidth_bytes_per_s

    def rate(in_flight_bytes: Values) -> Values:
        return np.minimum(full, in_flight_bytes / chip.dram_latency_s)

    return rate
