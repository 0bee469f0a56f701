"""Laws of priced kernels over chips, engines and phases, on the kernel lists of real steps."""

from __future__ import annotations

from functools import cache

import pytest

from hwmodels.chip import ChipSpec, find_chip
from hwmodels.node import find_node
from simulator.basis.errors import InputError
from simulator.cost.engine_price import engine_price
from simulator.cost.price import Price, Target
from simulator.cost.question import ask
from simulator.cost.result import StepResult
from simulator.cost.roofline import roofline_price
from simulator.cost.step import cost_step
from simulator.engine.kernel import Demand
from simulator.engine.lowering import lower
from simulator.engine.profile import find_profile, list_profiles
from tests.simulator.kernels.row_support import with_bandwidth, with_clock
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.layout_check import reduced_config
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape

ENGINES = ("ascend", "atom", "ideal", "sglang-0.5", "trtllm-1.3", "vllm-0.22", "vllm-0.33")
CHIPS = ("h200", "h20", "b200", "gb300", "mi355x", "ascend-910c")
STEPS = {
    "decode": (ParallelLayout(8), StepShape.uniform(64, 1, 131_071)),
    "one": (ParallelLayout(8), StepShape.uniform(1, 1, 4095)),
    "prefill": (ParallelLayout(8), StepShape.uniform(1, 8192, 0)),
    "mixed": (ParallelLayout(2, 4, 8), StepShape(((1, 4095), (700, 4000), (3, 0)) * 4)),
}


@cache
def demands(engine: str, phase: str, expert: str) -> tuple[Demand, ...]:
    """Distinct kernels of one layer of every kind."""
    layout, step = STEPS[phase]
    config = reduced_config(find_model("v4-flash"))
    graph = build_graph(config, step.split(layout.data), Precision(expert=expert))
    kernels = lower(shard(graph, layout, step.tokens), find_profile(engine), RunStats())
    return tuple(dict.fromkeys(kernel.demand for kernel in kernels))


def target(chip: ChipSpec, name: str, engine: str) -> Target:
    return Target(chip, find_node(name, 8), find_profile(engine))


def test_engines_that_ship() -> None:
    # Those left out of the laws differ in how they store the cache, not in their kernels.
    assert list_profiles() == sorted([*ENGINES, "sglang-0.5-cap", "sglang-ascend", "vllm-ascend"])
    with pytest.raises(InputError, match=r"unknown engine 'tensorrt'.*ascend.*sglang-0.5.*vllm"):
        find_profile("tensorrt")


@pytest.mark.parametrize("phase", STEPS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CHIPS)
def test_prices_obey_the_laws(name: str, engine: str, phase: str) -> None:
    chip = find_chip(name)
    own = target(chip, name, engine)
    faster = [target(f(chip, 1.5), name, engine) for f in (with_bandwidth, with_clock)]
    for expert in ("fp8", "fp4"):
        for demand in demands(engine, phase, expert):
            floor, price = roofline_price(demand, own), engine_price(demand, own)
            assert floor.alone_ps <= price.alone_ps
            assert floor.traffic == price.traffic
            assert_adds_up(price)
            for better in faster:
                assert engine_price(demand, better).alone_ps <= price.alone_ps * (1 + 1e-9) + 1


def assert_adds_up(price: Price) -> None:
    assert sum(price.causes_ps.values()) == price.alone_ps
    assert min(price.causes_ps.values(), default=1) > 0
    assert price.causes_ps.get("launch", 0) == price.launch_ps
    assert 0 < price.low <= 1 <= price.high
    assert all(0 < share <= 1 for share in price.shares.values())


def step_of(chip: str, engine: str, **changes: object) -> StepResult:
    given: dict[str, object] = {"model": "v4-flash", "count": 8, "chip": chip, "engine": engine}
    asked = ask(**{**given, **changes})  # type: ignore[arg-type]
    return cost_step(asked, must_fit=False)


@pytest.mark.parametrize("changes", [{"batch": 64, "context": 131072}, {"phase": "prefill"}])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chip", ["h200", "b200"])
def test_records_of_a_step(chip: str, engine: str, changes: dict[str, object]) -> None:
    result = step_of(chip, engine, **changes)
    for kernel in result.kernels:
        assert sum(kernel.causes_ps.values()) == kernel.duration_ps
        assert kernel.low_ps <= kernel.duration_ps <= kernel.high_ps
    assert result.low_ps < result.total_ps < result.high_ps
    counted = step_of(chip, engine, fidelity="roofline", **changes)
    for name in ("dram_read_bytes", "dram_write_bytes", "link_bytes", "total_flops"):
        assert sum(getattr(k, name) for k in result.kernels) == sum(
            getattr(k, name) for k in counted.kernels
        )
    assert len(counted.kernels) == len(result.kernels)
    assert counted.total_ps <= result.total_ps


@pytest.mark.parametrize("engine", ["sglang-0.5", "vllm-0.33"])
def test_calibrated_engines_are_surer_than_the_ideal_one(engine: str) -> None:
    own, ideal = step_of("h200", engine, batch=64), step_of("h200", "ideal", batch=64)
    assert own.high_ps / own.low_ps < 1.3
    assert ideal.high_ps / ideal.low_ps > 3
    assert not ideal.calibrated
    assert not any(kernel.calibrated for kernel in ideal.kernels)
    covered = sum(k.duration_ps for k in own.kernels if k.calibrated)
    assert covered > 0.9 * sum(k.duration_ps for k in own.kernels)


@pytest.mark.parametrize(("chip", "engine"), [("a100", "sglang-0.5"), ("mi355x", "vllm-0.33")])
def test_chips_without_calibration_say_so(chip: str, engine: str) -> None:
    result = step_of(chip, engine, batch=8)
    assert not any(kernel.calibrated for kernel in result.kernels)
    assert result.high_ps / result.low_ps > 1.3


def test_ascend_says_what_its_few_rows_are() -> None:
    result = step_of("ascend-910c", "ascend", batch=8)
    assert any("few of them" in note for note in result.notes)
    assert result.standing.kind == "same cores"
    assert 1.3 < result.high_ps / result.low_ps <= 4.001


@pytest.mark.parametrize("ep", [1, 8])
def test_expert_parallel_steps_move_tokens(ep: int) -> None:
    few, many = (
        {k.name: k for k in step_of("h200", "sglang-0.5", dp=8, ep=ep, batch=b, **more).kernels}
        for b, more in ((64, {}), (8, {"phase": "prefill", "context": 4096}))
    )
    for kernels in (few, many):
        assert {"dispatch", "experts", "combine"} <= kernels.keys()
        assert kernels["dispatch"].causes_ps["communication"] > 0
        assert kernels["dispatch"].priced_by == ("nccl_ring" if ep == 1 else "nccl_alltoall")
    assert few["dispatch"].duration_ps < many["dispatch"].duration_ps


def test_exchange_over_nodes_takes_longer() -> None:
    one, two = (
        step_of("h200", "sglang-0.5", count=count, dp=count, ep=count, batch=count * 8)
        for count in (8, 16)
    )
    times = [next(k for k in r.kernels if k.name == "dispatch").duration_ps for r in (one, two)]
    assert times[0] < times[1]
    assert not next(k for k in two.kernels if k.name == "dispatch").calibrated


def test_published_speed_of_vllm_is_near() -> None:
    """V4-Pro, vLLM, TP8 on B200, one request without speculation: 92.6 tokens/s measured."""
    result = step_of("b200", "vllm-0.33", model="v4-pro", batch=1, context=4096)
    assert 1 / result.seconds == pytest.approx(92.6, rel=0.15)
