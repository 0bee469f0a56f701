"""The cycle rung: memory time of a kernel from a window of its traffic, simulated burst by burst.

Everything else (units, latency, pipeline, launch) is as in the tile model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwmodels.bandwidth.curve import rate_curve
from hwmodels.chip import ChipSpec
from simulator.cost.cycle_joint import joint_prices
from simulator.cost.llc_reuse import fetch_factor
from simulator.cost.memory_mix import memory_mix
from simulator.cost.memory_rate import MemoryRate
from simulator.cost.price import Price, Target
from simulator.cost.tile import price_by_tiles
from simulator.cost.tile_plan import Values
from simulator.cost.traffic import Traffic
from simulator.lower.kernel import Demand, Kernel


def cycle_prices(kernels: Sequence[Kernel], target: Target) -> list[Price]:
    """Price of every kernel of a step; those that run side by side go through memory together."""
    known: dict[Demand, Price] = {}
    for kernel in kernels:
        if kernel.demand not in known:
            known[kernel.demand] = cycle_price(kernel.demand, target)
    prices = [known[kernel.demand] for kernel in kernels]
    return joint_prices(
        kernels, prices, target.chip, lambda demand, slower: cycle_price(demand, target, slower)
    )


def cycle_price(demand: Demand, target: Target, slower: float = 1.0) -> Price:
    """Price by tiles, with memory as the burst-level model has the kernel's own mix of accesses.

    `slower` is a factor on the time of memory, of those that run beside the kernel.

    Assumes: kernels of calibrated engines are priced by tiles on this rung, as those of any other.
    """

    def memory(demand: Demand, moved: Traffic, chip: ChipSpec) -> MemoryRate:
        own = simulated_rate(demand, moved, chip)
        return lambda in_flight_bytes: own(in_flight_bytes) / slower

    return price_by_tiles(demand, target, memory, "cycle")


def simulated_rate(demand: Demand, moved: Traffic, chip: ChipSpec) -> MemoryRate:
    """Rate in a closed loop: as many bytes in flight as the kernel's cores keep.

    Bytes that the last-level cache did not keep for their reuse come again, and slow the rest.
    """
    if not moved.dram_bytes:
        return lambda in_flight_bytes: np.full_like(in_flight_bytes, np.inf, dtype=float)
    curve = rate_curve(chip, memory_mix(demand, moved))
    factor = fetch_factor(demand, moved, chip)

    def rate(in_flight_bytes: Values) -> Values:
        found: Values = np.interp(in_flight_bytes, curve.in_flight_bytes, curve.bytes_per_s)
        return found / factor

    return rate
