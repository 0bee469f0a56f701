"""Ways to cut many recorded demands into tiles, all at once: one row of arrays a way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.cost.batch_floor import Floats, NumberTable
from simulator.cost.batch_grid import WayGrid
from simulator.cost.recording import Recording
from simulator.cost.tile_plan import PARTIAL_BYTES, value_bytes
from simulator.lower.kernel import Demand, Product, Shape
from simulator.lower.profile import EngineProfile

_SIZES = ("count", "rows", "columns", "depth", "macs", "weight_elements", "partial_columns")


@dataclass(frozen=True, slots=True)
class Products:
    """Sizes of the products at one place of the demands, zeros where a demand has fewer."""

    count: Floats
    rows: Floats
    columns: Floats
    depth: Floats
    macs: Floats
    weight_elements: Floats
    partial_columns: Floats


@dataclass(frozen=True, slots=True)
class Ways:
    """Ways in the order of `tile_plans`, demand after demand; `demand` is whose way each is.

    The other arrays are as in a `TilePlan`, the tuples with an entry for each place of a product.
    """

    demand: NDArray[np.intp]
    units: Floats
    steps: Floats
    padded_macs: tuple[Floats, ...]
    weight_uses: tuple[Floats, ...]
    extra_llc_bytes: Floats

    def chosen(self, ways: NDArray[np.intp]) -> Ways:
        """Some of the ways."""
        return Ways(
            self.demand[ways],
            self.units[ways],
            self.steps[ways],
            tuple(macs[ways] for macs in self.padded_macs),
            tuple(uses[ways] for uses in self.weight_uses),
            self.extra_llc_bytes[ways],
        )


class PlanBatch:
    """Tile plans of some demands; the same numbers as `tile_plans`, to the last digit."""

    def __init__(
        self, recording: Recording, demands: Sequence[Demand], profile: EngineProfile
    ) -> None:
        self._profile = profile
        self._grid = WayGrid(demands, profile)
        most = max((len(demand.products) for demand in demands), default=0)
        self.products = [[_nth(demand, i) for demand in demands] for i in range(most)]
        self._slots = [_Slot(products, profile) for products in self.products]
        rows: list[list[object]] = [
            [getattr(p, name) if p else 0 for p in products]
            for products in self.products
            for name in _SIZES
        ]
        rows.append([demand.vector_ops + demand.special_ops for demand in demands])
        rows.append([demand.moved_bytes for demand in demands])
        self.table = NumberTable(recording, rows)
        self._dense = np.array([not demand.products for demand in demands])

    def ways(self, values: Sequence[Any]) -> tuple[Ways, list[Products]]:
        """All ways of a replay, and the products by place."""
        found = self.table.filled(values)
        size = len(_SIZES)
        products = [Products(*found[i * size : i * size + size]) for i in range(len(self._slots))]
        extents = [(p.rows, p.columns, p.depth) for p in products]
        demand, rows, columns, split = self._grid.ways(extents)
        units = self._elementwise(found[-2], found[-1])[demand]
        steps, extra = np.ones(len(demand)), np.zeros(len(demand))
        macs, uses = [], []
        for slot, sizes in zip(self._slots, products, strict=True):
            cut = slot.cut(sizes, demand, rows, columns, split)
            units, extra = units + cut.units, extra + cut.extra_llc_bytes
            steps = np.maximum(steps, cut.steps)
            macs.append(cut.macs)
            uses.append(cut.uses)
        return Ways(demand, units, steps, tuple(macs), tuple(uses), extra), products

    def _elementwise(self, operations: Floats, moved: Floats) -> Floats:
        """Blocks of the demands without products."""
        tiles = self._profile.elementwise_tiles
        blocks = np.maximum(np.ceil(operations / tiles.operations), np.ceil(moved / tiles.bytes))
        return np.where(self._dense, np.maximum(1.0, blocks), 0.0)


def _nth(demand: Demand, place: int) -> Product | None:
    return demand.products[place] if place < len(demand.products) else None


class _Cut:
    """How the products at one place are cut; zeros where there is none."""

    def __init__(self, ways: int) -> None:
        self.units, self.steps, self.macs, self.uses, self.extra_llc_bytes = np.zeros((5, ways))

    def put(self, ways: NDArray[np.intp], *found: Floats) -> None:
        """Arrays of some of the ways, in the order of the attributes."""
        self.units[ways], self.steps[ways], self.macs[ways] = found[:3]
        self.uses[ways], self.extra_llc_bytes[ways] = found[3:]


class _Slot:
    """Products at one place of the demands."""

    def __init__(self, products: Sequence[Product | None], profile: EngineProfile) -> None:
        self._profile = profile
        self._matrix = np.array([p is not None and p.shape is Shape.MATRIX for p in products])
        self._core = np.array([p is not None and p.shape is Shape.ATTENTION for p in products])
        nbytes = [value_bytes(p.math) if p else (0.0, 0.0) for p in products]
        self._activation, self._weight = np.array(nbytes, dtype=np.float64).T

    def cut(
        self,
        sizes: Products,
        demand: NDArray[np.intp],
        rows: Floats,
        columns: Floats,
        split: Floats,
    ) -> _Cut:
        """Blocks of every way of every demand."""
        cut = _Cut(len(demand))
        own = np.flatnonzero(self._matrix[demand])
        if len(own):
            cut.put(own, *self._blocks(sizes, demand[own], rows[own], columns[own], split[own]))
        own = np.flatnonzero(self._core[demand])
        if len(own):
            cut.put(own, *self._queries(sizes, demand[own], split[own]))
        return cut

    def _blocks(
        self, p: Products, of: NDArray[np.intp], rows: Floats, columns: Floats, split: Floats
    ) -> tuple[Floats, ...]:
        """Blocks of rows x columns outputs, each over a part of the depth."""
        depth, cluster = self._profile.matrix_tiles.depth, self._profile.matrix_tiles.cluster
        row_tiles = np.maximum(1.0, np.ceil(p.rows[of] / rows))
        column_tiles = np.maximum(1.0, np.ceil(p.columns[of] / columns))
        steps = np.maximum(1.0, np.ceil((p.depth / depth)[of] / split))
        tiles = p.count[of] * row_tiles * column_tiles
        weights = (np.ceil(row_tiles / cluster) - 1) * p.columns[of] * self._weight[of]
        activations = (np.ceil(column_tiles / cluster) - 1) * p.rows[of] * self._activation[of]
        again = (p.count * p.depth)[of] * (weights + activations)
        macs = tiles * rows * columns * steps * split * depth
        return np.ceil(tiles * split), steps, macs, row_tiles, again + _partial(p, of, split)

    def _queries(self, p: Products, of: NDArray[np.intp], split: Floats) -> tuple[Floats, ...]:
        """Blocks of one query's heads, each over a part of its keys."""
        tiles = self._profile.attention_tiles
        heads = tiles.head_multiple * np.ceil(p.rows / tiles.head_multiple)
        groups = np.ceil(heads / tiles.heads)
        steps = np.maximum(1.0, np.ceil((p.columns / tiles.keys)[of] / split))
        macs = (p.count * heads)[of] * steps * split * tiles.keys * p.depth[of]
        units = np.ceil((p.count * groups)[of] * split)
        return units, steps, macs, np.zeros(len(of)), _partial(p, of, split)


def _partial(p: Products, of: NDArray[np.intp], split: Floats) -> Floats:
    values = (p.count * p.rows * p.partial_columns)[of]
    return np.where(split > 1, 2.0 * split * values * PARTIAL_BYTES, 0.0)
