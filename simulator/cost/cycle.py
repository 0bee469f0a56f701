"""The cycle rung: memory time of a kernel from a window of its traffic, simulated burst by burst.

Everything else (units, latency, pipeline, launch) is as in the tile model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hwmodels.chip import ChipSpec
from hwmodels.llc.accesses import stated_picks
from hwmodels.llc.spec import chip_cache
from simulator.cost.cycle_addresses import Addresses, Chosen, Picked, addresses_of, again_share
from simulator.cost.cycle_engine import calibrated_price
from simulator.cost.cycle_joint import joint_factor, joint_prices
from simulator.cost.cycle_window import joined_windows, kernel_window, stack_pieces, window_curve
from simulator.cost.llc_reuse import fetch_factor
from simulator.cost.price import Price, Target
from simulator.cost.roofline import Floats
from simulator.cost.tile import MemoryRate, tile_prices
from simulator.cost.traffic import Traffic, traffic
from simulator.engine.kernel import Demand, Kernel
from workloads.graph import Graph
from workloads.run_stats import RunStats


def cycle_prices(
    kernels: Sequence[Kernel], target: Target, graph: Graph, stats: RunStats
) -> list[Price]:
    """Price of every kernel of a step; those that run side by side go through memory together."""
    addresses = addresses_of(kernels, graph, stats)

    def price(demand: Demand, slower: float = 1.0) -> Price:
        return cycle_price(demand, target, addresses.get(demand), slower)

    known: dict[Demand, Price] = {}
    for kernel in kernels:
        if kernel.demand not in known:
            known[kernel.demand] = price(kernel.demand)
    prices = [known[kernel.demand] for kernel in kernels]
    return joint_prices(kernels, prices, target.chip, addresses, price)


def cycle_price(
    demand: Demand, target: Target, addresses: Addresses | None = None, slower: float = 1.0
) -> Price:
    """Price by tiles, with memory as the burst-level model has the kernel's own mix of accesses.

    `slower` is a factor on the time of memory, of those that run beside the kernel. A kernel of a
    calibrated family keeps the price of its program, but for what the burst-level model adds.
    """
    calibrated = calibrated_price(demand, target, addresses, slower)
    if calibrated is not None:
        return calibrated

    moved = traffic(demand, target.chip.llc_bytes)
    own = simulated_rate(demand, moved, target.chip, addresses)
    rates = [lambda in_flight_bytes: own(in_flight_bytes) / slower]
    return tile_prices([demand], target, rates, "cycle")[0]


def simulated_rate(
    demand: Demand, moved: Traffic, chip: ChipSpec, addresses: Addresses | None = None
) -> MemoryRate:
    """Rate in a closed loop: as many bytes in flight as the kernel's cores keep.

    Bytes that the last-level cache did not keep for their reuse come again, and slow the rest.
    """
    if not moved.dram_bytes:
        return lambda in_flight_bytes: np.full_like(in_flight_bytes, np.inf, dtype=float)
    curve = window_curve(chip, kernel_window(demand, moved, addresses))
    factor = addressed_fetch_factor(demand, moved, chip, addresses)

    def rate(in_flight_bytes: Floats) -> Floats:
        found: Floats = np.interp(in_flight_bytes, curve.in_flight_bytes, curve.bytes_per_s)
        return found / factor

    return rate


def addressed_fetch_factor(
    demand: Demand, moved: Traffic, chip: ChipSpec, addresses: Addresses | None
) -> float:
    """Bytes from and to memory over those that the traffic counts, by the picks where known."""
    if not isinstance(addresses, Picked):
        return fetch_factor(demand, moved, chip)
    runs, picked_bytes = [], 0
    for run in demand.cache_runs:
        if (run.run_bytes, run.written) == addresses.pattern:
            picked_bytes += run.nbytes
            run = replace(run, touch_bytes=run.nbytes)
        runs.append(run)
    others = fetch_factor(replace(demand, cache_runs=tuple(runs)), moved, chip)
    again = picked_bytes * again_share(addresses, chip_cache(chip))
    return others + again / max(moved.dram_bytes, 1)


# What stands behind a result of this rung, beyond the tile model.
ASSUMED_BY_CYCLE: tuple[object, ...] = (
    joint_prices, joint_factor, joined_windows, stack_pieces, Picked.runs, Chosen.runs,
    simulated_rate, stated_picks,
)  # fmt: skip
