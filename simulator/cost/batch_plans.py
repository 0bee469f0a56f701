"""Ways to cut many recorded demands into tiles, all at once: one row of arrays a way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.cost.batch_floor import Floats, NumberTable
from simulator.cost.batch_grid import WayGrid
from simulator.cost.math_rate import product_rate
from simulator.cost.price import Target
from simulator.cost.recording import Recording
from simulator.cost.tile_buffers import (
    PARTIAL_BYTES,
    core_value_bytes,
    cube_cores,
    running_cores,
)
from simulator.cost.tile_plan import elementwise_bytes, value_bytes
from simulator.engine.kernel import Demand, Product, Shape

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
    feed_clocks: Floats

    def chosen(self, ways: NDArray[np.intp]) -> Ways:
        """Some of the ways."""
        return Ways(
            self.demand[ways],
            self.units[ways],
            self.steps[ways],
            tuple(macs[ways] for macs in self.padded_macs),
            tuple(uses[ways] for uses in self.weight_uses),
            self.extra_llc_bytes[ways],
            self.feed_clocks[ways],
        )


class PlanBatch:
    """Tile plans of some demands; the same numbers as `tile_plans`, to the last digit."""

    def __init__(self, recording: Recording, demands: Sequence[Demand], target: Target) -> None:
        self._grid = WayGrid(demands, target.profile, target.chip)
        self._block_bytes = elementwise_bytes(target.profile, cube_cores(target.chip))
        most = max((len(demand.products) for demand in demands), default=0)
        self.products = [[_nth(demand, i) for demand in demands] for i in range(most)]
        self._slots = [_Slot(products, target) for products in self.products]
        rows: list[list[object]] = [
            [getattr(p, name) if p else 0 for p in products]
            for products in self.products
            for name in _SIZES
        ]
        rows.append([demand.vector_ops + demand.special_ops for demand in demands])
        rows.append([demand.moved_bytes for demand in demands])
        rows.append([demand.cache_read_bytes for demand in demands])
        self._cores = np.array([float(running_cores(d, target.chip)[0]) for d in demands])
        self.table = NumberTable(recording, rows)
        self._dense = np.array([not demand.products for demand in demands])

    def ways(self, values: Sequence[Any]) -> tuple[Ways, list[Products]]:
        """All ways of a replay, and the products by place."""
        found = self.table.filled(values)
        size = len(_SIZES)
        products = [Products(*found[i * size : i * size + size]) for i in range(len(self._slots))]
        extents = [(p.rows, p.columns, p.depth) for p in products]
        demand, rows, columns, split = self._grid.ways(extents)
        operations, moved, key_bytes = found[-3:]
        units = np.where(self._dense, self._cores, 0.0)[demand]
        vector_work = operations > 0
        steps = self._elementwise(moved)[demand]
        extra, feed = np.zeros((2, len(demand)))
        macs, uses = [], []
        for slot, sizes in zip(self._slots, products, strict=True):
            cut = slot.cut(sizes, vector_work, key_bytes, demand, rows, columns, split)
            units, extra = units + cut.units, extra + cut.extra_llc_bytes
            feed = feed + cut.feed_clocks
            steps = np.maximum(steps, cut.steps)
            macs.append(cut.macs)
            uses.append(cut.uses)
        return Ways(demand, units, steps, tuple(macs), tuple(uses), extra, feed), products

    def _elementwise(self, moved: Floats) -> Floats:
        """Steps of the demands without products."""
        steps = moved / self._block_bytes / self._cores
        return np.where(self._dense, np.maximum(1.0, steps), 1.0)


def _nth(demand: Demand, place: int) -> Product | None:
    return demand.products[place] if place < len(demand.products) else None


class _Cut:
    """How the products at one place are cut; zeros where there is none."""

    def __init__(self, ways: int) -> None:
        self.units, self.steps, self.macs, self.uses = np.zeros((4, ways))
        self.extra_llc_bytes, self.feed_clocks = np.zeros((2, ways))

    def put(self, ways: NDArray[np.intp], *found: Floats) -> None:
        """Arrays of some of the ways, in the order of the attributes."""
        self.units[ways], self.steps[ways], self.macs[ways] = found[:3]
        self.uses[ways], self.extra_llc_bytes[ways], self.feed_clocks[ways] = found[3:]


class _Slot:
    """Products at one place of the demands."""

    def __init__(self, products: Sequence[Product | None], target: Target) -> None:
        self._profile = target.profile
        self._matrix = np.array([p is not None and p.shape is Shape.MATRIX for p in products])
        self._core = np.array([p is not None and p.shape is Shape.ATTENTION for p in products])
        nbytes = [value_bytes(p.math) if p else (0.0, 0.0) for p in products]
        self._activation, self._weight = np.array(nbytes, dtype=np.float64).T
        self._cube = cube_cores(target.chip)
        rates = [product_rate(target.chip, p) if p else None for p in products]
        self._on_cube = np.array([r is not None and r.unit == "matrix" for r in rates])
        self._value = np.array([core_value_bytes(r) if r else 2.0 for r in rates])
        self._converts = np.array([r is not None and r.convert for r in rates])

    def cut(
        self,
        sizes: Products,
        vector_work: NDArray[np.bool_],
        key_bytes: Floats,
        demand: NDArray[np.intp],
        rows: Floats,
        columns: Floats,
        split: Floats,
    ) -> _Cut:
        """Blocks of every way of every demand."""
        cut = _Cut(len(demand))
        own = np.flatnonzero(self._matrix[demand])
        if len(own):
            tiles = demand[own], rows[own], columns[own], split[own]
            cut.put(own, *self._blocks(sizes, vector_work, *tiles))
        own = np.flatnonzero(self._core[demand])
        if len(own):
            cut.put(own, *self._queries(sizes, key_bytes, demand[own], split[own]))
        return cut

    def _blocks(
        self,
        p: Products,
        vector_work: NDArray[np.bool_],
        of: NDArray[np.intp],
        rows: Floats,
        columns: Floats,
        split: Floats,
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
        extra, feed = np.zeros((2, len(of)))
        handed = np.zeros(len(of), dtype=np.bool_)
        if self._cube is not None:
            own = self._on_cube[of]
            feed = np.where(own, self._cube.feed_clocks(self._value[of], macs, rows, columns), 0.0)
            extra = self._converted(p, of, row_tiles)
            handed = own & vector_work[of] & self._cube.through_llc
        passed = _passed(p, of, split, (split > 1) | handed)
        return np.ceil(tiles * split), steps, macs, row_tiles, again + passed + extra, feed

    def _queries(
        self, p: Products, key_bytes: Floats, of: NDArray[np.intp], split: Floats
    ) -> tuple[Floats, ...]:
        """Blocks of one query's heads, each over a part of its keys, which each block fetches."""
        tiles, parts = self._profile.attention_tiles, split
        handed = np.zeros(len(of), dtype=np.bool_)
        heads = tiles.head_multiple * np.ceil(p.rows / tiles.head_multiple)
        steps = np.maximum(1.0, np.ceil((p.columns / tiles.keys)[of] / split))
        pairs = (p.count * heads)[of] * steps * split * tiles.keys
        block = np.full(len(p.rows), float(tiles.heads))
        extra, feed = np.zeros((2, len(of)))
        if self._cube is not None:
            cube, value, outputs = self._cube, self._value, p.partial_columns
            most = cube.block_heads(tiles.heads, tiles.head_multiple, tiles.keys, outputs)
            block = np.where(self._core & self._on_cube, np.minimum(heads, most), block)
            fed = cube.feed_clocks(value[of], pairs * p.depth[of], block[of], tiles.keys)
            own = self._on_cube[of]
            feed = np.where(own, fed, 0.0)
            extra = self._converted(p, of, np.ones(len(of)))
            if cube.through_llc:
                # Places without such a product have no entry: their keys count for nothing.
                entry = np.where(self._core, p.depth - outputs, 1.0)
                keys = np.asarray(cube.round_keys(value, block, tiles.keys, entry, outputs))
                parts = np.where(own, split * np.ceil(steps * tiles.keys / keys[of]), split)
                scores = cube.score_bytes(value[of], pairs, outputs[of])
                extra, handed = extra + np.where(own, scores, 0.0), own
        blocks = np.ceil(heads / block)
        units = np.ceil((p.count * blocks)[of] * split)
        extra = ((blocks - 1) * key_bytes)[of] + extra
        passed = _passed(p, of, parts, (split > 1) | handed)
        return units, steps, pairs * p.depth[of], np.zeros(len(of)), passed + extra, feed

    def _converted(self, p: Products, of: NDArray[np.intp], uses: Floats) -> Floats:
        assert self._cube is not None
        if not self._cube.through_llc:
            return np.zeros(len(of))
        nbytes = 2 * p.weight_elements[of] * uses * self._value[of]
        return np.where((self._converts & self._on_cube)[of], nbytes, 0.0)


def _passed(p: Products, of: NDArray[np.intp], parts: Floats, passed: NDArray[np.bool_]) -> Floats:
    values = (p.count * p.rows * p.partial_columns)[of]
    return np.where(passed, 2.0 * parts * values * PARTIAL_BYTES, 0.0)
