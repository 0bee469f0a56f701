"""Ways to cut a kernel into tiles: how many blocks for the cores, and what cutting costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from simulator.lower.kernel import Demand, Product, Shape
from simulator.lower.profile import EngineProfile

# Bytes of an operand value as it moves between LLC and cores, by math class: (activation, weight).
_VALUE_BYTES = {
    "fp32": (4.0, 4.0),
    "bf16": (2.0, 2.0),
    "fp8": (1.0, 1.0),
    "fp8xfp4": (1.0, 0.53125),
    "fp4_index": (0.5, 0.5),
}
_PARTIAL_BYTES = 4  # parts of a split sum are kept in FP32


@dataclass(frozen=True, slots=True)
class TilePlan:
    """One way to cut a kernel.

    `units` equal blocks run on the cores, each a loop of `steps`; `padded_macs` are the multiply-
    adds of each product with partial tiles filled up; `extra_llc_bytes` what tiles fetch again or
    leave for others to add up; `weight_uses` how often each product's weights are fetched.
    """

    units: int
    steps: int
    padded_macs: tuple[float, ...]
    weight_uses: tuple[float, ...]
    extra_llc_bytes: float


def tile_plans(demand: Demand, profile: EngineProfile) -> Iterator[TilePlan]:
    """All plans that the profile allows for a kernel.

    Assumes: an operand's tile is fetched from the last-level cache by every block that uses it,
        once for a cluster of blocks where the engine has clusters, on every chip.
    Assumes: the matrix units reach their peak on every tile size that the engine has.
    """
    if not demand.products:
        yield _elementwise(demand, profile)
        return
    matrices = [p for p in demand.products if p.shape is Shape.MATRIX]
    for split in _splits(demand, profile):
        others = [_attention(p, split, profile) for p in demand.products if p not in matrices]
        if not matrices:
            yield _joined(others)
        for rows, columns in _tile_sizes(matrices, profile):
            yield _joined([_matrix(p, rows, columns, split, profile) for p in matrices] + others)


def _tile_sizes(matrices: list[Product], profile: EngineProfile) -> Iterator[tuple[int, int]]:
    """Tiles of rows x columns that the engine has, none larger than it needs to be."""
    if not matrices:
        return
    tiles = profile.matrix_tiles
    for rows in _fitting(tiles.rows, max(p.rows for p in matrices)):
        for columns in _fitting(tiles.columns, max(p.columns for p in matrices)):
            if rows * columns <= tiles.largest_area:
                yield rows, columns


def _fitting(sizes: tuple[int, ...], extent: float) -> Iterator[int]:
    """Tile sizes up to the first that holds the whole extent."""
    for size in sorted(sizes):
        yield size
        if size >= extent:
            return


def _splits(demand: Demand, profile: EngineProfile) -> Iterator[int]:
    """1, 2, 4, ... up to the steps that there are."""
    steps, largest = 1, 1
    for product in demand.products:
        if product.shape is Shape.MATRIX:
            steps = max(steps, math.ceil(product.depth / profile.matrix_tiles.depth))
            largest = max(largest, profile.matrix_tiles.largest_split)
        else:
            steps = max(steps, math.ceil(product.columns / profile.attention_tiles.keys))
            largest = max(largest, profile.attention_tiles.largest_split)
    split = 1
    while split <= min(steps, largest):
        yield split
        split *= 2


def _elementwise(demand: Demand, profile: EngineProfile) -> TilePlan:
    """Blocks of a number of operations, or of bytes where there is little to compute."""
    tiles = profile.elementwise_tiles
    by_operations = math.ceil((demand.vector_ops + demand.special_ops) / tiles.operations)
    by_bytes = math.ceil(demand.moved_bytes / tiles.bytes)
    return TilePlan(max(1, by_operations, by_bytes), 1, (), (), 0.0)


def _matrix(
    product: Product, rows: int, columns: int, split: int, profile: EngineProfile
) -> TilePlan:
    """Blocks of rows x columns outputs, each over a part of the depth."""
    depth, cluster = profile.matrix_tiles.depth, profile.matrix_tiles.cluster
    row_tiles = max(1, math.ceil(product.rows / rows))
    column_tiles = max(1, math.ceil(product.columns / columns))
    steps = max(1, math.ceil(product.depth / depth / split))
    tiles = product.count * row_tiles * column_tiles
    activation, weight = _VALUE_BYTES.get(product.math, (2.0, 2.0))
    weight_fetches = math.ceil(row_tiles / cluster)
    activation_fetches = math.ceil(column_tiles / cluster)
    weights = (weight_fetches - 1) * product.columns * weight
    activations = (activation_fetches - 1) * product.rows * activation
    fetched_again = product.count * product.depth * (weights + activations)
    return TilePlan(
        math.ceil(tiles * split),
        steps,
        (tiles * rows * columns * steps * split * depth,),
        (float(row_tiles),),
        fetched_again + _partial_bytes(product, split),
    )


def _attention(product: Product, split: int, profile: EngineProfile) -> TilePlan:
    """Blocks of one query's heads, each over a part of its keys."""
    tiles = profile.attention_tiles
    heads = tiles.head_multiple * math.ceil(product.rows / tiles.head_multiple)
    groups = math.ceil(heads / tiles.heads)
    steps = max(1, math.ceil(product.columns / tiles.keys / split))
    return TilePlan(
        math.ceil(product.count * groups * split),
        steps,
        (product.count * heads * steps * split * tiles.keys * product.depth,),
        (0.0,),
        _partial_bytes(product, split),
    )


def _partial_bytes(product: Product, split: int) -> float:
    """Written by each part, and read by whoever adds them up."""
    if split == 1:
        return 0.0
    values = product.count * product.rows * product.partial_columns
    return 2.0 * split * values * _PARTIAL_BYTES


def _joined(plans: list[TilePlan]) -> TilePlan:
    """Products of one kernel side by side in one grid."""
    return TilePlan(
        sum(plan.units for plan in plans),
        max(plan.steps for plan in plans),
        tuple(macs for plan in plans for macs in plan.padded_macs),
        tuple(uses for plan in plans for uses in plan.weight_uses),
        sum(plan.extra_llc_bytes for plan in plans),
    )
