"""The cycle rung: between the roofline and the sum of its parts, near the tile rung, repeatable."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from hwmodels.bandwidth import curve as curve_module
from hwmodels.bandwidth.mix import mix_bytes
from hwmodels.chip import find_chip
from simulator.cost.cycle import simulated_rate
from simulator.cost.llc_reuse import fetch_factor
from simulator.cost.memory_mix import memory_mix
from simulator.cost.question import ask
from simulator.cost.result import StepResult
from simulator.cost.step import cost_step
from simulator.cost.traffic import traffic
from simulator.engine.cache_runs import CacheRuns
from simulator.engine.kernel import Demand, Operand
from tests.oracles.tile_model import table_rate

PRO = {
    "model": "v4-pro",
    "chip": "b200",
    "count": 8,
    "batch": 64,
    "context": 131_072,
    "engine": "ideal",
}


def costed(fidelity: str, **options: object) -> StepResult:
    asked = ask(fidelity=fidelity, **{**PRO, **options})  # type: ignore[arg-type]
    return cost_step(asked)


@cache
def rungs() -> dict[str, StepResult]:
    return {fidelity: costed(fidelity) for fidelity in ("roofline", "tile", "cycle")}


def test_a_cold_step_and_a_remembered_one_are_the_same_to_the_picosecond(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(curve_module, "_known", {})
    first = costed("cycle")
    monkeypatch.setattr(curve_module, "_known", {})
    assert costed("cycle").kernels == first.kernels == rungs()["cycle"].kernels


def test_the_rungs_price_the_same_kernels_with_the_same_bytes() -> None:
    roofline, tile, cycle = rungs().values()
    for low, middle, high in zip(roofline.kernels, tile.kernels, cycle.kernels, strict=True):
        assert low.path == middle.path == high.path
        assert low.dram_bytes == middle.dram_bytes == high.dram_bytes
        assert low.duration_ps <= high.duration_ps
        assert middle.duration_ps == pytest.approx(high.duration_ps, rel=0.05)
        assert sum(high.causes_ps.values()) == high.duration_ps or len(high.stretches) > 1
    assert tile.total_ps == pytest.approx(cycle.total_ps, rel=0.02)
    assert {kernel.priced_by for kernel in cycle.kernels} == {"cycle"}


def test_parts_of_the_mix_add_up_to_the_traffic() -> None:
    demand = Demand(
        family="attention",
        inputs=(Operand(1000), Operand(50, 10)),
        outputs=(Operand(300),),
        weight_bytes=5000,
        cache_read_bytes=58_400,
        cache_write_bytes=584,
        cache_runs=(CacheRuns(584, 58_400, 70_000, False), CacheRuns(584, 584, 584, True)),
    )
    moved = traffic(demand, 10**6)
    mix = memory_mix(demand, moved)
    assert mix_bytes(mix) == moved.dram_bytes
    assert {(part.run_bytes, part.written): part.nbytes for part in mix} == {
        (0, False): 6000, (0, True): 300, (584, False): 58_400, (584, True): 584,
    }  # fmt: skip


@pytest.mark.parametrize("run", [4096, 8448, 37_376])
@pytest.mark.parametrize("name", ["h100", "h200", "b200", "mi300x", "ascend-910c"])
def test_tile_and_cycle_agree_within_five_per_cent_for_long_runs(name: str, run: int) -> None:
    chip = find_chip(name)
    demand = Demand(
        family="attention",
        weight_bytes=10**7,
        cache_read_bytes=10**8,
        cache_runs=(CacheRuns(run, 10**8, 10**8, False),),
    )
    moved = traffic(demand, chip.llc_bytes)
    enough = chip.core_count * chip.smem_bytes_per_core / 2
    table, simulated = (rule(demand, moved, chip)(enough) for rule in (table_rate, simulated_rate))
    assert table == pytest.approx(simulated, rel=0.05)


def test_lowering_divides_every_cache_byte_by_pattern() -> None:
    from simulator.cost.step import rank_graph
    from simulator.engine.lowering import lower
    from simulator.engine.profile import find_profile
    from workloads.deepseek_v4.precision import Precision
    from workloads.run_stats import RunStats

    asked = ask(fidelity="cycle", **PRO)  # type: ignore[arg-type]
    graph = rank_graph(asked.question, asked.config, Precision())
    sizes = set()
    for kernel in lower(graph, find_profile("ideal"), RunStats()):
        demand = kernel.demand
        reads = [run for run in demand.cache_runs if not run.written]
        assert sum(run.nbytes for run in reads) == demand.cache_read_bytes
        assert sum(run.touch_bytes for run in reads) == demand.cache_touch_bytes
        written = sum(run.nbytes for run in demand.cache_runs if run.written)
        assert written == demand.cache_write_bytes
        if kernel.name in ("core", "index_score"):
            sizes |= {(kernel.name, run.run_bytes) for run in reads}
        assert fetch_factor(demand, traffic(demand, asked.chip.llc_bytes), asked.chip) == 1
    # Pages of 128 tokens: picked entries, one of a C128 page, 128 rows of a window, 32 index keys.
    assert {("core", 584), ("core", 128 * 584), ("index_score", 32 * 132)} <= sizes
