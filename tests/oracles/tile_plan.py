"""Ways to cut one kernel into tiles, formula by formula: what `TileWays` has in arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hwmodels.chip import ChipSpec
from simulator.cost.math_rate import MathRate, product_rate
from simulator.cost.tile_buffers import (
    PARTIAL_BYTES,
    CubeCores,
    TileHolder,
    core_value_bytes,
    cube_cores,
    running_cores,
    tile_holder,
)
from simulator.cost.tile_ways import attention_tiles, elementwise_bytes, value_bytes
from simulator.engine.kernel import Demand, Product, Shape
from simulator.engine.profile import EngineProfile

Floats = NDArray[np.float64]
Values = float | Floats


@dataclass(frozen=True, slots=True)
class TilePlan:
    """One way to cut a kernel, or all ways at once: then each number is an array, one value a way.

    `units` equal blocks run on the cores, each a loop of `steps`; `padded_macs` are the multiply-
    adds of each product with partial tiles filled up; `extra_llc_bytes` what tiles fetch again or
    leave for others to add up; `weight_uses` how often each product's weights are fetched;
    `feed_clocks` the clocks of one cube core to fill its L0 buffers with all that it multiplies.
    The rest says which way it is: tile sides, parts of the depth or of the keys, blocks of heads.
    More steps expose less of the first and last, so that more work may even take less time.
    """

    units: Values
    steps: Values
    padded_macs: tuple[Values, ...]
    weight_uses: tuple[Values, ...]
    extra_llc_bytes: Values
    feed_clocks: Values = 0.0
    rows: Values = 0.0
    columns: Values = 0.0
    split: Values = 1.0
    head_blocks: Values = 0.0

    @property
    def cut(self) -> str:
        """The way in words, of one that was chosen."""
        tile = f"tiles {self.rows:.0f} x {self.columns:.0f}" if self.rows else ""
        heads = f"{self.head_blocks:.0f} blocks of heads" if self.head_blocks else ""
        split = f"split in {self.split:.0f}" if self.split > 1 else ""
        steps = f"{self.steps:.4g} steps" if not self.rows and self.steps > 1 else ""
        return ", ".join(part for part in (tile, heads, split, steps) if part)

    def chosen(self, index: int) -> TilePlan:
        """One of the ways."""
        return TilePlan(
            int(_pick(self.units, index)),
            _pick(self.steps, index),
            tuple(_pick(macs, index) for macs in self.padded_macs),
            tuple(_pick(uses, index) for uses in self.weight_uses),
            _pick(self.extra_llc_bytes, index),
            _pick(self.feed_clocks, index),
            _pick(self.rows, index),
            _pick(self.columns, index),
            _pick(self.split, index),
            _pick(self.head_blocks, index),
        )


def _pick(values: Values, index: int) -> float:
    return float(values) if np.ndim(values) == 0 else float(np.asarray(values)[index])


def tile_plans(demand: Demand, profile: EngineProfile, chip: ChipSpec) -> TilePlan:
    """All plans that the profile allows for a kernel and the chip's cores hold, as arrays.

    Smallest split and tiles come first. Raises `InputError` where cube cores hold none.
    """
    cube = cube_cores(chip)
    if not demand.products:
        return _elementwise(demand, profile, chip)
    matrices = [p for p in demand.products if p.shape is Shape.MATRIX]
    sizes: tuple[tuple[int, ...], tuple[int, ...]] = ((1,), (1,))
    tiles = profile.matrix_tiles
    if matrices:
        sizes = (
            _fitting(tiles.rows, max(p.rows for p in matrices)),
            _fitting(tiles.columns, max(p.columns for p in matrices)),
        )
    holder = tile_holder(demand, chip, tiles.depth)
    split, rows, columns = _grid(_splits(demand, profile), *sizes, tiles.largest_area, holder)
    vector_work = demand.vector_ops + demand.special_ops > 0
    plans = []
    for product in demand.products:
        rate = product_rate(chip, product)
        if product.shape is Shape.MATRIX:
            plan = _matrix(product, rows, columns, split, profile, cube, rate, vector_work)
        else:
            plan = _attention(product, split, profile, cube, rate, demand.cache_read_bytes)
        plans.append(plan)
    plan = replace(_joined(plans), split=split)
    return replace(plan, rows=rows, columns=columns) if matrices else plan


@cache
def _grid(
    splits: tuple[int, ...],
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    largest_area: int,
    holder: TileHolder,
) -> tuple[Floats, Floats, Floats]:
    """Every split with every tile that is not too large."""
    holder.check(rows[0], columns[0])
    held = [(r, c) for r in rows for c in columns if r * c <= largest_area and holder.holds(r, c)]
    ways = [(s, r, c) for s in splits for r, c in held]
    split, row, column = np.array(ways, dtype=np.float64).T
    return split, row, column


def _fitting(sizes: tuple[int, ...], extent: float) -> tuple[int, ...]:
    """Tile sizes up to the first that holds the whole extent."""
    ordered = sorted(sizes)
    holding = next((i for i, size in enumerate(ordered) if size >= extent), len(ordered) - 1)
    return tuple(ordered[: holding + 1])


def _splits(demand: Demand, profile: EngineProfile) -> tuple[int, ...]:
    """1, 2, 4, ... up to the steps that there are."""
    steps, largest = 1, 1
    for product in demand.products:
        if product.shape is Shape.MATRIX:
            steps = max(steps, math.ceil(product.depth / profile.matrix_tiles.depth))
            largest = max(largest, profile.matrix_tiles.largest_split)
        else:
            steps = max(steps, math.ceil(product.columns / attention_tiles(profile).keys))
            largest = max(largest, attention_tiles(profile).largest_split)
    return tuple(1 << i for i in range(min(steps, largest).bit_length()))


def _elementwise(demand: Demand, profile: EngineProfile, chip: ChipSpec) -> TilePlan:
    """Even parts on all cores, in steps of a number of bytes."""
    cores, _ = running_cores(demand, chip)
    steps = demand.moved_bytes / elementwise_bytes(profile, cube_cores(chip)) / cores
    return TilePlan(cores, max(1.0, steps), (), (), 0.0)


def _matrix(
    product: Product,
    rows: Floats,
    columns: Floats,
    split: Floats,
    profile: EngineProfile,
    cube: CubeCores | None,
    rate: MathRate,
    vector_work: bool,
) -> TilePlan:
    """Blocks of rows x columns outputs, each over a part of the depth."""
    depth, cluster = profile.matrix_tiles.depth, profile.matrix_tiles.cluster
    row_tiles = np.maximum(1.0, np.ceil(product.rows / rows))
    column_tiles = np.maximum(1.0, np.ceil(product.columns / columns))
    steps = np.maximum(1.0, np.ceil(product.depth / depth / split))
    tiles = product.count * row_tiles * column_tiles
    activation, weight = value_bytes(product.math)
    weights = (np.ceil(row_tiles / cluster) - 1) * product.columns * weight
    activations = (np.ceil(column_tiles / cluster) - 1) * product.rows * activation
    fetched_again = product.count * product.depth * (weights + activations)
    macs = tiles * rows * columns * steps * split * depth
    extra: Values = 0.0
    feed: Values = 0.0
    handed = False
    if cube is not None and rate.unit == "matrix":
        feed = cube.feed_clocks(core_value_bytes(rate), macs, rows, columns)
        extra = _converted_bytes(cube, rate, product.weight_elements, row_tiles)
        handed = cube.through_llc and vector_work
    passed = _passed_bytes(product, split, (split > 1) | handed)
    return TilePlan(
        np.ceil(tiles * split),
        steps,
        (macs,),
        (row_tiles,),
        fetched_again + passed + extra,
        feed,
    )


def _attention(
    product: Product,
    split: Floats,
    profile: EngineProfile,
    cube: CubeCores | None,
    rate: MathRate,
    key_bytes: float,
) -> TilePlan:
    """Blocks of one query's heads, each over a part of its keys, which each block fetches."""
    tiles, parts, outputs = attention_tiles(profile), split, product.partial_columns
    heads = tiles.head_multiple * math.ceil(product.rows / tiles.head_multiple)
    steps = np.maximum(1.0, np.ceil(product.columns / tiles.keys / split))
    pairs = product.count * heads * steps * split * tiles.keys
    block: Values = float(tiles.heads)
    extra: Values = 0.0
    feed: Values = 0.0
    handed = False
    if cube is not None and rate.unit == "matrix":
        value = core_value_bytes(rate)
        most = cube.block_heads(tiles.heads, tiles.head_multiple, tiles.keys, outputs)
        block = np.minimum(heads, most)
        feed = cube.feed_clocks(value, pairs * product.depth, block, tiles.keys)
        extra = _converted_bytes(cube, rate, product.weight_elements, 1.0)
        if cube.through_llc:
            entry = product.depth - outputs
            keys = cube.round_keys(value, block, tiles.keys, entry, outputs)
            parts, handed = split * np.ceil(steps * tiles.keys / keys), True
            extra = extra + cube.score_bytes(value, pairs, outputs)
    blocks = np.ceil(heads / block)
    again = (blocks - 1) * key_bytes
    return TilePlan(
        np.ceil(product.count * blocks * split),
        steps,
        (pairs * product.depth,),
        (0.0,),
        _passed_bytes(product, parts, (split > 1) | handed) + again + extra,
        feed,
        head_blocks=blocks,
    )


