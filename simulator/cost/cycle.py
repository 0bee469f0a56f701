"""The cycle rung: memory time of a kernel from a window of its traffic, simulated burst by burst.

Everything else (units, latency, pipeline, launch) is as in the tile model. Kernels that run side by
side meet in memory, in two passes over a layer: kernels are placed by their own prices; every set
that then runs at the same time is simulated once as one mix; its kernels are priced again, slower
by what the mix costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from hwmodels.chip import ChipSpec
from hwmodels.llc.accesses import stated_picks
from hwmodels.llc.spec import chip_cache
from simulator.cost.cycle_addresses import Addresses, Chosen, Picked, addresses_of, again_share
from simulator.cost.cycle_engine import calibrated_price
from simulator.cost.cycle_window import (
    Window,
    joined_windows,
    kernel_window,
    stack_pieces,
    window_curve,
)
from simulator.cost.llc_reuse import fetch_factor
from simulator.cost.price import Price, Target
from simulator.cost.roofline import Floats
from simulator.cost.tile import MemoryRate, tile_prices
from simulator.cost.timeline import Placed, simulate_layer
from simulator.cost.traffic import Traffic, traffic
from simulator.engine.kernel import Demand, Kernel
from workloads.graph import Graph
from workloads.run_stats import RunStats

# Addresses of kernels by demand, and the price of a kernel whose memory is slower by a factor.
AddressesOf = Mapping[Demand, Addresses]
PriceAgain = Callable[[Demand, float], Price]


def joint_prices(
    kernels: Sequence[Kernel],
    prices: Sequence[Price],
    chip: ChipSpec,
    addresses: AddressesOf,
    price_again: PriceAgain,
) -> list[Price]:
    """Prices with what kernels of different streams cost each other in memory.

    Assumes: which kernels run side by side is decided by their own prices; what their mix costs
        them is not used to place them anew a third time.
    Assumes: a kernel that runs beside others for a part of its work is slower by that part's share.
    """
    known: dict[object, list[Price]] = {}
    repriced: dict[tuple[Demand, float], Price] = {}
    found: list[Price] = []
    for own, own_prices in _layers(kernels, prices):
        key = tuple(kernel.signature for kernel in own)
        if key not in known:
            known[key] = list(own_prices)
            for i, factor in joint_factors(own, own_prices, chip, addresses).items():
                again = (own[i].demand, factor)
                if again not in repriced:
                    repriced[again] = price_again(*again)
                known[key][i] = repriced[again]
        found += known[key]
    return found


def _layers(
    kernels: Sequence[Kernel], prices: Sequence[Price]
) -> Iterator[tuple[list[Kernel], list[Price]]]:
    """Kernels of one scope with their prices."""
    for _, group in groupby(range(len(kernels)), key=lambda i: kernels[i].scope):
        members = list(group)
        yield [kernels[i] for i in members], [prices[i] for i in members]


def joint_factors(
    kernels: Sequence[Kernel],
    prices: Sequence[Price],
    chip: ChipSpec,
    addresses: AddressesOf,
) -> dict[int, float]:
    """Factors on the memory time of the kernels of a layer that share memory, by position."""
    if len({kernel.stream for kernel in kernels}) < 2:
        return {}
    windows: dict[int, Window] = {}
    for i, (kernel, price) in enumerate(zip(kernels, prices, strict=True)):
        if price.traffic.dram_bytes and "memory" in price.shares:
            window = kernel_window(kernel.demand, price.traffic, addresses.get(kernel.demand))
            windows[i] = window.rated(window.nbytes / price.run_ps)
    factors: dict[int, float] = {}
    for members, shares in _side_by_side(simulate_layer(kernels, prices, chip), set(windows)):
        slower = joint_factor([windows[i] for i in members], chip)
        for i, share in zip(members, shares, strict=True):
            factors[i] = factors.get(i, 1.0) + share * (slower - 1.0)
    return {i: round(factor, 6) for i, factor in factors.items() if round(factor, 6) != 1.0}


def _side_by_side(
    places: Sequence[Placed], sharing: set[int]
) -> Iterator[tuple[list[int], list[float]]]:
    """Kernels that share memory for a stretch, and how much of its work each does in it.

    A start or an end cuts the stretches of all that run, so that those of one set are equal.
    """
    stretches: dict[tuple[int, int], dict[int, float]] = {}
    for i in sorted(sharing):
        for stretch in places[i].stretches:
            stretches.setdefault((stretch.start_ps, stretch.end_ps), {})[i] = stretch.share
    for _, members in sorted(stretches.items()):
        if len(members) > 1:
            yield list(members), list(members.values())


def joint_factor(windows: Sequence[Window], chip: ChipSpec) -> float:
    """Memory time of windows together, over the sum of their times one after the other.

    Assumes: kernels side by side put their accesses into the memory's queues in proportion to the
        bytes a second that each moves on its own; together they have as many streams as the chip
        has cores, and what their mix costs is that of a memory with enough in flight.
    """

    def seconds(window: Window) -> float:
        return window.nbytes / window_curve(chip, window).full_bytes_per_s

    return seconds(joined_windows(windows)) / sum(seconds(window) for window in windows)


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
