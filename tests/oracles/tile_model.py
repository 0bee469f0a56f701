"""The tile model, kernel after kernel and formula by formula: what `tile_prices` has to give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hwmodels.bandwidth.efficiency import memory_efficiency, preset_efficiency, preset_of
from hwmodels.bandwidth.mix import Mix, mix_bytes, write_fraction
from hwmodels.chip import ChipSpec
from hwmodels.machine.live import to_ps
from simulator.cost.collectives import link_seconds
from simulator.cost.math_rate import CONVERT_OPS_PER_WEIGHT, product_rate
from simulator.cost.memory_mix import memory_mix
from simulator.cost.price import Price, Target
from simulator.cost.roofline import roofline_price
from simulator.cost.tile import pipelined_ps, tile_causes
from simulator.cost.tile_buffers import running_cores
from simulator.cost.traffic import Traffic
from simulator.engine.kernel import Demand
from simulator.kernels.constants_file import constants_for
from tests.oracles.tile_plan import TilePlan, Values, tile_plans

# Bytes per second for numbers of bytes in flight over the whole chip.
MemoryRate = Callable[[Values], Values]
MemoryRule = Callable[[Demand, Traffic, ChipSpec], MemoryRate]
_UNITS = ("matrix", "vector", "special", "link")


def tile_price(demand: Demand, target: Target) -> Price:
    """Price by tiles, with memory as the table of its efficiency by pattern has it."""
    return price_by_tiles(demand, target, table_rate, "tile")


def price_by_tiles(demand: Demand, target: Target, memory: MemoryRule, priced_by: str) -> Price:
    """Launch gap + memory latency + a pipeline of loads and units, for the best way to cut."""
    floor = roofline_price(demand, target)
    plans = tile_plans(demand, target.profile, target.chip)
    rate = memory(demand, floor.traffic, target.chip)
    best = plans.chosen(_fastest(demand, plans, target, floor, rate))
    return replace(_price(demand, best, target, floor, rate), priced_by=priced_by)


def _fastest(
    demand: Demand, plans: TilePlan, target: Target, floor: Price, rate: MemoryRate
) -> int:
    """Which plan takes the least time; all are compared at once."""
    if np.ndim(plans.units) == 0:
        return 0
    cores, _ = running_cores(demand, target.chip)
    waves = np.ceil(plans.units / cores)
    idle = waves * cores / plans.units
    units = _unit_seconds(demand, plans, target, idle).items()
    loads = _load_seconds(demand, floor.traffic, plans, target, rate).items()
    stages = [np.maximum(s, floor.busy_ps[name] * 1e-12) for name, s in (*loads, *units)]
    chunks = waves * plans.steps
    run = (sum(stages) + (chunks - 1) * _longest(stages)) / chunks
    return int(np.argmin(run))


def _longest(stages: Sequence[Values]) -> Values:
    longest = stages[0]
    for stage in stages[1:]:
        longest = np.maximum(longest, stage)
    return longest


def _price(demand: Demand, plan: TilePlan, target: Target, floor: Price, rate: MemoryRate) -> Price:
    chip = target.chip
    cores, _ = running_cores(demand, chip)
    waves = math.ceil(plan.units / cores)
    idle = waves * cores / plan.units
    seconds = _unit_seconds(demand, plan, target, idle)
    units = {unit: max(to_ps(float(seconds[unit])), floor.busy_ps[unit]) for unit in _UNITS}
    loads = {
        name: max(to_ps(float(load)), floor.busy_ps[name])
        for name, load in _load_seconds(demand, floor.traffic, plan, target, rate).items()
    }
    far = floor.traffic.dram_bytes > 0
    latency = to_ps(chip.dram_latency_s if far else chip.llc_latency_s)
    chunks = waves * float(plan.steps)
    stages = loads | units
    pipelined = pipelined_ps(list(stages.values()), chunks)
    fed = to_ps(float(_feed_seconds(plan, chip, idle)))
    causes = tile_causes(pipelined, stages, chunks, floor, fed)
    cause = "dram_latency" if far else "llc"
    causes[cause] = causes.get(cause, 0) + latency
    source = "memory" if far else "llc"
    start = _reached(demand, target).get("start_us")
    launch = floor.busy_ps["launch"] if start is None else to_ps(start * 1e-6)
    causes["launch"] = launch
    busy = {**units, **loads, source: loads[source] + latency, "launch": launch}
    return Price(
        run_ps=latency + pipelined,
        busy_ps=busy,
        traffic=floor.traffic,
        causes_ps=causes,
        priced_by="tile",
        cut=plan.cut,
        work=_work(demand, plan, chip),
    )


def _reached(demand: Demand, target: Target) -> dict[str, float]:
    """Shares of peaks, and the start, of the family that the kernel's entry names; else none."""
    if demand.priced_as is None:
        return dict.fromkeys(("cube", "vector", "memory", "link"), 1.0)
    (rule,) = target.kernels[demand.priced_as.kernel].families
    return dict(constants_for(rule.family, target.chip).values)


