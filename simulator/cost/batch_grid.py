"""Splits and tile sizes of many demands: all that there can be, and those that a step allows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hwmodels.chip import ChipSpec
from simulator.cost.batch_floor import Floats
from simulator.cost.tile_buffers import tile_holder
from simulator.engine.kernel import Demand, Shape
from simulator.engine.profile import EngineProfile

# Rows, columns and depth of the products at one place of the demands.
Extents = tuple[Floats, Floats, Floats]
# Whose way each is, then rows and columns of its tiles and its split.
Grid = tuple[NDArray[np.intp], Floats, Floats, Floats]


class WayGrid:
    """Ways of some demands, those of one after those of another, in the order of `tile_plans`."""

    def __init__(self, demands: Sequence[Demand], profile: EngineProfile, chip: ChipSpec) -> None:
        self._profile = profile
        found = [(i, *way) for i, d in enumerate(demands) for way in _ways(d, profile, chip)]
        demand, *self._tiles = np.array(found, dtype=np.float64).T
        self._demand = demand.astype(np.intp)
        places = range(max(len(demand.products) for demand in demands))
        self._matrix = [_are(Shape.MATRIX, demands, i) for i in places]
        self._core = [_are(Shape.ATTENTION, demands, i) for i in places]

    def ways(self, extents: Sequence[Extents]) -> Grid:
        """Those with no larger tiles, and no more splits, than the products of a step have."""
        rows, below_rows, columns, below_columns, split = self._tiles
        tallest = widest = steps = np.zeros(1)
        depth, keys = self._profile.matrix_tiles.depth, self._profile.attention_tiles.keys
        for matrix, core, (m, n, k) in zip(self._matrix, self._core, extents, strict=True):
            tallest = np.maximum(tallest, np.where(matrix, m, 0.0))
            widest = np.maximum(widest, np.where(matrix, n, 0.0))
            steps = np.maximum(steps, np.ceil(np.where(matrix, k / depth, 0.0)))
            steps = np.maximum(steps, np.ceil(np.where(core, n / keys, 0.0)))
        if extents:
            # A tile is tried where the next smaller one does not hold the whole extent.
            of = self._demand
            tried = (below_rows < tallest[of]) & (below_columns < widest[of])
            own = np.flatnonzero(tried & (split <= np.maximum(steps, 1.0)[of]))
        else:
            own = np.arange(len(self._demand))
        return self._demand[own], rows[own], columns[own], split[own]


def _are(shape: Shape, demands: Sequence[Demand], place: int) -> NDArray[np.bool_]:
    return np.array([len(d.products) > place and d.products[place].shape is shape for d in demands])


def _ways(
    demand: Demand, profile: EngineProfile, chip: ChipSpec
) -> Iterator[tuple[float, float, float, float, float]]:
    """Rows, the next smaller rows, columns, the next smaller columns, and split of each way."""
    shapes = {product.shape for product in demand.products}
    rows = columns = [(1.0, -math.inf)]
    largest, area = 1, profile.matrix_tiles.largest_area
    holder = tile_holder(demand, chip, profile.matrix_tiles.depth)
    if Shape.MATRIX in shapes:
        rows = _with_below(profile.matrix_tiles.rows)
        columns = _with_below(profile.matrix_tiles.columns)
        largest = profile.matrix_tiles.largest_split
        holder.check(rows[0][0], columns[0][0])
    if Shape.ATTENTION in shapes:
        largest = max(largest, profile.attention_tiles.largest_split)
    for i in range(largest.bit_length()):
        for row, below_row in rows:
            for column, below_column in columns:
                if row * column <= area and holder.holds(row, column):
                    yield row, below_row, column, below_column, float(1 << i)


def _with_below(sizes: Sequence[int]) -> list[tuple[float, float]]:
    ordered = [float(size) for size in sorted(sizes)]
    return list(zip(ordered, [-math.inf, *ordered], strict=False))
