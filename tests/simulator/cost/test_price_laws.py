"""Laws of every kernel on every chip: the roofline is a bound, more hardware never hurts."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.chip import ChipSpec, find_chip, list_chips
from hwmodels.node import find_node
from simulator.cost.price import Target
from simulator.cost.roofline import roofline_price
from simulator.cost.tile import tile_price
from simulator.engine.kernel import Demand, Operand, Product, Shape
from simulator.engine.lowering import lower
from simulator.engine.profile import find_profile
from tests.simulator.cost.made_up import changed, made_up_chip, target
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape

UNITS = ("matrix", "vector", "special", "link", "memory", "llc")


@cache
def model_demands() -> tuple[Demand, ...]:
    """Distinct kernels of several steps."""
    demands: dict[Demand, None] = {}
    for model, layout, step in (
        ("v4-flash", ParallelLayout(8), StepShape.uniform(64, 1, 131_071)),
        ("v4-pro", ParallelLayout(1, 8, 8), StepShape.uniform(8, 1, 4095)),
        ("v4-flash", ParallelLayout(2, 2, 4), StepShape.uniform(2, 2048, 0)),
        ("tiny", ParallelLayout(), StepShape.uniform(3, 1, 300)),
    ):
        for index in ("fp8", "fp4"):
            graph = build_graph(find_model(model), step.split(layout.data), Precision(index=index))
            kernels = lower(shard(graph, layout, step.tokens), find_profile("ideal"), RunStats())
            demands |= dict.fromkeys(kernel.demand for kernel in kernels)
    return tuple(demands)


@pytest.mark.parametrize("name", list_chips())
def test_roofline_bounds_every_kernel_of_the_models(name: str) -> None:
    chip = find_chip(name)
    own = Target(chip, find_node(name, 8), find_profile("ideal"))
    for demand in model_demands():
        assert_bounds(demand, own)


def assert_bounds(demand: Demand, own: Target) -> None:
    floor, price = roofline_price(demand, own), tile_price(demand, own)
    assert floor.alone_ps <= price.alone_ps
    assert floor.traffic == price.traffic
    assert floor.run_ps == max(floor.busy_ps[unit] for unit in UNITS)
    assert all(floor.busy_ps[unit] <= price.busy_ps[unit] for unit in UNITS)
    assert price.run_ps >= max(price.busy_ps[unit] for unit in UNITS)
    assert price.run_ps <= sum(price.busy_ps[unit] for unit in UNITS)
    assert all(0 < share <= 1 for share in price.shares.values())
    for each in (floor, price):
        assert sum(each.causes_ps.values()) == each.alone_ps
        assert min(each.causes_ps.values(), default=1) > 0
        assert each.causes_ps.get("launch", 0) == each.launch_ps


sizes = st.integers(1, 20_000)
operands = st.tuples(st.builds(Operand, st.integers(1, 10**9), st.none() | st.integers(0, 10**9)))


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    products = []
    for _ in range(draw(st.integers(0, 2))):
        count, rows, columns, depth = (draw(sizes) for _ in range(4))
        shape = draw(st.sampled_from(Shape))
        products.append(
            Product(
                shape=shape,
                math=draw(st.sampled_from(["bf16", "fp8", "fp8xfp4", "fp4_index", "fp32"])),
                count=count,
                rows=rows,
                columns=columns,
                depth=depth,
                macs=count * rows * columns * depth,
                weight_elements=columns * depth,
                partial_columns=columns if shape is Shape.MATRIX else depth // 2,
            )
        )
    return Demand(
        family="any",
        products=tuple(products),
        vector_ops=draw(st.integers(0, 10**11)),
        special_ops=draw(st.integers(0, 10**10)),
        inputs=draw(operands),
        outputs=draw(operands),
        weight_bytes=draw(st.integers(0, 10**10)),
        cache_read_bytes=draw(st.integers(0, 10**9)),
        cache_touch_bytes=draw(st.integers(0, 10**10)),
        cache_write_bytes=draw(st.integers(0, 10**8)),
        link_bytes=draw(st.integers(0, 10**8)),
        link_phases=draw(st.integers(0, 3)),
        link_ranks=8,
        link_span=8,
    )


@st.composite
def chips(draw: st.DrawFn) -> ChipSpec:
    def rate(low: float, high: float) -> int:
        return int(draw(st.floats(low, high)))

    cores = {"scratchpad": draw(st.integers(10**4, 10**6))}
    if draw(st.booleans()):
        # Cube cores that hold at least the smallest tile, 16 x 64 x 128.
        cores = {
            "scratchpad": draw(st.integers(82_000, 10**6)),
            "unified_buffer": draw(st.integers(87_000, 10**6)),
            "l0a": draw(st.integers(4096, 10**5)),
            "l0b": draw(st.integers(16_384, 10**5)),
            "l0c": draw(st.integers(4096, 10**6)),
            "l1_to_l0a": draw(st.integers(1, 1000)),
            "l1_to_l0b": draw(st.integers(1, 1000)),
            "vector_core_count": draw(st.integers(1, 300)),
        }
    fp8 = draw(st.none() | st.integers(10**13, 10**16))
    fp4 = draw(st.none() | st.integers(10**13, 10**16))
    return changed(
        made_up_chip(),
        memory={"bandwidth": rate(1e11, 2e13), "latency": draw(st.floats(1e-7, 2e-6))},
        llc={"capacity": draw(st.integers(10**6, 10**9)), "read_bandwidth": rate(1e12, 5e13)},
        cores={
            "count": draw(st.integers(1, 300)),
            "clock": rate(5e8, 3e9),
            "peak_clock": rate(5e8, 3e9),
            **cores,
        },
        matrix={"bf16": rate(1e13, 5e15), "fp8": fp8, "fp4": fp4},
        vector={"fp32": rate(1e12, 2e14), "special": rate(1e11, 2e13)},
    )


@settings(max_examples=150)
@given(demands(), chips())
def test_roofline_bounds_any_kernel_on_any_chip(demand: Demand, chip: ChipSpec) -> None:
    assert_bounds(demand, target(chip))


@settings(max_examples=100)
@given(demands(), chips(), st.floats(1.0, 4.0))
def test_more_bandwidth_or_a_higher_clock_never_slows_a_kernel(
    demand: Demand, chip: ChipSpec, factor: float
) -> None:
    faster = (
        changed(chip, memory={"bandwidth": chip.hbm_bandwidth_bytes_per_s * factor}),
        changed(chip, llc={"read_bandwidth": chip.llc_bandwidth_bytes_per_s * factor}),
        changed(chip, cores={"clock": chip.clock_hz * factor}),
        changed(chip, llc={"capacity": int(chip.llc_bytes * factor)}),
    )
    for price in (roofline_price, tile_price):
        before = price(demand, target(chip)).alone_ps
        for other in faster:
            assert price(demand, target(other)).alone_ps <= before


@pytest.mark.parametrize("part", ["bandwidth", "clock"])
def test_the_models_kernels_gain_from_more_hardware(part: str) -> None:
    chip = find_chip("h200")
    if part == "bandwidth":
        better = changed(chip, memory={"bandwidth": 2 * chip.hbm_bandwidth_bytes_per_s})
    else:
        better = changed(chip, cores={"clock": 2 * chip.clock_hz})
    for demand in model_demands():
        assert (
            tile_price(demand, target(better)).alone_ps <= tile_price(demand, target(chip)).alone_ps
        )
