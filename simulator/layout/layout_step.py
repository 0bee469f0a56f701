"""Decode step of a mix under another physical layout: the step, its rows stored otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.cost.engine_price import kernel_prices
from simulator.cost.price import Price
from simulator.cost.question import AskedStep
from simulator.cost.step_timer import StepTimer
from simulator.cost.timeline import layer_durations
from simulator.engine.kernel import Demand
from simulator.engine.lowering import lower
from simulator.engine.physical_layout import CacheGeometry, PhysicalLayout, PoolGeometry
from workloads.deepseek_v4.graph import build_graph
from workloads.sharding import shard
from workloads.step_shape import StepShape


class LayoutStep:
    """Times one decode step of a deployment whose cache rows are stored as several layouts say.

    The kernels are those of the engine: they read runs of the layout's rows and pages, and fill the
    tiles that its pages allow.
    """

    def __init__(self, asked: AskedStep, contexts: Sequence[int], neighbours: float) -> None:
        timer = StepTimer(asked)
        step = StepShape(tuple((1, context - 1) for context in contexts))
        layout = asked.question.layout
        whole = build_graph(timer.config, step.split(layout.data), timer.precision)
        self._graph = shard(whole, layout, step.tokens)
        self._timer, self._neighbours = timer, neighbours
        self._durations: dict[tuple[PoolGeometry, ...], int] = {}
        self._prices: dict[Demand, Price] = {}

    def total_ps(self, cut: CacheGeometry) -> int:
        """Duration of the step on the busiest rank with rows stored so."""
        if cut.pools not in self._durations:
            self._durations[cut.pools] = self._duration(cut)
        return self._durations[cut.pools]

    def _duration(self, cut: CacheGeometry) -> int:
        timer = self._timer
        pools = {pool.name: pool for pool in cut.pools}
        physical = PhysicalLayout(cut.layout, pools, self._neighbours)
        kernels = lower(self._graph, timer.target.profile, timer.stats, physical=physical)
        new = [kernel.demand for kernel in kernels if kernel.demand not in self._prices]
        self._prices |= kernel_prices(new, timer.target, timer.question.fidelity)
        prices = [self._prices[kernel.demand] for kernel in kernels]
        durations = layer_durations(kernels, prices, timer.target.chip)
        return sum(timer.repeats.get(scope, 1) * ps for scope, ps in durations.items())
