"""Ways to cut a kernel into tiles: how many blocks for the cores, and what cutting costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from simulator.lower.kernel import Demand, Product, Shape
from simulator.lower.profile import EngineProfile

Floats = NDArray[np.float64]
Values = float | Floats

# Bytes of an operand value as it moves between LLC and cores, by math class: (activation, weight).
_VALUE_BYTES = {
    "fp32": (4.0, 4.0),
    "bf16": (2.0, 2.0),
    "fp8": (1.0, 1.0),
    "fp8xfp4": (1.0, 0.53125),
    "fp4_index": (0.5, 0.5),
}
PARTIAL_BYTES = 4  # parts of a split sum are kept in FP32


@dataclass(frozen=True, slots=True)
class TilePlan:
    """One way to cut a kernel, or all ways at once: then each number is an array, one value a way.

    `units` equal blocks run on the cores, each a loop of `steps`; `padded_macs` are the multiply-
    adds of each product with partial tiles filled up; `extra_llc_bytes` what tiles fetch again or
    leave for others to add up; `weight_uses` how often each product's weights are fetched.
    """

    units: Values
    steps: Values
    padded_macs: tuple[Values, ...]
    weight_uses: tuple[Values, ...]
    extra_llc_bytes: Values

    def chosen(self, index: int) -> TilePlan:
        """One of the ways."""
        return TilePlan(
            int(_pick(self.units, index)),
            int(_pick(self.steps, index)),
            tuple(_pick(macs, index) for macs in self.padded_macs),
            tuple(_pick(uses, index) for uses in self.weight_uses),
            _pick(self.extra_llc_bytes, index),
        )


def _pick(values: Values, index: int) -> float:
    return float(values) if np.ndim(values) == 0 else float(np.asarray(values)[index])


def tile_plans(demand: Demand, profile: EngineProfile) -> TilePlan:
    """All plans that the profile allows for a kernel, as arrays; smallest split and tiles first.

    Assumes: an operand's tile is fetched from the last-level cache by every block that uses it,
        once for a cluster of blocks where the engine has clusters, on every chip.
    Assumes: the matrix units reach their peak on every tile size that the engine has.
    """
    if not demand.products:
        return _elementwise(demand, profile)
    matrices = [p for p in demand.products if p.shape is Shape.MATRIX]
    sizes: tuple[tuple[int, ...], tuple[int, ...]] = ((1,), (1,))
    if matrices:
        tiles = profile.matrix_tiles
        sizes = (
            _fitting(tiles.rows, max(p.rows for p in matrices)),
            _fitting(tiles.columns, max(p.columns for p in matrices)),
        )
    area = profile.matrix_tiles.largest_area
    split, rows, columns = _grid(_splits(demand, profile), *sizes, area)
    plans = [
        _matrix(product, rows, columns, split, profile)
        if product.shape is Shape.MATRIX
        else _attention(product, split, profile)
        for product in demand.products
    ]
    return _joined(plans)


@cache
def _grid(
    splits: tuple[int, ...], rows: tuple[int, ...], columns: tuple[int, ...], largest_area: int
) -> tuple[Floats, Floats, Floats]:
    """Every split with every tile that is not too large."""
    ways = [(s, r, c) for s in splits for r in rows for c in columns if r * c <= largest_area]
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
            steps = max(steps, math.ceil(product.columns / profile.attention_tiles.keys))
            largest = max(largest, profile.attention_tiles.largest_split)
    return tuple(1 << i for i in range(min(steps, largest).bit_length()))


def _elementwise(demand: Demand, profile: EngineProfile) -> TilePlan:
    """Blocks of a number of operations, or of bytes where there is little to compute."""
    tiles = profile.elementwise_tiles
    by_operations = math.ceil((demand.vector_ops + demand.special_ops) / tiles.operations)
    by_bytes = math.ceil(demand.moved_bytes / tiles.bytes)
    return TilePlan(max(1, by_operations, by_bytes), 1, (), (), 0.0)


def _matrix(
    product: Product, rows: Floats, columns: Floats, split: Floats, profile: EngineProfile
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
    return TilePlan(
        np.ceil(tiles * split),
        steps,
        (tiles * rows * columns * steps * split * depth,),
        (row_tiles,),
        fetched_again + _partial_bytes(product, split),
    )


def _attention(product: Product, split: Floats, profile: EngineProfile) -> TilePlan:
    """Blocks of one query's heads, each over a part of its keys."""
    tiles = profile.attention_tiles
    heads = tiles.head_multiple * math.ceil(product.rows / tiles.head_multiple)
    groups = math.ceil(heads / tiles.heads)
    steps = np.maximum(1.0, np.ceil(product.columns / tiles.keys / split))
    return TilePlan(
        np.ceil(product.count * groups * split),
        steps,
        (product.count * heads * steps * split * tiles.keys * product.depth,),
        (0.0,),
        _partial_bytes(product, split),
    )


def _partial_bytes(product: Product, split: Floats) -> Floats:
    """Written by each part, and read by whoever adds them up; nothing where nothing is split."""
    values = product.count * product.rows * product.partial_columns
    return np.where(split > 1, 2.0 * split * values * PARTIAL_BYTES, 0.0)


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
    )


def value_bytes(math_class: str) -> tuple[float, float]:
    """Bytes of an activation and of a weight on their way from the last-level cache to a core."""
    return _VALUE_BYTES.get(math_class, (2.0, 2.0))
