"""Cube and vector cores of a chip that has both: what their buffers hold, and what passes between.

Other chips have one kind of core, whose tiles an engine's profile lists as they fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwmodels.chip import ChipSpec
from simulator.basis.errors import InputError, UnsupportedError
from simulator.basis.units import format_bytes
from simulator.cost.math_rate import MathRate, product_rate
from simulator.engine.kernel import Demand, Shape

Values = float | NDArray[np.float64]

PARTIAL_BYTES = 4  # parts of a split sum, accumulators and scores are kept in FP32
# Depth of a fragment in L0A and L0B: 64 BF16 values. Guessed: with it the largest tile of a 910B
# (128 x 256) fills L0B and L0C exactly.
_FRAGMENT_BYTES = 128
_VALUE_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp8": 1.0, "fp4": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class CubeCores:
    """Buffers of one cube core in bytes; `unified_bytes` of each of its `vector_cores`.

    Rates are bytes a clock from L1 into a core's L0A and L0B. `through_llc`: cube and vector cores
    exchange values through the last-level cache; else directly.

    Assumes: a tile of a matrix product holds its accumulators in L0C (FP32), two fragments of 128
        bytes' depth of either operand in L0A and L0B, and two steps of either operand in L1; tiles
        that a cube core cannot hold are not chosen.
    Assumes: L1 fills L0A and L0B one after the other, beside the cube; each operand's fragments
        are loaded once for each tile that uses them.
    Assumes: an attention block has as many heads as L0C holds of its scores or outputs, and hands
        on scores and outputs after as many keys as L1 (two rounds of keys, the query, two rounds
        of probabilities) and the unified buffers (two rounds of scores) hold.
    Assumes: products without a matrix unit for them, and kernels without products, run on the
        vector cores, whose tiles fit the unified buffer twice.
    Assumes: what cube and vector cores exchange through the last-level cache never leaves it; it
        is written once and read once: FP32 scores and outputs, converted weights and probabilities
        in the type that the cube multiplies.
    Assumes: a fused kernel with vector work hands all outputs of its matrix products to the vector
        cores, wherever in the kernel that work stands.
    """

    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    unified_bytes: int
    vector_cores: float
    l0a_bytes_per_clock: float
    l0b_bytes_per_clock: float
    through_llc: bool

    def holds(self, rate: MathRate, rows: float, columns: float, depth: float) -> bool:
        """Whether a tile of rows x columns outputs, `depth` a step, fits the cores it runs on."""
        staged = 2 * (rows + columns) * depth * core_value_bytes(rate)
        outputs = rows * columns * PARTIAL_BYTES
        if rate.unit == "vector":
            return staged + outputs <= self.unified_bytes
        return (
            staged <= self.l1_bytes
            and 2 * rows * _FRAGMENT_BYTES <= self.l0a_bytes
            and 2 * columns * _FRAGMENT_BYTES <= self.l0b_bytes
            and outputs <= self.l0c_bytes
        )

    def feed_clocks(self, value: Values, macs: Values, rows: Values, columns: Values) -> Values:
        """Clocks of one core to bring the operands of so many multiply-adds from L1 into L0.

        `value` are bytes of a value; an operand's fragment serves a whole side of the tile.
        """
        a = value / (columns * self.l0a_bytes_per_clock)
        b = value / (rows * self.l0b_bytes_per_clock)
        return macs * (a + b)

    def block_heads(self, heads: int, multiple: int, keys: int, partial_columns: Values) -> Values:
        """Heads of an attention block: at most `heads`, a multiple of `multiple`."""
        row = PARTIAL_BYTES * np.maximum(keys, partial_columns)
        most = multiple * np.floor(self.l0c_bytes / row / multiple)
        return np.maximum(multiple, np.minimum(heads, most))

    def round_keys(
        self, value: Values, heads: Values, keys: int, entry: Values, partial_columns: Values
    ) -> Values:
        """Keys between exchanges, a multiple of `keys`; an entry has `entry` values."""
        probabilities = np.where(partial_columns > 0, 2 * heads * value, 0.0)
        room = (self.l1_bytes - heads * entry * value) / (2 * entry * value + probabilities)
        scores = self.vector_cores * self.unified_bytes / (2 * heads * PARTIAL_BYTES)
        return keys * np.maximum(1.0, np.floor(np.minimum(room, scores) / keys))

    def score_bytes(self, value: Values, pairs: Values, partial_columns: Values) -> Values:
        """Bytes of scores of (head, key) pairs to the vector cores, and of probabilities back."""
        back = np.where(partial_columns > 0, 2 * value, 0.0)
        return pairs * (2 * PARTIAL_BYTES + back)


def cube_cores(chip: ChipSpec) -> CubeCores | None:
    """Cube cores of a chip whose cores have L0 buffers; None for others.

    Raises `InputError` where some of their numbers are left out.
    """
    cores = chip.cores
    named = {
        name: getattr(cores, name)
        for name in ("l0a", "l0b", "l0c", "unified_buffer", "l1_to_l0a", "l1_to_l0b")
    }
    missing = [name for name, value in named.items() if value is None]
    if cores.l0c is None and cores.l0a is None and cores.l0b is None:
        return None
    if missing:
        raise InputError(
            f"{chip.name} has cube cores (an L0 buffer is given), but no {', '.join(missing)} "
            "under 'cores'; give all of them, or none of l0a, l0b and l0c"
        )
    return CubeCores(
        l1_bytes=chip.smem_bytes_per_core,
        l0a_bytes=named["l0a"].whole,
        l0b_bytes=named["l0b"].whole,
        l0c_bytes=named["l0c"].whole,
        unified_bytes=named["unified_buffer"].whole,
        vector_cores=chip.vector_core_count / chip.core_count,
        l0a_bytes_per_clock=named["l1_to_l0a"].si,
        l0b_bytes_per_clock=named["l1_to_l0b"].si,
        through_llc=cores.cube_to_vector == "llc",
    )


def core_value_bytes(rate: MathRate) -> float:
    """Bytes of an operand's value as the unit multiplies it."""
    return _VALUE_BYTES.get(rate.runs_in, 2.0)


