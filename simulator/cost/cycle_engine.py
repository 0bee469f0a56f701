"""Kernels of calibrated families on the simulated machine, and what their neighbours change.

The machine runs a kernel's programs alone, at scattered addresses. The burst-level model says what
other addresses and other kernels beside it change of its wait for memory.
"""

from __future__ import annotations

from dataclasses import replace

from hwmodels.chip import ChipSpec
from simulator.cost.cycle_addresses import Addresses, Chosen
from simulator.cost.cycle_window import kernel_window, window_curve
from simulator.cost.machine_price import machine_price
from simulator.cost.price import Price, Target
from simulator.cost.roofline import roofline_price
from simulator.cost.traffic import Traffic
from simulator.engine.kernel import Demand
from workloads.run_stats import RunStats


def calibrated_price(
    demand: Demand, target: Target, addresses: Addresses | None, slower: float
) -> Price | None:
    """Price by the program of an engine's kernel, its wait for memory stretched; None: by tiles.

    `slower` is a factor on the time of memory, of those that run beside the kernel.

    Assumes: what a calibrated kernel waits for memory bandwidth goes with the burst-level model's
        rate for its accesses, over that for accesses as it was measured with, alone and with
        scattered picks; memory time that other causes of the program cover stays covered.
    Assumes: recorded experts change the weights that a calibrated expert layer waits for in
        proportion to their number, and nothing of how its rows are cut into tiles.
    """
    price = machine_price(demand, target)
    if price is None:
        return None
    factor = slower * data_factor(demand, price.traffic, target.chip, addresses)
    return stretched(price, factor, roofline_price(demand, target).alone_ps)


def data_factor(
    demand: Demand, moved: Traffic, chip: ChipSpec, addresses: Addresses | None
) -> float:
    """Memory time with the choices of a run, over that with uniform experts, scattered picks.

    Weights of experts stream whichever are chosen: only their number changes the time.
    """
    if isinstance(addresses, Chosen):
        return addresses.of_uniform
    if addresses is None or not moved.dram_bytes:
        return 1.0
    usual, own = (
        window_curve(chip, kernel_window(demand, moved, each)).full_bytes_per_s
        for each in (replace(addresses, stats=RunStats()), addresses)
    )
    return usual / own


def stretched(price: Price, factor: float, floor_ps: int) -> Price:
    """The price with its wait for memory bandwidth times a factor, at least the roofline's time."""
    waits = price.causes_ps.get("dram_bandwidth", 0)
    change = max(round(waits * (factor - 1.0)), floor_ps - price.alone_ps)
    if not waits or not change:
        return price
    causes = {**price.causes_ps, "dram_bandwidth": waits + change}
    memory = round(price.busy_ps.get("memory", 0) * max(factor, 1.0))
    return replace(
        price,
        run_ps=price.run_ps + change,
        busy_ps={**price.busy_ps, "memory": memory},
        causes_ps=causes,
        machine=price.machine and price.machine.longer("memory", change),
    )
