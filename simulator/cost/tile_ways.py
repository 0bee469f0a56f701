"""Ways to cut kernels into tiles: how many blocks for the cores, and what cutting costs.

All ways of many demands at once, as arrays with one value a way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.chip import ChipSpec
from simulator.basis.errors import UnsupportedError
from simulator.cost.math_rate import product_rate
from simulator.cost.price import Target
from simulator.cost.recording import Recording
from simulator.cost.roofline import Floats, NumberTable
from simulator.cost.tile_buffers import (
    PARTIAL_BYTES,
    CubeCores,
    core_value_bytes,
    cube_cores,
    running_cores,
    tile_holder,
)
from simulator.engine.kernel import Demand, Product, Shape
from simulator.engine.kernel_section import AttentionTiles
from simulator.engine.profile import EngineProfile
from workloads.math_class import MATH_CLASSES

_SIZES = ("count", "rows", "columns", "depth", "macs", "weight_elements", "partial_columns")

# Rows, columns and depth of the products at one place of the demands.
Extents = tuple[Floats, Floats, Floats]
# Whose way each is, then rows and columns of its tiles and its split.
Grid = tuple[NDArray[np.intp], Floats, Floats, Floats]


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
    """Ways to cut demands, demand after demand, smallest split and tiles first.

    `demand` is whose way each is. `units` equal blocks run on the cores, each a loop of `steps`;
    `padded_macs` are the multiply-adds of each product with partial tiles filled up;
    `extra_llc_bytes` what tiles fetch again or leave for others to add up; `weight_uses` how often
    each product's weights are fetched; `feed_clocks` the clocks of one cube core to fill its L0
    buffers with all that it multiplies. The rest says which way it is: tile sides, parts of the
    depth or of the keys, blocks of heads; zeros where there are none. Tuples have an entry for
    each place of a product. More steps expose less of the first and last, so that more work may
    even take less time.
    """

    demand: NDArray[np.intp]
    units: Floats
    steps: Floats
    padded_macs: tuple[Floats, ...]
    weight_uses: tuple[Floats, ...]
    extra_llc_bytes: Floats
    feed_clocks: Floats
    rows: Floats
    columns: Floats
    split: Floats
    head_blocks: Floats

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
            self.rows[ways],
            self.columns[ways],
            self.split[ways],
            self.head_blocks[ways],
        )

    def cut(self, way: int) -> str:
        """One way in words."""
        rows, columns, split = self.rows[way], self.columns[way], self.split[way]
        steps, head_blocks = self.steps[way], self.head_blocks[way]
        words = (
            f"tiles {rows:.0f} x {columns:.0f}" if rows else "",
            f"{head_blocks:.0f} blocks of heads" if head_blocks else "",
            f"split in {split:.0f}" if split > 1 else "",
            f"{steps:.4g} steps" if not rows and steps > 1 else "",
        )
        return ", ".join(word for word in words if word)


class TileWays:
    """Ways that a profile allows for some demands and the chip's cores hold.

    Raises `UnsupportedError` where cube cores hold none.

    Assumes: an operand's tile is fetched from the last-level cache by every block that uses it,
        once for a cluster of blocks where the engine has clusters, on every chip.
    Assumes: the matrix units reach their peak on every tile size that the engine has, and vector
        work and loads spread evenly over the tiles, also where the last one is hardly filled: a
        row more than a tile holds may take a little less time.
    Assumes: a kernel without products is spread evenly over all cores, however small it is.
    """

    def __init__(self, recording: Recording, demands: Sequence[Demand], target: Target) -> None:
        self._grid = WayGrid(demands, target.profile, target.chip)
        self._block_bytes = 1
        if any(not demand.products for demand in demands):
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
        self._tiled = np.array(
            [any(p.shape is Shape.MATRIX for p in demand.products) for demand in demands]
        )

    def ways(self, values: Sequence[Any]) -> tuple[Ways, list[Products]]:
        """All ways of a replay, and the products by place."""
        found = self.table.filled(values)
        size = len(_SIZES)
        products = [Products(*found[i * size : i * size + size]) for i in range(len(self._slots))]
        extents = [(p.rows, p.columns, p.depth) for p in products]
        demand, rows, columns, split = self._grid.allowed(extents)
        operations, moved, key_bytes = found[-3:]
        units = np.where(self._dense, self._cores, 0.0)[demand]
        vector_work = operations > 0
        steps = self._elementwise(moved)[demand]
        extra, feed, head_blocks = np.zeros((3, len(demand)))
        macs, uses = [], []
        for slot, sizes in zip(self._slots, products, strict=True):
            cut = slot.cut(sizes, vector_work, key_bytes, demand, rows, columns, split)
            units, extra = units + cut.units, extra + cut.extra_llc_bytes
            feed = feed + cut.feed_clocks
            steps = np.maximum(steps, cut.steps)
            head_blocks = np.maximum(head_blocks, cut.head_blocks)
            macs.append(cut.macs)
            uses.append(cut.uses)
        tiled = self._tiled[demand]
        sides = np.where(tiled, rows, 0.0), np.where(tiled, columns, 0.0), split, head_blocks
        ways = Ways(demand, units, steps, tuple(macs), tuple(uses), extra, feed, *sides)
        return ways, products

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
        self.extra_llc_bytes, self.feed_clocks, self.head_blocks = np.zeros((3, ways))

    def put(self, ways: NDArray[np.intp], *found: Floats) -> None:
        """Arrays of some of the ways, in the order of the attributes."""
        self.units[ways], self.steps[ways], self.macs[ways] = found[:3]
        self.uses[ways], self.extra_llc_bytes[ways], self.feed_clocks[ways] = found[3:6]
        self.head_blocks[ways] = found[6]


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
        units, extra = np.ceil(tiles * split), again + passed + extra
        return units, steps, macs, row_tiles, extra, feed, np.zeros(len(of))

    def _queries(
        self, p: Products, key_bytes: Floats, of: NDArray[np.intp], split: Floats
    ) -> tuple[Floats, ...]:
        """Blocks of one query's heads, each over a part of its keys, which each block fetches."""
        tiles, parts = attention_tiles(self._profile), split
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
        macs, uses = pairs * p.depth[of], np.zeros(len(of))
        return units, steps, macs, uses, passed + extra, feed, blocks[of]

    def _converted(self, p: Products, of: NDArray[np.intp], uses: Floats) -> Floats:
        assert self._cube is not None
        if not self._cube.through_llc:
            return np.zeros(len(of))
        nbytes = 2 * p.weight_elements[of] * uses * self._value[of]
        return np.where((self._converts & self._on_cube)[of], nbytes, 0.0)


