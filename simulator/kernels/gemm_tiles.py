"""GEMM kernels as engines build them: operand formats, tile shapes, split-K, how K blocks wait.

These are discrete choices of the kernels' authors, each with its reason; nothing here is fitted.
C[m, n] = A[m, k] B[k, n] with A the activations (m tokens) and B the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Literal

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.parts import Floats
from simulator.kernels.waves import tiles_of, waves_of


@dataclass(frozen=True, slots=True)
class OperandFormat:
    """Bytes an element of weights and activations with their scales, and the matrix unit's type.

    `k_block` is the depth of one step of the K loop: 128 bytes of a row, the widest swizzle that
    the copy engine writes to shared memory. `passes` is how often a quantise kernel reads the
    BF16 activations: once where a scale covers 128 neighbours that a warp holds in registers,
    twice where a scale of the whole tensor has to be known first.
    """

    matrix_dtype: str
    weight_bytes: float
    activation_bytes: float
    k_block: int
    passes: int


# FP8 scales are FP32: one for 128 x 128 weights, one for 128 activations of a row.
# NVFP4 scales are one byte (e4m3) for 16 elements, and one for the whole tensor.
FORMATS = {
    "bfloat16": OperandFormat("bf16", 2.0, 2.0, 64, 0),
    "fp8_block": OperandFormat("fp8", 1 + 4 / 128**2, 1 + 4 / 128, 128, 1),
    "nvfp4": OperandFormat("fp4", 0.5 + 1 / 16, 0.5 + 1 / 16, 256, 2),
}
OUTPUT_BYTES = 2.0
ACCUMULATOR_BYTES = 4.0


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles that a kernel may use; it takes the fastest, as a tuned heuristic would.

    `long_sides` x `short_sides`, the long side along the tokens, or along either where `swaps`.
    `padded_rows` is the rate at which rows beyond the operand are fetched, as a share of the
    last-level cache's; none where they cost nothing.
    """

    long_sides: tuple[int, ...]
    short_sides: tuple[int, ...]
    swaps: bool = False
    splits: tuple[int, ...] = (1,)
    padded_rows: float | None = None

    def shapes(self) -> Iterator[tuple[int, int, int]]:
        """Tokens, weights' columns and K splits of each tile."""
        for long, short in product(self.long_sides, self.short_sides):
            sides = {(long, short), (short, long)} if self.swaps else {(long, short)}
            for (tokens, columns), split in product(sorted(sides), self.splits):
                yield tokens, columns, split

    @property
    def table(self) -> Floats:
        """Shapes as an array: rows are tokens, columns and splits."""
        return _table(self)

    def rank(self, m: Floats, n: Floats, seconds: Floats, cores: int) -> Floats:
        """What the kernel's choice makes least, of shapes [shapes, calls]: here their seconds."""
        return seconds


@dataclass(frozen=True, slots=True)
class TensorRtHopperTiling(Tiling):
    """Tiles by the rule that TensorRT-LLM's DeepGEMM publishes for Hopper, not by their time.

    The long side is 64 up to 64 rows and 128 above; the short one gives the fewest waves, then
    the fullest last wave, then the least width. Under 32 tokens the operands are exchanged, and
    the long side lies along the weights' columns (TensorRT-LLM, deep_gemm/compiler and
    fp8_gemm_impl; ONNX Runtime carries the same rule).
    """

    def rank(self, m: Floats, n: Floats, seconds: Floats, cores: int) -> Floats:
        """Waves, then places left free in the last one, then width; none of other long sides."""
        tokens, columns, _ = self.table[:, :, np.newaxis]
        exchanged = m < EXCHANGED_BELOW
        long, short = np.where(exchanged, (columns, tokens), (tokens, columns))
        side = np.where(np.where(exchanged, n, m) <= min(self.long_sides), *self.long_sides)
        count = tiles_of(m, tokens) * tiles_of(n, columns)
        waves = waves_of(count, cores)
        rank = (waves * (cores + 1.0) + waves * cores - count) * 2.0 * max(WIDTHS) + short
        return np.where((long == side) & np.isin(short, self.short_sides), rank, np.inf)


@cache
def _table(tiling: Tiling) -> Floats:
    return np.array(list(tiling.shapes()), dtype=np.float64).T


WIDTHS = (16, 32, 64, 96, 128, 160, 192, 256)
# FP8 on Hopper keeps two sets of accumulators (the unit's and the scaled sum in FP32), which fill
# the registers at 128 x 160, the largest block that DeepGEMM publishes.
HOPPER_FP8_WIDTHS = tuple(w for w in WIDTHS if w <= 160)
POWERS = tuple(w for w in WIDTHS if w & (w - 1) == 0)

