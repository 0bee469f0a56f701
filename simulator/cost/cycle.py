"""The cycle rung: memory time of a kernel from a window of its traffic, simulated burst by burst.

Everything else (units, latency, pipeline, launch) is as in the tile model.
"""

from __future__ import annotations

import numpy as np

from hwmodels.bandwidth.curve import rate_curve
from hwmodels.chip import ChipSpec
from simulator.cost.llc_reuse import fetch_factor
from simulator.cost.memory_mix import memory_mix
from simulator.cost.memory_rate import MemoryRate
from simulator.cost.price import Price, Target
from simulator.cost.tile import price_by_tiles
from simulator.cost.tile_plan import Values
from simulator.cost.traffic import Traffic
from simulator.lower.kernel import Demand


def cycle_price(demand: Demand, target: Target) -> Price:
    """Price by tiles, with memory as the burst-level model has the kernel's own mix of accesses.

    Assumes: kernels of calibrated engines are priced by tiles on this rung, as those of any other.
    """
    return price_by_tiles(demand, target, simulated_rate, "cycle")


def simulated_rate(demand: Demand, moved: Traffic, chip: ChipSpec) -> MemoryRate:
    """Rate in a closed loop: as many bytes in flight as the kernel's cores keep.

    Bytes that the last-level cache did not keep for their reuse come again, and slow the rest.

    Assumes: kernels side by side share the memory in proportion, each at the rate of its own mix.
    """
    if not moved.dram_bytes:
        return lambda in_flight_bytes: np.full_like(in_flight_bytes, np.inf, dtype=float)
    curve = rate_curve(chip, memory_mix(demand, moved))
    factor = fetch_factor(demand, moved, chip)

    def rate(in_flight_bytes: Values) -> Values:
        found: Values = np.interp(in_flight_bytes, curve.in_flight_bytes, curve.bytes_per_s)
        return found / factor

    return rate
