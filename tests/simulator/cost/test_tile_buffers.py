"""Tiles on cube and vector cores, by hand arithmetic on a made-up chip."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwmodels.chip import find_chip, list_chips
from simulator.basis.errors import InputError
from simulator.cost.math_rate import math_rate
from simulator.cost.price import Price, Target
from simulator.cost.tile import tile_price
from simulator.cost.tile_buffers import cube_cores, tile_holder
from simulator.engine.kernel import Demand, Product, Shape
from tests.simulator.cost.made_up import changed, made_up_chip, made_up_cubes, target
from tests.simulator.cost.test_kernel_prices import gemm

US = 10**6  # picoseconds
CUBES = made_up_cubes()
DIRECT = CUBES.model_copy(
    update={"cores": CUBES.cores.model_copy(update={"cube_to_vector": "direct"})}
)


def with_tiles(own: Target, rows: int, columns: int) -> Target:
    """One tile size, nothing split."""
    profile = own.profile
    tiles = profile.matrix_tiles.model_copy(
        update={"rows": (rows,), "columns": (columns,), "largest_split": 1, "cluster": 1}
    )
    attention = profile.attention_tiles.model_copy(update={"largest_split": 1})
    update = {"matrix_tiles": tiles, "attention_tiles": attention}
    return replace(own, profile=profile.model_copy(update=update))


def resident(demand: Demand, **changes: object) -> Demand:
    """The same kernel with its operands free of charge."""
    return replace(demand, inputs=(), outputs=(), weight_bytes=0, **changes)


def attention(queries: int, heads: int, keys: int, dim: int, partial: int) -> Demand:
    depth = dim + partial
    product = Product(
        shape=Shape.ATTENTION,
        math="bf16",
        count=queries,
        rows=heads,
        columns=keys,
        depth=depth,
        macs=queries * heads * keys * depth,
        partial_columns=partial,
    )
    return Demand(family="attention", products=(product,))


def test_few_rows_leave_the_cube_waiting_for_l0b() -> None:
    """16 x 12,800 x 1280 in 100 tiles of 16 x 128: 262 M multiply-adds, 500 a clock and core.

    The cubes take 5.24 us. Every 128 multiply-adds take a value of A (2 B at 100 B a clock), every
    16 one of B (2 B at 50): 2 / 12,800 + 2 / 800 clocks each, 6.96 us in all.
    """
    price = tile_price(resident(gemm(16, 12_800, 1280)), with_tiles(target(CUBES), 16, 128))
    macs = 16 * 12_800 * 1280
    cube, fed = 2 * macs / 1e14, macs * (2 / 12_800 + 2 / 800) / 100 / 1e9
    assert (cube, fed) == (pytest.approx(5.24288e-6), pytest.approx(6.9632e-6))
    assert price.busy_ps["matrix"] == pytest.approx(6_963_200, abs=1)
    assert price.causes_ps["matrix"] == pytest.approx(5_242_880, abs=1)
    assert price.causes_ps["l0"] == pytest.approx(6_963_200 - 5_242_880, abs=2)
    assert "tail" not in price.causes_ps


def test_many_rows_keep_the_cube_busy() -> None:
    """128 x 128 tiles: 2 / 12,800 + 2 / 6400 clocks a multiply-add are a quarter of the cube's."""
    price = tile_price(resident(gemm(1280, 1280, 1280)), with_tiles(target(CUBES), 128, 128))
    assert price.busy_ps["matrix"] == pytest.approx(2 * 1280**3 / 100, abs=1)
    assert "l0" not in price.causes_ps


@pytest.mark.parametrize("name", ["ascend-910b3", "ascend-910c", "ascend-950dt"])
def test_the_largest_tiles_of_a_real_cube_core_fill_it(name: str) -> None:
    """128 x 256: L0B holds two fragments of 256 x 128 B, L0C 128 x 256 x 4 B, to the last byte."""
    holder = tile_holder(gemm(512, 512, 512), find_chip(name), 128)
    assert holder.holds(128, 256)
    assert holder.holds(256, 128)
    assert not holder.holds(256, 256)  # accumulators
    assert not holder.holds(16, 512)  # fragments of B
    assert not holder.holds(512, 16)  # fragments of A