def tile_holder(demand: Demand, chip: ChipSpec, depth: int) -> TileHolder:
    """Which tiles the chip's cores hold of a kernel's matrix products."""
    cube = cube_cores(chip)
    rates = [product_rate(chip, p) for p in demand.products if p.shape is Shape.MATRIX]
    return TileHolder(chip.name, cube, tuple(dict.fromkeys(rates)), depth)


@dataclass(frozen=True, slots=True)
class TileHolder:
    """Rates of a kernel's matrix products, and the cube cores that have to hold their tiles."""

    chip: str
    cube: CubeCores | None
    rates: tuple[MathRate, ...]
    depth: int

    def holds(self, rows: float, columns: float) -> bool:
        """Whether a tile of so many outputs fits."""
        cube = self.cube
        return cube is None or all(cube.holds(r, rows, columns, self.depth) for r in self.rates)

    def check(self, rows: float, columns: float) -> None:
        """Raises `InputError` where not even the smallest tile fits."""
        if not self.holds(rows, columns):
            cube = self.cube
            assert cube is not None
            raise UnsupportedError(
                f"cores of {self.chip} cannot hold the engine's smallest tile, {rows:.0f} x "
                f"{columns:.0f} x {self.depth}, with L0A {format_bytes(cube.l0a_bytes)}, L0B "
                f"{format_bytes(cube.l0b_bytes)}, L0C {format_bytes(cube.l0c_bytes)}, L1 "
                f"{format_bytes(cube.l1_bytes)} and unified buffer "
                f"{format_bytes(cube.unified_bytes)}; give smaller matrix_tiles"
            )


def running_cores(demand: Demand, chip: ChipSpec) -> tuple[int, int]:
    """(cores that a kernel's blocks run on, bytes that software manages beside each)."""
    own = chip.cores.unified_buffer
    on_cube = any(product_rate(chip, p).unit == "matrix" for p in demand.products)
    if on_cube or own is None or cube_cores(chip) is None:
        return chip.core_count, chip.smem_bytes_per_core
    return chip.vector_core_count, own.whole