# cuBLAS has tiles of both orientations and of widths that are any multiple of 8, as instructions
# have (its kernels are named so: nvjet, 192x152, 128x168); it splits K over cores where tiles are
# few.
CUBLAS_WIDTHS = tuple(range(8, 257, 8))
CUBLAS = Tiling((64, 128), CUBLAS_WIDTHS, swaps=True, splits=(1, 2, 3, 4, 6, 8, 16))
# TensorRT-LLM exchanges the operands of fewer tokens than this.
EXCHANGED_BELOW = 32
# Rows of a tile beyond the operand's end come at this share of the cache's rate: DeepGEMM says that
# its smaller tiles are there to avoid that bound. Seen where only it differs: 65 rows, of which two
# tiles of 64 or one of 128 are made, take up to twice the time of 64 (H200, 4 TB/s).
PADDED_ROWS_SHARE = 0.4
TENSORRT_HOPPER = TensorRtHopperTiling(
    (64, 128), tuple(range(16, 129, 8)), swaps=True, padded_rows=PADDED_ROWS_SHARE
)
# DeepGEMM does not split K; on Blackwell it exchanges the operands for few tokens.
DEEPGEMM_HOPPER = Tiling((64, 128), HOPPER_FP8_WIDTHS)
# Its widths there are any multiple of 16 (csrc/jit_kernels/heuristics of DeepGEMM).
DEEPGEMM_BLACKWELL = Tiling((64, 128), tuple(range(16, 257, 16)), swaps=True)
# Block-scaled FP4 instructions have 128 rows.
BLOCK_SCALED = Tiling((128,), POWERS)


# AITER takes the fastest of some hundred kernels by a table tuned for each size: tiles as its names
# say (CK, CK Tile, FlyDSL, assembly; ROCm/aiter e404860, aiter/configs), K split where few.
AITER_FP8 = Tiling((16, 32, 64, 128, 192, 256), (64, 96, 128, 192, 256), splits=(1, 2, 3, 4, 6, 8))
AITER_BF16 = Tiling(
    (16, 32, 48, 64, 96, 128, 192, 256), (32, 64, 96, 128, 192, 256), splits=(1, 2, 4, 7, 8, 14)
)


@dataclass(frozen=True, slots=True)
class GemmKernel:
    """One engine's GEMM: operands, tiles, whether activations arrive in BF16 and are quantised.

    `waits`: "handshake" adds the wait of a K block to its matrix work (barriers between copy and
    matrix warps); "latency" runs it beside (few blocks in flight, each waits for the cache).
    `overlaps_epilogue`: the next tile's matrix work hides the writing of a finished one.
    """

    dtype: str
    hopper: Tiling
    blackwell: Tiling
    quantises: bool
    waits: Literal["handshake", "latency"] = "handshake"
    overlaps_epilogue: bool = False

    @property
    def format(self) -> OperandFormat:
        """Operand format."""
        return FORMATS[self.dtype]

    def tiling(self, chip: ChipSpec) -> Tiling:
        """Tiles on a chip.

        Assumes: chips that are not Hopper have Blackwell's room for accumulators.
        """
        return self.hopper if chip.architecture == "hopper" else self.blackwell


BF16_GEMM = GemmKernel("bfloat16", CUBLAS, CUBLAS, quantises=False, overlaps_epilogue=True)
FP8_GEMM = GemmKernel("fp8_block", DEEPGEMM_HOPPER, DEEPGEMM_BLACKWELL, quantises=True)
FP8_TENSORRT_GEMM = GemmKernel("fp8_block", TENSORRT_HOPPER, DEEPGEMM_BLACKWELL, quantises=True)
NVFP4_GEMM = GemmKernel("nvfp4", BLOCK_SCALED, BLOCK_SCALED, quantises=True)
NVFP4_LATENCY_GEMM = GemmKernel(
    "nvfp4", BLOCK_SCALED, BLOCK_SCALED, quantises=True, waits="latency"
)
AITER_FP8_GEMM = GemmKernel("fp8_block", AITER_FP8, AITER_FP8, quantises=True, waits="latency")
AITER_BF16_GEMM = GemmKernel("bfloat16", AITER_BF16, AITER_BF16, quantises=False, waits="latency")
KERNELS = {kernel.dtype: kernel for kernel in (BF16_GEMM, FP8_GEMM, NVFP4_GEMM)}