def _work(demand: Demand, plan: TilePlan, chip: ChipSpec) -> dict[str, float]:
    """Multiply-adds with filled tiles, bytes that tiles fetch again, and converted values."""
    useful = float(sum(product.macs for product in demand.products))
    padded = sum(
        max(float(own), product.macs)
        for own, product in zip(plan.padded_macs, demand.products, strict=True)
    )
    converted = sum(
        product.weight_elements * max(float(uses), 1.0)
        for uses, product in zip(plan.weight_uses, demand.products, strict=True)
        if product_rate(chip, product).convert
    )
    return {
        "macs": float(padded),
        "tile_padding_macs": float(padded) - useful,
        "reread_bytes": float(plan.extra_llc_bytes),
        "converted_values": float(converted),
    }


def _unit_seconds(
    demand: Demand, plan: TilePlan, target: Target, idle: Values
) -> dict[str, Values]:
    """Time of each unit with padding, empty places in the last wave and repeated conversions."""
    chip = target.chip
    reached = _reached(demand, target)
    elementwise = chip.vector_flops_per_s / 2 * reached["vector"]
    matrix_clock = min(1.0, chip.clock_hz / chip.peak_clock_hz)
    seconds: dict[str, Values] = {
        "matrix": 0.0,
        "vector": idle * demand.vector_ops / elementwise,
        "special": idle * demand.special_ops / (chip.special_ops_per_s * reached["vector"]),
        "link": link_seconds(demand, target.node) / reached["link"],
    }
    for i, product in enumerate(demand.products):
        rate = product_rate(chip, product)
        slower = matrix_clock if rate.unit == "matrix" else 1.0
        macs = np.maximum(plan.padded_macs[i], product.macs)
        seconds[rate.unit] += (
            idle
            * 2
            * macs
            / (rate.flops_per_s * slower * reached["cube" if rate.unit == "matrix" else "vector"])
        )
        if rate.convert:
            weights = product.weight_elements * np.maximum(plan.weight_uses[i], 1.0)
            seconds["vector"] += idle * CONVERT_OPS_PER_WEIGHT * weights / elementwise
    seconds["matrix"] = np.maximum(seconds["matrix"], _feed_seconds(plan, chip, idle))
    return seconds


def _feed_seconds(plan: TilePlan, chip: ChipSpec, idle: Values) -> Values:
    """Time of cube cores to fill their L0 buffers, beside which they multiply; else nothing."""
    return idle * plan.feed_clocks / (chip.core_count * chip.clock_hz)


def _load_seconds(
    demand: Demand, moved: Traffic, plan: TilePlan, target: Target, rate: MemoryRate
) -> dict[str, Values]:
    """Time of device memory and of last-level cache, with only as many cores as have a block."""
    chip = target.chip
    most, buffer_bytes = running_cores(demand, chip)
    cores = np.minimum(plan.units, most)
    in_flight = cores * buffer_bytes / 2
    dram = rate(in_flight) if moved.dram_bytes else np.inf
    dram = dram * _reached(demand, target)["memory"]
    llc = chip.llc_bandwidth_bytes_per_s * cores / most
    return {
        "memory": moved.dram_bytes / dram,
        "llc": (moved.llc_bytes + plan.extra_llc_bytes) / llc,
    }


def table_rate(demand: Demand, moved: Traffic, chip: ChipSpec) -> MemoryRate:
    """Rate by the table of memory efficiency by pattern."""
    full = mix_efficiency(chip, memory_mix(demand, moved)) * chip.hbm_bandwidth_bytes_per_s

    def rate(in_flight_bytes: Values) -> Values:
        return np.minimum(full, in_flight_bytes / chip.dram_latency_s)

    return rate


def mix_efficiency(chip: ChipSpec, mix: Mix) -> float:
    """Useful share of the peak for patterns side by side, each in the time that it takes alone."""
    total = mix_bytes(mix)
    if not total:
        return memory_efficiency(chip)
    written, preset = write_fraction(mix), preset_of(chip)
    time = sum(
        part.nbytes / preset_efficiency(preset, part.run_bytes or None, written) for part in mix
    )
    return total / time