def _passed(p: Products, of: NDArray[np.intp], parts: Floats, passed: NDArray[np.bool_]) -> Floats:
    values = (p.count * p.rows * p.partial_columns)[of]
    return np.where(passed, 2.0 * parts * values * PARTIAL_BYTES, 0.0)


class WayGrid:
    """Splits and tile sides of some demands, those of one after those of another."""

    def __init__(self, demands: Sequence[Demand], profile: EngineProfile, chip: ChipSpec) -> None:
        self._profile = profile
        found = [(i, *way) for i, d in enumerate(demands) for way in _ways(d, profile, chip)]
        demand, *self._tiles = np.array(found, dtype=np.float64).T
        self._demand = demand.astype(np.intp)
        places = range(max(len(demand.products) for demand in demands))
        self._matrix = [_are(Shape.MATRIX, demands, i) for i in places]
        self._core = [_are(Shape.ATTENTION, demands, i) for i in places]
        self._attends = any(core.any() for core in self._core)

    def allowed(self, extents: Sequence[Extents]) -> Grid:
        """Those with no larger tiles, and no more splits, than the products of a step have."""
        rows, below_rows, columns, below_columns, split = self._tiles
        tallest = widest = steps = np.zeros(1)
        depth = self._profile.matrix_tiles.depth
        keys = attention_tiles(self._profile).keys if self._attends else 1
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
        largest = max(largest, attention_tiles(profile).largest_split)
    for i in range(largest.bit_length()):
        for row, below_row in rows:
            for column, below_column in columns:
                if row * column <= area and holder.holds(row, column):
                    yield row, below_row, column, below_column, float(1 << i)


def _with_below(sizes: Sequence[int]) -> list[tuple[float, float]]:
    ordered = [float(size) for size in sorted(sizes)]
    return list(zip(ordered, [-math.inf, *ordered], strict=False))


def attention_tiles(profile: EngineProfile) -> AttentionTiles:
    """Tiles of attention; raises `UnsupportedError` where the profile has none."""
    if profile.attention_tiles is None:
        raise _missing(profile, "attention_tiles", "attention")
    return profile.attention_tiles


def _missing(profile: EngineProfile, what: str, kernel: str) -> UnsupportedError:
    return UnsupportedError(
        f"engine {profile.name} has no {what}, but {kernel} is to be priced by tiles; give them "
        "beside matrix_tiles in its section of kernels, or a program that prices the kernel"
    )


def elementwise_bytes(profile: EngineProfile, cube: CubeCores | None) -> int:
    """Bytes of a block of a kernel without products: half a unified buffer holds them."""
    if profile.elementwise_tiles is None:
        raise _missing(profile, "elementwise_tiles", "a kernel without matrix products")
    most = profile.elementwise_tiles.bytes
    return most if cube is None else min(most, cube.unified_bytes // 2)


def value_bytes(math_class: str) -> tuple[float, float]:
    """Bytes of an activation and of a weight on their way from the last-level cache to a core."""
    own = MATH_CLASSES.get(math_class, MATH_CLASSES["bf16"])
    return own.activation_bytes, own.weight_bytes