def test_operands_of_two_steps_fill_l1() -> None:
    """(128 + 256) x 128 BF16 values twice are 192 KiB."""
    for l1, fits in ((192 << 10, True), ((192 << 10) - 1, False)):
        chip = changed(CUBES, cores={"scratchpad": l1})
        assert tile_holder(gemm(512, 512, 512), chip, 128).holds(128, 256) is fits


def test_tiles_that_do_not_fit_are_not_chosen() -> None:
    """L0C of 32 KiB holds 8192 accumulators: as if the engine had no larger tiles."""
    small = target(changed(CUBES, cores={"l0c": 32 << 10}))
    tiles = small.profile.matrix_tiles.model_copy(update={"largest_area": 8192})
    least = replace(small, profile=small.profile.model_copy(update={"matrix_tiles": tiles}))
    for demand in (gemm(2560, 1280, 1280), gemm(12_800, 128, 12_800), gemm(64, 4096, 4096)):
        assert tile_price(demand, small) == tile_price(demand, replace(least, chip=CUBES))


def test_a_chip_that_holds_no_tile_is_a_sentence() -> None:
    small = target(changed(CUBES, cores={"l0c": 4095}))
    with pytest.raises(InputError, match="cannot hold the engine's smallest tile, 16 x 64 x 128"):
        tile_price(gemm(16, 64, 128), small)
    bare = target(changed(CUBES, cores={"l1_to_l0b": None}))
    with pytest.raises(InputError, match="no l1_to_l0b under 'cores'"):
        tile_price(gemm(16, 64, 128), bare)


def test_outputs_pass_to_the_vector_cores_through_the_cache() -> None:
    """1280 x 1280 FP32 outputs written and read are 13.1 MB: 1.31 us at 10 TB/s."""
    plain = resident(gemm(1280, 1280, 1280))
    fused = replace(plain, vector_ops=10)

    def llc_ps(demand: Demand, own: Target) -> int:
        return tile_price(demand, with_tiles(own, 128, 128)).busy_ps["llc"]

    passed = llc_ps(fused, target(CUBES)) - llc_ps(plain, target(CUBES))
    assert passed == pytest.approx(2 * 1280 * 1280 * 4 / 10, abs=1)
    for one in (DIRECT, made_up_chip()):
        assert llc_ps(fused, target(one)) == llc_ps(plain, target(one))


def test_converted_weights_pass_from_the_vector_cores() -> None:
    """1280 x 1280 weights as FP8, for each of 10 rows of tiles: written and read, 32.8 MB."""
    chips = {"with": CUBES, "without": changed(CUBES, matrix={"fp4": None})}
    demand = resident(gemm(1280, 1280, 1280, math="fp8xfp4"))
    llc = {
        name: tile_price(demand, with_tiles(target(chip), 128, 128)).busy_ps["llc"]
        for name, chip in chips.items()
    }
    assert llc["without"] - llc["with"] == pytest.approx(2 * 1280 * 1280 * 10 / 10, abs=1)


def attention_price(chip_cores: dict[str, int], demand: Demand) -> Price:
    return tile_price(demand, with_tiles(target(changed(CUBES, cores=chip_cores)), 128, 128))


