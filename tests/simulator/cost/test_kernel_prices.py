"""Prices of single kernels, by hand arithmetic on a made-up chip."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwmodels.bandwidth.efficiency import memory_efficiency
from hwmodels.node import load_node
from simulator.cost.collectives import link_seconds
from simulator.cost.math_rate import math_rate, product_rate
from simulator.cost.price import Target
from simulator.cost.roofline import roofline_price
from simulator.cost.tile import pipelined_ps, tile_price
from simulator.cost.traffic import traffic
from simulator.engine.kernel import Demand, Operand, Product, Shape
from tests.simulator.cost.made_up import changed, made_up_chip, target

US = 10**6  # picoseconds
CHIP = made_up_chip()


def gemm(rows: int, columns: int, depth: int, math: str = "bf16", value_bytes: int = 2) -> Demand:
    product = Product(
        shape=Shape.MATRIX,
        math=math,
        count=1,
        rows=rows,
        columns=columns,
        depth=depth,
        macs=rows * columns * depth,
        weight_elements=columns * depth,
        partial_columns=columns,
    )
    return Demand(
        family="gemm",
        products=(product,),
        inputs=(Operand(2 * rows * depth),),
        outputs=(Operand(2 * rows * columns),),
        weight_bytes=value_bytes * columns * depth,
    )


def with_one_tile(own: Target) -> Target:
    """Tiles of 128 x 128 x 128 only, the depth never split."""
    tiles = own.profile.matrix_tiles.model_copy(
        update={"rows": (128,), "columns": (128,), "depth": 128, "largest_split": 1}
    )
    return replace(own, profile=own.profile.model_copy(update={"matrix_tiles": tiles}))


def test_roofline_of_a_gemm_bound_by_memory() -> None:
    """1 x 10,000 x 10,000: 200 MB of weights at 1 TB/s take 200 us, 0.2 GFLOP 2 us."""
    price = roofline_price(gemm(1, 10_000, 10_000), target(CHIP))
    operands = 2 * 10_000 + 2 * 10_000
    assert price.traffic.dram_read_bytes == 200_000_000 + operands // 2
    assert price.traffic.dram_write_bytes == operands // 2
    assert price.busy_ps["memory"] == 200 * US + operands
    assert price.busy_ps["matrix"] == 2 * US
    assert price.bound == "memory"
    assert price.alone_ps == 1 * US + 200 * US + operands


def test_roofline_of_a_gemm_bound_by_the_matrix_units() -> None:
    """10,000 cubed: 2 TFLOP at 100 TFLOP/s take 20 ms."""
    price = roofline_price(gemm(10_000, 10_000, 10_000), target(CHIP))
    assert price.busy_ps["matrix"] == 20_000 * US
    assert price.bound == "matrix"


def test_tile_of_a_gemm_that_fills_the_cores_exactly() -> None:
    """2560 x 1280 x 1280 in 200 tiles of 128 x 128: two full waves, nothing padded.

    8.39 GFLOP take 83.9 us on the matrix units, 13.1 MB 14 us at the table's share of 1 TB/s for
    streams, half of them written; the loop has 2 x 10 steps, of which one is exposed in memory and
    one in the last-level cache.
    """
    demand = gemm(2560, 1280, 1280)
    price = tile_price(demand, with_one_tile(target(CHIP)))
    flops = 2 * 2560 * 1280 * 1280
    assert price.busy_ps["matrix"] == flops // 100  # 1e12 ps / 1e14 FLOP/s
    moved = 2 * (2560 * 1280 + 1280 * 1280 + 2560 * 1280)
    written = 2 * 2560 * 1280 / moved
    load = round(moved / memory_efficiency(CHIP, None, written))
    assert price.busy_ps["memory"] == pytest.approx(500_000 + load, abs=1)
    expected = 500_000 + flops // 100 + (load + price.busy_ps["llc"]) / 20
    assert price.run_ps == pytest.approx(expected, abs=2)


def test_an_idle_core_costs_its_share() -> None:
    """One tile column more than cores: a second wave for a single tile."""
    own = with_one_tile(target(CHIP))
    full = tile_price(gemm(128 * 100, 128, 12_800), own)
    over = tile_price(gemm(128 * 100 + 1, 128, 12_800), own)
    assert over.busy_ps["matrix"] == pytest.approx(2 * full.busy_ps["matrix"], abs=2)
    chosen = tile_price(gemm(128 * 100 + 1, 128, 12_800), target(CHIP))
    assert chosen.run_ps < 0.7 * over.run_ps  # smaller tiles or a split fill the wave


def test_few_tiles_are_split_along_the_depth() -> None:
    """16 x 128 x 65,536 is one or two tiles: without a split two cores would do it all."""
    demand = gemm(16, 128, 65_536)
    alone = tile_price(demand, with_one_tile(target(CHIP)))
    split = tile_price(demand, target(CHIP))
    assert split.run_ps < alone.run_ps / 10


@pytest.mark.parametrize(
    ("stages", "chunks", "expected"),
    [
        ((10, 100), 1, 110),
        ((10, 100), 10, 101),
        ((100, 10), 10, 101),
        ((0, 7), 3, 7),
        ((10, 40, 20, 100), 10, 107),
        ((10, 100), 2.5, 104),
    ],
)
def test_pipelined(stages: tuple[int, ...], chunks: float, expected: int) -> None:
    assert pipelined_ps(stages, chunks) == expected


def test_values_that_stay_in_the_cache() -> None:
    """Half of 10 MB holds 5,000,000 B between write and use, not one byte more."""
    demand = Demand(
        family="elementwise",
        inputs=(Operand(1000, 5_000_000), Operand(300, 5_000_001), Operand(7)),
        outputs=(Operand(2000, 10), Operand(400, None)),
        weight_bytes=50,
        cache_read_bytes=20,
        cache_touch_bytes=90,
        cache_write_bytes=5,
    )
    moved = traffic(demand, 10**7)
    assert moved.dram_read_bytes == 50 + 20 + 300 + 7
    assert moved.dram_write_bytes == 5 + 400
    assert moved.llc_bytes == 50 + 90 + 5 + demand.activation_bytes


def test_touches_beyond_the_distinct_ones_are_bound_by_the_cache() -> None:
    demand = Demand(family="attention", cache_read_bytes=10**6, cache_touch_bytes=10**9)
    price = roofline_price(demand, target(CHIP))
    assert price.traffic.dram_bytes == 10**6
    assert price.busy_ps["llc"] == 100 * US  # 1 GB at 10 TB/s
    assert price.busy_ps["memory"] == 1 * US
    assert price.bound == "llc"
    assert price.causes_ps == {"launch": 1 * US, "llc": 100 * US}


def test_math_classes() -> None:
    assert math_rate(CHIP, "bf16").flops_per_s == 1e14
    assert math_rate(CHIP, "fp8xfp4") == math_rate(CHIP, "fp8")
    assert math_rate(CHIP, "fp4_index").flops_per_s == 4e14
    assert math_rate(CHIP, "fp32").flops_per_s == 5e13
    no_fp4 = changed(CHIP, matrix={"fp4": None})
    assert math_rate(no_fp4, "fp8xfp4").convert
    assert math_rate(no_fp4, "fp4_index").flops_per_s == 2e14
    assert math_rate(no_fp4, "fp8xfp4").note == (
        f"{CHIP.name} has no fp4 units: expert weights are converted in the kernel"
    )
    assert math_rate(no_fp4, "fp4_index").note == (
        f"{CHIP.name} has no fp4 units: fp4_index products run at the fp8 rate, "
        "index keys are converted in the kernel"
    )
    assert [math_rate(no_fp4, math).convert for math in ("bf16", "fp8", "fp4_index")] == [
        False, False, True,
    ]  # fmt: skip
    old = changed(CHIP, matrix={"fp4": None, "fp8": None, "bf16": None, "tf32": None})
    assert math_rate(old, "fp8").flops_per_s == 1e14
    assert math_rate(old, "fp8").convert
    (weights,) = gemm(1, 1, 1, math="fp8").products
    assert not product_rate(old, weights).convert
    assert product_rate(old, replace(weights, shape=Shape.ATTENTION)).convert
    assert "fp16 rate" in math_rate(old, "bf16").note
    assert math_rate(old, "fp32").unit == "vector"


def test_weights_converted_for_want_of_fp4_units_are_vector_work() -> None:
    """Two operations a weight at 10 T/s."""
    demand = gemm(1, 1000, 1000, math="fp8xfp4")
    assert roofline_price(demand, target(CHIP)).busy_ps["vector"] == 0
    no_fp4 = changed(CHIP, matrix={"fp4": None})
    assert roofline_price(demand, target(no_fp4)).busy_ps["vector"] == 2 * 10**6 // 10


def test_collectives() -> None:
    node = load_node("h200-x8")
    demand = Demand(
        family="collective", link_bytes=45_000_000, link_phases=2, link_ranks=8, link_span=8
    )
    seconds = 2 * node.link_latency_s + 45e6 / node.link_bytes_per_s
    assert link_seconds(demand, node) == pytest.approx(seconds)
    wide = Demand(
        family="collective", link_bytes=45_000_000, link_phases=2, link_ranks=16, link_span=16
    )
    seconds = 2 * node.scale_out_latency_s + 45e6 / node.scale_out_bytes_per_s
    assert link_seconds(wide, node) == pytest.approx(seconds)
    assert link_seconds(Demand(family="gemm"), None) == 0.0


def test_a_pair_in_a_mesh_has_one_link() -> None:
    node = load_node("mi300x-x8")
    assert node.scale_up.topology == "mesh"
    demand = Demand(family="c", link_bytes=10**9, link_phases=0, link_ranks=2, link_span=2)
    assert link_seconds(demand, node) == pytest.approx(1e9 / node.peer_bytes_per_s)
