"""Decode step of a mix under a cut layout: kernels that read the cache priced with its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hwmodels.bandwidth.efficiency import memory_efficiency
from hwmodels.chip import ChipSpec
from simulator.cost.memory_rate import MemoryRate
from simulator.cost.price import Price
from simulator.cost.question import AskedStep
from simulator.cost.step_timer import StepTimer
from simulator.cost.tile import price_by_tiles
from simulator.cost.tile_plan import Values
from simulator.cost.timeline import layer_durations
from simulator.cost.traffic import Traffic
from simulator.layout.gather_runs import PoolRuns
from simulator.lower.kernel import Demand, Kernel
from simulator.lower.lowering import lower
from workloads.deepseek_v4.graph import build_graph
from workloads.graph import Graph, Node
from workloads.sharding import shard
from workloads.step_shape import StepShape

_POOL_OF_REGION = {"window": "window", "c4": "c4", "index": "c4_index", "c128": "c128"}


class LayoutStep:
    """Times one decode step of a deployment under layouts that differ in the runs they read.

    Assumes: a kernel of a calibrated family gains or loses, by the runs of another layout, as many
        picoseconds as the tile model says; its calibration is for the engine's own layout.
    Assumes: a step reads rows of the bytes that its precision gives (FP8: 584 and 132), in runs
        of the layout's efficiency, where an engine's own format is longer or shorter.
    Assumes: kernels do as many instructions whatever the pages are: tiles that a page leaves part
        empty are counted, not timed.
    """

    def __init__(self, asked: AskedStep, contexts: Sequence[int], own: Sequence[PoolRuns]) -> None:
        timer = StepTimer(asked.question, asked.config, asked.chip, asked.node)
        step = StepShape(tuple((1, context - 1) for context in contexts))
        layout = asked.question.layout
        graph = shard(
            build_graph(timer.config, step.split(layout.data), timer.precision), layout, step.tokens
        )
        self._timer = timer
        self._chip = asked.chip
        self._kernels = lower(graph, timer.target.profile, timer.stats)
        nodes = {node.path: node for node in graph.nodes}
        self._reads = [_cache_reads(kernel, nodes, graph, timer) for kernel in self._kernels]
        known: dict[Demand, Price] = {}
        for kernel in self._kernels:
            if kernel.demand not in known:
                known[kernel.demand] = timer.rule(kernel.demand, timer.target)
        self._prices = [known[kernel.demand] for kernel in self._kernels]
        self._own = _efficiencies(own)
        self._durations: dict[tuple[tuple[str, float], ...], int] = {}
        self._tiles: dict[object, int] = {}

    def total_ps(self, runs: Sequence[PoolRuns]) -> int:
        """Duration of the step on the busiest rank with these runs."""
        efficiency = _efficiencies(runs)
        key = tuple(sorted(efficiency.items()))
        if key not in self._durations:
            self._durations[key] = self._duration(efficiency)
        return self._durations[key]

    def _duration(self, efficiency: Mapping[str, float]) -> int:
        prices = [
            self._price(kernel, price, reads, efficiency) if reads else price
            for kernel, price, reads in zip(self._kernels, self._prices, self._reads, strict=True)
        ]
        durations = layer_durations(self._kernels, prices, self._chip)
        return sum(self._timer.repeats.get(scope, 1) * ps for scope, ps in durations.items())

    def _price(
        self,
        kernel: Kernel,
        price: Price,
        reads: Mapping[str, float],
        efficiency: Mapping[str, float],
    ) -> Price:
        run = self._tile_ps(kernel.demand, reads, efficiency)
        if price.calibrated:
            run = price.run_ps + run - self._tile_ps(kernel.demand, reads, self._own)
        memory = price.busy_ps.get("memory", 0) * max(0, run) // max(1, price.run_ps)
        return replace(price, run_ps=max(0, run), busy_ps={**price.busy_ps, "memory": memory})

    def _tile_ps(
        self, demand: Demand, reads: Mapping[str, float], efficiency: Mapping[str, float]
    ) -> int:
        used = tuple((pool, nbytes, efficiency[pool]) for pool, nbytes in reads.items())
        key = (demand, used)
        if key not in self._tiles:

            def rule(demand: Demand, moved: Traffic, chip: ChipSpec) -> MemoryRate:
                return _rate(used, moved, chip)

            self._tiles[key] = price_by_tiles(demand, self._timer.target, rule, "tile").run_ps
        return self._tiles[key]


def _efficiencies(runs: Sequence[PoolRuns]) -> dict[str, float]:
    return {run.pool: run.efficiency for run in runs}


def _cache_reads(
    kernel: Kernel, nodes: Mapping[str, Node], graph: Graph, timer: StepTimer
) -> dict[str, float]:
    """Distinct bytes that a kernel reads of the pools whose runs a layout decides."""
    found: dict[str, float] = {}
    for path in kernel.nodes:
        node = nodes[path]
        for read in graph.work(node, timer.stats).reads:
            region = graph.regions[node.regions[read.region]]
            pool = _POOL_OF_REGION.get(region.pool)
            if pool is not None and read.distinct:
                found[pool] = found.get(pool, 0.0) + region.format.nbytes * read.distinct
    return found


def _rate(reads: Sequence[tuple[str, float, float]], moved: Traffic, chip: ChipSpec) -> MemoryRate:
    """Rate of a kernel whose cache reads take the time of their runs, all else that of streams."""
    total = moved.dram_bytes
    written = moved.dram_write_bytes / total if total else 0.0
    stream = memory_efficiency(chip, None, written)
    cached = sum(nbytes for _, nbytes, _ in reads)
    time = max(0.0, total - cached) / stream + sum(nbytes / share for _, nbytes, share in reads)
    full = total / time * chip.hbm_bandwidth_bytes_per_s if time else chip.hbm_bandwidth_bytes_per_s

    def rate(in_flight_bytes: Values) -> Values:
        return np.minimum(full, in_flight_bytes / chip.dram_latency_s)

    return rate
