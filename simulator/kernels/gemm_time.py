"""Time of a GEMM: tiles over cores in waves, a K loop a tile, weights from memory, power.

Seconds = launch + root(tiles^2 + memory^2) + joining of K splits, slowed by the power limit:

- tiles: waves x (K blocks x (matrix time of a block + its wait) + epilogue), for the fastest of
  the kernel's tile shapes and K splits, or for the one that the kernel's published rule takes;
- memory: weights, activations and output that are not in the last-level cache, over bandwidth;
- power: FLOPs x energy of one over those seconds; above TDP, the clock falls.

Constants by name: `floor`, `stream`, `flop_energy`, `block_wait` in every GEMM family, `join` in
those that split K, `move` in those that quantise or write tiles between matrix work.

Assumes: operands of a GEMM reach the cores in time; activations and output stay in cache between
    kernels as far as they fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodels.chip import ChipSpec
from simulator.basis.errors import UnsupportedError
from simulator.kernels.gemm_tiles import (
    ACCUMULATOR_BYTES,
    KERNELS,
    OUTPUT_BYTES,
    GemmKernel,
    OperandFormat,
)
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.pipes import TINY, imperfectly_overlapped
from simulator.kernels.power import power_seconds, with_power_limit
from simulator.kernels.warmth import ROTATION_FADE, memory_bytes_per_s, warm_share
from simulator.kernels.waves import tiles_of, waves_of

MICRO = 1e-6
# Part of a join that passes whatever the number of tiles: splits meet, the last writes the result.
# The rest grows with the share of the cores that write sums at the same time.
JOIN_ALONE = 0.5


@dataclass(frozen=True, slots=True)
class _TileTimes:
    """Seconds on the fullest core, by what it does, and of the joining of K splits."""

    matrix: Floats
    wait: Floats
    epilogue: Floats
    padding: Floats
    join_traffic: Floats
    join_chain: Floats
    # Multiply-adds of whole tiles, and bytes of the sums that splits leave.
    macs: Floats
    sums_bytes: Floats

    @property
    def loop(self) -> Floats:
        """Seconds that overlap with memory."""
        return self.matrix + self.wait + self.epilogue + self.padding

    @property
    def join(self) -> Floats:
        """Seconds after the K loops."""
        return self.join_traffic + self.join_chain

    def of_tile(self, tiles: NDArray[np.intp]) -> _TileTimes:
        """Times of one tile a call, of times [tiles, calls]."""
        calls = np.arange(len(tiles))
        chain = np.broadcast_to(self.join_chain, self.matrix.shape)
        return _TileTimes(
            self.matrix[tiles, calls],
            self.wait[tiles, calls],
            self.epilogue[tiles, calls],
            self.padding[tiles, calls],
            self.join_traffic[tiles, calls],
            chain[tiles, calls],
            self.macs[tiles, calls],
            self.sums_bytes[tiles, calls],
        )


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds of one K block on a core: its matrix work and wait; and of writing a tile."""

    matrix: Floats
    wait: Floats
    epilogue: Floats