def _converted_bytes(cube: CubeCores, rate: MathRate, weights: Values, uses: Values) -> Values:
    """Bytes of converted weights, from the vector cores and to the cube cores, every use."""
    if not (rate.convert and cube.through_llc):
        return 0.0
    return 2 * weights * uses * core_value_bytes(rate)


def _passed_bytes(product: Product, parts: Floats, passed: NDArray[np.bool_]) -> Floats:
    """Written by each part, and read by whoever adds it up; nothing where nothing is `passed`."""
    values = product.count * product.rows * product.partial_columns
    return np.where(passed, 2.0 * parts * values * PARTIAL_BYTES, 0.0)


def _joined(plans: list[TilePlan]) -> TilePlan:
    """Products of one kernel side by side in one grid."""
    if len(plans) == 1:
        return plans[0]
    steps = plans[0].steps
    for plan in plans[1:]:
        steps = np.maximum(steps, plan.steps)
    return TilePlan(
        sum(plan.units for plan in plans),
        steps,
        tuple(macs for plan in plans for macs in plan.padded_macs),
        tuple(uses for plan in plans for uses in plan.weight_uses),
        sum(plan.extra_llc_bytes for plan in plans),
        sum(plan.feed_clocks for plan in plans),
        head_blocks=max((plan.head_blocks for plan in plans), key=np.max),
    )
