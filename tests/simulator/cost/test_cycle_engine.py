"""Calibrated kernels at burst level: as their programs say, but for what the fit did not see."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hwmodels.chip import find_chip
from simulator.cost.cycle import cycle_price
from simulator.cost.cycle_addresses import Chosen, Picked
from simulator.cost.cycle_engine import calibrated_price, data_factor, stretched
from simulator.cost.engine_price import engine_price
from simulator.cost.price import Price, Target
from simulator.cost.question import ask
from simulator.cost.result import StepResult
from simulator.cost.roofline import roofline_price
from simulator.cost.step import cost_step, rank_graph
from simulator.cost.traffic import traffic
from simulator.engine.cache_runs import CacheRuns
from simulator.engine.kernel import Demand
from simulator.engine.lowering import lower
from simulator.engine.profile import find_profile
from workloads.deepseek_v4.precision import Precision
from workloads.run_stats import RecordedChoices, RunStats

B200 = find_chip("b200")
ASKED = {"model": "v4-flash", "chip": "b200", "count": 8, "batch": 64, "context": 8192}


@cache
def costed(fidelity: str, few_experts: bool = False, **options: object) -> StepResult:
    asked = ask(fidelity=fidelity, engine="sglang-0.5", **{**ASKED, **options})  # type: ignore[arg-type]
    stats = None
    if few_experts:
        ids = np.tile(np.arange(6), (64, 1))
        stats = RunStats.of(
            RecordedChoices(digest="6", picks={}, experts={"a": ids}, requests=np.arange(64))
        )
    return cost_step(asked, stats)


@cache
def demand(name: str) -> tuple[Demand, Target]:
    asked = ask(engine="sglang-0.5", **ASKED)  # type: ignore[arg-type]
    graph = rank_graph(asked.question, asked.config, Precision())
    target = Target(asked.chip, asked.node, find_profile("sglang-0.5"))
    kernels = lower(graph, target.profile, RunStats())
    return next(k.demand for k in kernels if k.name == name), target


def waits(price: Price) -> int:
    return price.causes_ps.get("dram_bandwidth", 0)


def test_the_machine_and_the_closed_forms_are_near_each_other() -> None:
    tile, cycle = costed("tile"), costed("cycle")
    for ours, theirs in zip(cycle.kernels, tile.kernels, strict=True):
        if ours.priced_by != "cycle":
            assert ours.priced_by == theirs.priced_by
            assert (ours.machine is None) == (theirs.priced_by == "tile")
            # Kernels beside them may slow them down, too.
            assert ours.duration_ps == pytest.approx(theirs.duration_ps, rel=0.25)
    assert cycle.total_ps == pytest.approx(tile.total_ps, rel=0.1)
    assert cycle.total_ps != tile.total_ps
    assert any("calibrated kernel waits" in line for line in cycle.assumptions)
    fp4 = costed("cycle", index_dtype="fp4")
    assert any("Index keys in fp4" in sentence for sentence in fp4.priced_as)


def test_recorded_experts_change_what_their_layer_waits_for() -> None:
    stated, few = costed("cycle"), costed("cycle", few_experts=True)
    for before, after in zip(stated.kernels, few.kernels, strict=True):
        if before.name == "experts":
            assert after.dram_read_bytes < 0.2 * before.dram_read_bytes
            assert after.causes_ps["dram_bandwidth"] < 0.2 * before.causes_ps["dram_bandwidth"]
            others = [
                {c: ps for c, ps in k.causes_ps.items() if c != "dram_bandwidth"}
                for k in (before, after)
            ]
            assert others[0] == others[1]


def test_neighbours_stretch_the_wait_for_memory_alone() -> None:
    experts, target = demand("experts")
    alone = cycle_price(experts, target)
    beside = cycle_price(experts, target, None, 1.1)
    assert alone.alone_ps == pytest.approx(engine_price(experts, target).alone_ps, rel=0.2)
    assert waits(beside) == round(1.1 * waits(alone))
    assert beside.alone_ps - alone.alone_ps == waits(beside) - waits(alone)
    assert sum(beside.causes_ps.values()) == beside.alone_ps
    assert beside.traffic == alone.traffic


def test_no_price_falls_below_the_roofline() -> None:
    experts, target = demand("experts")
    price, floor = engine_price(experts, target), roofline_price(experts, target).alone_ps
    least = stretched(price, 0.0, floor)
    assert least.alone_ps >= floor
    assert sum(least.causes_ps.values()) == least.alone_ps
    assert stretched(price, 1.0, floor) is price
    quiet = replace(price, causes_ps={"launch": price.alone_ps})
    assert stretched(quiet, 2.0, floor) is quiet


def test_kernels_of_no_program_are_priced_by_tiles() -> None:
    experts, target = demand("experts")
    assert calibrated_price(replace(experts, priced_as=None), target, None, 1.0) is None
    assert cycle_price(replace(experts, priced_as=None), target).priced_by == "cycle"


def test_the_data_counts_against_uniform_experts_and_scattered_picks() -> None:
    picked = CacheRuns(584, 10**8, 10**8, False)
    reads = Demand(family="attention", cache_read_bytes=10**8, cache_runs=(picked,))
    moved = traffic(reads, B200.llc_bytes)
    scattered = Picked(584, 64, 512, ((1, 32_768),) * 64, RunStats())
    near = np.random.default_rng(1).integers(0, 30_000, 64)[:, None] + np.arange(512)
    stats = RunStats.of(
        RecordedChoices(digest="near", picks={"a": near}, experts={}, requests=np.arange(64))
    )
    assert data_factor(reads, moved, B200, None) == 1
    assert data_factor(reads, moved, B200, scattered) == 1
    assert 0.9 < data_factor(reads, moved, B200, replace(scattered, stats=stats)) < 0.98
    assert data_factor(reads, moved, B200, Chosen(10**6, 8, RunStats(), 0.5)) == 0.5