@dataclass(frozen=True, slots=True)
class Gemm:
    """Calls of one kernel on one chip."""

    m: Floats
    n: Floats
    k: Floats
    kernel: GemmKernel
    chip: ChipSpec
    constants: Mapping[str, float]
    weight_bytes: Floats
    # Multiply-adds of an output and depth: 1 unless an operation has more.
    work: Floats

    @property
    def operations(self) -> Floats:
        """FLOPs without padding; a multiply-add is two."""
        return 2.0 * self.m * self.n * self.k * self.work

    def core_rate(self) -> float:
        """FLOP/s of one core, at the clock of the published peak."""
        dtype = self.kernel.format.matrix_dtype
        peak = self.chip.matrix_flops_per_s(dtype)
        if peak is None:
            raise UnsupportedError(
                f"chip {self.chip.name} has no {dtype} matrix unit for this GEMM"
            )
        return peak / self.chip.core_count

    def tile_times(self, tokens: Floats, columns: Floats, splits: Floats) -> _TileTimes:
        """Seconds with tiles of tokens x columns and K in so many splits.

        Matrix work counts whole tiles, padding included. Splits write and read FP32 sums through
        the cache and wait for each other once, the longer the more cores do so at once.

        Assumes: operands reach the cores in time (multicast and two-core tiles keep the traffic
        of the cache under its bandwidth).
        """
        form, chip = self.kernel.format, self.chip
        tiles = tiles_of(self.m, tokens) * tiles_of(self.n, columns) * splits
        waves = waves_of(tiles, chip.core_count)
        blocks = tiles_of(self.k / splits, form.k_block)
        stage = self.stage_times(tokens, columns)
        sums = np.where(splits > 1, self.m * self.n * ACCUMULATOR_BYTES * (splits + 1.0), 0.0)
        crowd = JOIN_ALONE + (1.0 - JOIN_ALONE) * np.minimum(tiles / chip.core_count, 1.0)
        return _TileTimes(
            waves * blocks * stage.matrix,
            waves * blocks * stage.wait,
            waves * stage.epilogue,
            self.padding_seconds(tokens, columns),
            sums / chip.llc_bandwidth_bytes_per_s,
            np.where(splits > 1, self.constants.get("join", 0.0) * MICRO * crowd, 0.0),
            tiles * blocks * tokens * columns * form.k_block * self.work,
            sums,
        )

    def stage_times(self, tokens: Floats, columns: Floats) -> StageTimes:
        """Seconds of one K block of a tile, and of the tile's end."""
        form, chip = self.kernel.format, self.chip
        matrix = 2.0 * tokens * columns * form.k_block * self.work / self.core_rate()
        if "feed" in self.constants:
            operands = tokens * form.activation_bytes + columns * form.weight_bytes
            wait = operands * form.k_block / (self.constants["feed"] * chip.clock_hz)
        else:
            wait = np.full_like(matrix, self.constants["block_wait"] / chip.clock_hz)
        if self.kernel.waits == "latency":
            wait = np.maximum(wait - matrix, 0.0)
        epilogue = np.zeros_like(matrix)
        if not self.kernel.overlaps_epilogue:
            rate = move_rate(chip, self.constants) / chip.core_count
            epilogue = tokens * columns * OUTPUT_BYTES / rate
        return StageTimes(matrix, wait, epilogue)

    def padding_seconds(self, tokens: Floats, columns: Floats) -> Floats:
        """Seconds in which tiles fetch rows of activations beyond the last token, where they do.

        Assumes: they come from one place of the last-level cache, for all cores in turn.
        """
        share = self.kernel.tiling(self.chip).padded_rows
        rows = tiles_of(self.m, tokens) * tokens - self.m
        if share is None:
            return np.zeros_like(rows * columns)
        form = self.kernel.format
        fetched = rows * tiles_of(self.n, columns) * self.k * form.activation_bytes
        return fetched / (self.chip.llc_bandwidth_bytes_per_s * share)

    @property
    def around_bytes(self) -> Floats:
        """Activations and output."""
        return (
            self.m * self.k * self.kernel.format.activation_bytes + self.m * self.n * OUTPUT_BYTES
        )

    def memory_seconds(self, weights_warm: Floats) -> Floats:
        """Seconds of memory traffic: cold weights, and what is too large to stay in cache.

        Assumes: activations and output stay in cache between kernels as far as they fit.
        """
        around = self.around_bytes
        cold = self.weight_bytes * (1.0 - weights_warm)
        cold = cold + around * (1.0 - warm_share(around, self.chip, ROTATION_FADE))
        return cold / (memory_bytes_per_s(self.chip) * self.constants["stream"])

    def fastest(self, memory: Floats) -> _TileTimes:
        """Tile times of the shape and split that the kernel takes, call by call."""
        times, best = self._compared(memory)
        return times.of_tile(best)

    def shape(self, weights_warm: Floats) -> tuple[int, int, int]:
        """Tokens, columns and K splits of that shape, for the first call."""
        _, best = self._compared(self.memory_seconds(weights_warm))
        tokens, columns, splits = self.kernel.tiling(self.chip).table[:, best[0]]
        return int(tokens), int(columns), int(splits)

    def _compared(self, memory: Floats) -> tuple[_TileTimes, NDArray[np.intp]]:
        """Times of all shapes, and for each call the number of the one that is taken."""
        tiling = self.kernel.tiling(self.chip)
        times = self.tile_times(*tiling.table[:, :, np.newaxis])
        total = np.sqrt(times.loop**2 + memory**2) + times.join
        return times, tiling.rank(self.m, self.n, total, self.chip.core_count).argmin(axis=0)

    def seconds(self, weights_warm: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Seconds by cause, before the power limit, and the work that they are for.

        Matrix time beyond that of the unpadded work spread over all cores is `tail`.
        """
        memory = self.memory_seconds(weights_warm)
        times = self.fastest(memory)
        loop, dram = imperfectly_overlapped(times.loop, memory)
        share = loop / np.maximum(times.loop, TINY)
        useful = self.operations / (self.core_rate() * self.chip.core_count)
        work = {
            "macs": times.macs,
            "tile_padding_macs": times.macs - self.operations / 2,
            "partial_sum_bytes": times.sums_bytes,
        }
        seconds = {
            "launch": np.full(self.m.shape, self.constants["floor"] * MICRO),
            "dram_bandwidth": dram,
            "llc": (times.epilogue + times.padding) * share + times.join_traffic,
            "matrix": useful * share,
            "tail": np.maximum(times.matrix - useful, 0.0) * share,
            "serial": times.wait * share + times.join_chain,
        }
        return seconds, work


def _broadcast(*sizes: ArrayLike) -> Sequence[Floats]:
    """Rows of equal lengths."""
    found = [np.asarray(size, dtype=np.float64).reshape(-1) for size in sizes]
    longest = max(len(size) for size in found)
    return [size if len(size) == longest else np.broadcast_to(size, longest) for size in found]


def move_rate(chip: ChipSpec, constants: Mapping[str, float]) -> float:
    """Bytes a second that all cores move in elementwise work: bound by cycles, not by memory."""
    return constants["move"] * chip.core_count * chip.clock_hz


def quantised_bytes(m: Floats, k: Floats, form: OperandFormat) -> Floats:
    """Bytes that a quantise kernel reads and writes."""
    return m * k * (2.0 * form.passes + form.activation_bytes)


def quantise_seconds(
    m: Floats, k: Floats, form: OperandFormat, chip: ChipSpec, constants: Mapping[str, float]
) -> dict[str, Floats]:
    """Quantise kernel of m x k activations: its launch, reads of BF16 and writes of the format."""
    return {
        "launch": np.full(m.shape, chip.launch_gap_s),
        "vector": quantised_bytes(m, k, form) / move_rate(chip, constants),
    }


def gemm_parts(
    m: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    dtype: str,
    chip: ChipSpec,
    constants: Mapping[str, float],
    *,
    weights_warm: ArrayLike = 0.0,
    quantise: bool = False,
    kernel: GemmKernel | None = None,
) -> Parts:
    """Seconds of C[m, n] = A[m, k] B[k, n] by cause.

    `dtype` is bfloat16, fp8_block or nvfp4; `weights_warm` the share of B already in the
    last-level cache; `quantise` adds the kernel that makes A from BF16 activations. `kernel`
    defaults to the open engines' kernel of the type, `constants` are those of its family.
    """
    kernel = kernel or KERNELS[dtype]
    rows, columns, depth, warm = _broadcast(m, n, k, weights_warm)
    stored = columns * depth * kernel.format.weight_bytes
    one = np.ones_like(rows)
    gemm = Gemm(rows, columns, depth, kernel, chip, constants, stored, one)
    return _parts(gemm, warm, one * quantise)


def gemm_of(
    kernel: GemmKernel,
    calls: Mapping[str, NDArray[np.generic]],
    chip: ChipSpec,
    constants: Mapping[str, float],
) -> tuple[Gemm, Floats, Floats]:
    """Calls with named sizes, the share of their weights in cache, and whether each quantises."""
    c = {name: np.asarray(value, dtype=np.float64) for name, value in calls.items()}
    rows, columns, depth = c["rows"], c["columns"], c["depth"]
    work = c["macs"] / np.maximum(rows * columns * depth, 1.0)
    quantise = (1.0 - c["quantised"]) * kernel.quantises
    gemm = Gemm(rows, columns, depth, kernel, chip, constants, c["weight_bytes"], work)
    return gemm, c["warm"], quantise


def gemm_family_parts(
    kernel: GemmKernel,
    calls: Mapping[str, NDArray[np.generic]],
    chip: ChipSpec,
    constants: Mapping[str, float],
) -> Parts:
    """Seconds of calls with named sizes (see `GemmFamily.parts`); some weights may be in cache.

    Assumes: where a module is replayed, the wait of a K block is a wait for its weights, shorter
        from the cache in the ratio of the latencies; where copies of one GEMM's weights are
        rotated, cached ones only take no memory traffic (no gain in the wait is seen there).
    """
    gemm, warm, quantise = gemm_of(kernel, calls, chip, constants)
    rows = gemm.m
    far = _parts(gemm, warm, quantise)
    replayed = np.asarray(calls["replayed"], dtype=np.float64)
    if not replayed.any():
        return far
    nearer = chip.llc_latency_s / chip.dram_latency_s
    cached = nearer_waits(constants, nearer)
    near = _parts(replace(gemm, constants=cached), np.ones_like(rows), quantise)
    seconds = {
        k: far.seconds[k] * (1.0 - replayed) + near.seconds[k] * replayed for k in far.seconds
    }
    return Parts(seconds, work=far.work)


def _parts(gemm: Gemm, weights_warm: Floats, quantise: Floats) -> Parts:
    """Seconds with a share of the weights in cache, quantise kernels, and the power limit."""
    seconds, work = gemm.seconds(weights_warm)
    if quantise.any():
        form = gemm.kernel.format
        before = quantise_seconds(gemm.m, gemm.k, form, gemm.chip, gemm.constants)
        for cause, value in before.items():
            seconds[cause] = seconds.get(cause, 0.0) + value * quantise
    busy = Parts(seconds).total
    energy = flop_energy_of(gemm.constants)
    limit = power_seconds(gemm.operations, energy, gemm.chip)
    return Parts(with_power_limit(seconds, limit, busy), work=work)


def flop_energy_of(constants: Mapping[str, float]) -> float:
    """Energy of a FLOP in pJ; none where a family's rows show no power limit."""
    return constants.get("flop_energy", 0.0)


def nearer_waits(constants: Mapping[str, float], nearer: float) -> Mapping[str, float]:
    """Constants where the wait of a K block is this share of its own; rates of loads stay."""
    if "block_wait" not in constants:
        return constants
    return {**constants, "block_wait": constants["block_wait"] * nearer}