def test_an_attention_tile() -> None:
    """100 queries of 64 heads x 640 keys x 512 values.

    L0C holds the outputs of 64 heads (64 x 512 x 4 B = 128 KiB). L1 holds the query (64 KiB), two
    rounds of keys (2 x 1024 B a key) and of probabilities (2 x 128 B a key): 199 keys, 192 in steps
    of 64; the two unified buffers would hold scores of 768. So 640 keys take 4 rounds. Scores (4 B)
    and probabilities (2 B) of 4,096,000 pairs, and 4 rounds of 3,276,800 outputs (4 B), each
    written and read, are 49.2 + 104.9 MB: 15.4 us at 10 TB/s.
    """
    price = attention_price({}, attention(100, 64, 640, 512, 512))
    pairs, outputs = 100 * 64 * 640, 100 * 64 * 512
    passed = pairs * 2 * (4 + 2) + 4 * outputs * 2 * 4
    assert passed == 154_009_600
    assert price.busy_ps["matrix"] == pytest.approx(2 * pairs * 1024 / 100, abs=1)
    latency = 200_000
    assert price.busy_ps["llc"] == pytest.approx(passed / 10 + latency, abs=1)
    direct = tile_price(attention(100, 64, 640, 512, 512), with_tiles(target(DIRECT), 128, 128))
    assert direct.busy_ps["llc"] == latency


def test_smaller_buffers_make_smaller_attention_blocks_and_rounds() -> None:
    """Half of L0C: blocks of 32 heads, each value of a key in L0B serves half as many.

    2 x (1 / 6400 + 1 / 1600) clocks a multiply-add; of half of that L1 fewer keys, 64 a round.
    """
    demand = attention(100, 64, 640, 512, 512)
    macs = demand.products[0].macs
    halved = attention_price({"l0c": 1 << 16, "l1_to_l0a": 64, "l1_to_l0b": 32}, demand)
    fed = macs * 2 * (1 / (64 * 64) + 1 / (32 * 32)) / 100 / 1e9
    assert fed > 2 * macs / 1e14
    assert halved.busy_ps["matrix"] == pytest.approx(fed * 1e12, abs=1)
    tight = attention_price({"scratchpad": 250 << 10}, demand)
    # (256,000 - 65,536) / 2304 = 82 keys, 64 in whole steps: 10 rounds.
    passed = 100 * 64 * (640 * 12 + 10 * 512 * 8)
    assert tight.busy_ps["llc"] == pytest.approx(passed / 10 + 200_000, abs=1)


def test_index_scores_pass_one_way() -> None:
    """4 B a head and key, written and read; nothing comes back, and no outputs add up."""
    price = attention_price({}, attention(100, 64, 640, 128, 0))
    assert price.busy_ps["llc"] == pytest.approx(100 * 64 * 640 * 8 / 10 + 200_000, abs=1)


def test_kernels_without_products_run_on_the_vector_cores() -> None:
    """Spread evenly over 200 vector cores, whatever their number."""
    demand = Demand(family="elementwise", vector_ops=8192 * 250)
    price = tile_price(demand, target(CUBES))
    assert price.busy_ps["vector"] == pytest.approx(8192 * 250 / 5, abs=1)
    slow = changed(CUBES, cores={"unified_buffer": 8192}, memory={"latency": 2e-6})
    moved = Demand(family="elementwise", cache_read_bytes=16_384 * 100)
    # Blocks of 4096 B, half a buffer: all 200 cores have as much in flight, 0.41 TB/s.
    price = tile_price(moved, target(slow))
    assert price.busy_ps["memory"] == pytest.approx((2 + 16_384 * 100 / 409_600) * US, abs=2)


def test_products_without_matrix_units_have_tiles_in_the_unified_buffer() -> None:
    chip = find_chip("ascend-910c")
    assert math_rate(chip, "fp32").unit == "vector"
    holder = tile_holder(gemm(512, 512, 512, math="fp32"), chip, 128)
    # 2 x (64 + 64) x 128 x 4 B + 64 x 64 x 4 B = 144 KiB of 192.
    assert holder.holds(64, 64)
    assert not holder.holds(64, 128)


@pytest.mark.parametrize("name", list_chips())
def test_only_ascend_chips_have_cube_cores(name: str) -> None:
    assert (cube_cores(find_chip(name)) is not None) is name.startswith("ascend")
