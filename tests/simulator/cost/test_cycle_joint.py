"""Kernels side by side: one window for all, simulated once, and what it costs each of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from hwmodels.bandwidth.curve import rate_curve
from hwmodels.bandwidth.mix import MixPart
from hwmodels.chip import find_chip
from simulator.cost.cycle import (
    cycle_price,
    cycle_prices,
    joint_factor,
    joint_factors,
    joint_prices,
)
from simulator.cost.cycle_window import Window
from simulator.cost.price import Price, Target
from simulator.cost.question import ask
from simulator.cost.step import cost_step
from simulator.cost.step_timer import StepTimer
from simulator.cost.timeline import timeline
from simulator.engine.kernel import Demand, Kernel, Operand
from simulator.engine.profile import find_profile
from workloads.graph import Graph
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape

B200 = find_chip("b200")
TARGET = Target(B200, None, find_profile("ideal"))
READS = Demand(family="read", weight_bytes=10**8)
EMPTY = Graph(StepShape(((1, 0),)), (), {}, {}, {}, (), {})
WRITES = Demand(family="write", outputs=(Operand(10**8),))


def full_rate(*parts: MixPart) -> float:
    return rate_curve(B200, parts).full_bytes_per_s


def kernel(demand: Demand, stream: int, after: tuple[int, ...] = ()) -> Kernel:
    return Kernel(
        name=demand.family, scope="layer", kind="csa", stream=stream, after=after, nodes=(),
        demand=demand,
    )  # fmt: skip


def priced(kernels: list[Kernel]) -> list[Price]:
    return cycle_prices(kernels, TARGET, EMPTY, RunStats())


@cache
def alone(demand: Demand) -> Price:
    return cycle_price(demand, TARGET)


def test_reads_beside_writes_turn_the_bus_around() -> None:
    read, write = MixPart(0, 0, False, 3.0), MixPart(0, 0, True, 1.0)
    reads, writes = Window((read,), {}), Window((write,), {})
    factor = joint_factor([reads, writes], B200)
    apart = 4 / (3 / full_rate(read) + 1 / full_rate(write))
    assert apart / full_rate(read, write) == pytest.approx(factor)
    assert 1.03 < factor < 1.15
    assert joint_factor([reads, reads], B200) == pytest.approx(1.0)
    assert joint_factor([writes, reads], B200) == pytest.approx(factor)


def test_the_factor_is_that_of_the_overlapping_part() -> None:
    both = [kernel(READS, 0), kernel(WRITES, 1)]
    factors = joint_factors(both, [alone(READS), alone(WRITES)], B200, {})
    assert factors[0] == pytest.approx(factors[1], abs=0.01)
    assert factors[0] > 1.03
    short = Demand(family="write", outputs=(Operand(2 * 10**7),))
    part = joint_factors([both[0], kernel(short, 1)], [alone(READS), alone(short)], B200, {})
    assert 1.0 < part[0] < part[1]  # the long one has most of its work on its own


def test_kernels_that_do_not_overlap_keep_their_prices() -> None:
    prices = [alone(READS), alone(WRITES)]
    for others in (
        [kernel(READS, 0), kernel(WRITES, 0)],
        [kernel(READS, 0), kernel(WRITES, 1, after=(0,))],
    ):
        assert joint_factors(others, prices, B200, {}) == {}
        assert priced(others) == prices
    quiet = [prices[0], replace(prices[1], contends=False)]
    assert joint_factors([kernel(READS, 0), kernel(WRITES, 1)], quiet, B200, {}) == {}


def test_the_layer_takes_longer_by_what_the_mix_costs() -> None:
    both = [kernel(READS, 0), kernel(WRITES, 1)]
    apart, prices = [alone(READS), alone(WRITES)], priced(both)
    ends = [max(t.end_ps for t in timeline(both, p, B200)) for p in (apart, prices)]
    factor = joint_factors(both, apart, B200, {})[0]
    assert ends[1] / ends[0] == pytest.approx(factor, rel=0.02)
    for before, after in zip(apart, prices, strict=True):
        assert after.traffic == before.traffic
        assert sum(after.causes_ps.values()) == after.alone_ps


def test_equal_layers_are_placed_once_and_equal_kernels_priced_once() -> None:
    asked: list[tuple[Demand, float]] = []

    def price_again(demand: Demand, slower: float) -> Price:
        asked.append((demand, slower))
        return cycle_price(demand, TARGET, None, slower)

    layers = [
        replace(one, scope=f"layer{i}")
        for i in range(3)
        for one in (kernel(READS, 0), kernel(WRITES, 1))
    ]
    prices = joint_prices(layers, [alone(k.demand) for k in layers], B200, {}, price_again)
    assert len(asked) == 2
    assert prices[:2] == prices[2:4] == prices[4:]


def test_the_timer_meets_the_whole_step() -> None:
    asked = ask(model="v4-flash", chip="b200", count=8, batch=32, context=9000, fidelity="cycle")
    whole = cost_step(asked)
    timer = StepTimer(asked)
    assert timer.asked_ps() == whole.total_ps
    assert any("side by side" in line for line in whole.assumptions)
