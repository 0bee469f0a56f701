"""GEMM families: BF16 of cuBLAS class, FP8 and NVFP4 of each engine, with activation quantise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from hwmodels.chip import ChipSpec
from simulator.kernels.constant import Constant
from simulator.kernels.family import Columns, Family
from simulator.kernels.gemm_tiles import (
    AITER_BF16_GEMM,
    AITER_FP8_GEMM,
    BF16_GEMM,
    FP8_GEMM,
    FP8_TENSORRT_GEMM,
    NVFP4_GEMM,
    NVFP4_LATENCY_GEMM,
    GemmKernel,
)
from simulator.kernels.gemm_time import gemm_family_parts
from simulator.kernels.parts import Parts

FLOOR = Constant(
    name="floor",
    unit="us",
    meaning="launch, first loads and last writes of one kernel, whatever its size",
    start=4.0,
    low=1.0,
    high=12.0,
)
STREAM = Constant(
    name="stream",
    unit="1",
    meaning="share of the peak memory bandwidth that cold weights stream at",
    start=0.88,
    low=0.6,
    high=0.96,
)


def flop_energy(start: float) -> Constant:
    """Energy of one FLOP, which halves or so with the width of the operands."""
    return Constant(
        name="flop_energy",
        unit="pJ",
        meaning="energy of one FLOP at the full clock, with its share of all else in the package",
        start=start,
        low=0.05,
        high=2.0,
    )


BLOCK_WAIT = Constant(
    name="block_wait",
    unit="cycles",
    meaning="wait of one K block (128 bytes deep) for its barriers and data",
    start=150.0,
    low=10.0,
    high=2000.0,
)
JOIN = Constant(
    name="join",
    unit="us",
    meaning="wait of K splits for each other before the sum is written, where all cores have one",
    start=2.0,
    low=0.1,
    high=6.0,
)
MOVE = Constant(
    name="move",
    unit="B/clk",
    meaning="bytes that a core moves a cycle when it quantises or writes a finished tile",
    start=15.0,
    low=1.0,
    high=128.0,
)


FEED = Constant(
    name="feed",
    unit="B/clk",
    meaning="operands that a core takes in through its caches a cycle, where no core multicasts",
    start=20.0,
    low=4.0,
    high=128.0,
)


class GemmFamily(Family):
    """Tiles in waves, each a K loop; cold weights from memory beside; a power limit over all.

    `simulator.kernels.gemm_time` has the program, `simulator.kernels.gemm_tiles` the kernels.
    """

    kernel: ClassVar[GemmKernel]

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause, the activation-quantise kernel included where operands need it.

        Sizes: `rows` of activations by `columns` x `depth` weights of `weight_bytes`, `macs`
        multiply-adds; `warm`: share of the weights that is in the last-level cache since copies
        of them are rotated, `replayed`: since their module was run before; `quantised`:
        activations arrive in the format.
        """
        return gemm_family_parts(self.kernel, calls, chip, constants)


class Bf16Gemm(GemmFamily):
    """BF16 of cuBLAS and its like in every engine; few tiles are split along K."""

    name = "gemm_bf16"
    constants = (FLOOR, STREAM, flop_energy(0.9), BLOCK_WAIT, JOIN)
    kernel = BF16_GEMM


class Fp8DeepGemm(GemmFamily):
    """SGLang's FP8 with 128 x 128 scales: DeepGEMM behind an activation-quantise kernel."""

    name = "gemm_fp8_deepgemm"
    constants = (FLOOR, STREAM, flop_energy(0.5), BLOCK_WAIT, MOVE)
    kernel = FP8_GEMM


class Fp8TensorRt(GemmFamily):
    """TensorRT-LLM's FP8 with 128 x 128 scales: its DeepGEMM and quantise kernels.

    On Hopper tiles follow a rule, and rows of a tile beyond the last token cost time.
    """

    name = "gemm_fp8_trtllm"
    constants = (FLOOR, STREAM, flop_energy(0.5), BLOCK_WAIT, MOVE)
    kernel = FP8_TENSORRT_GEMM


class Nvfp4Sglang(GemmFamily):
    """SGLang's NVFP4 (FlashInfer, CuTe DSL) behind a quantise kernel of two passes."""

    name = "gemm_nvfp4_sglang"
    constants = (FLOOR, STREAM, flop_energy(0.25), BLOCK_WAIT, MOVE)
    kernel = NVFP4_GEMM


class Nvfp4TensorRt(GemmFamily):
    """TensorRT-LLM's NVFP4: each K block waits for the cache, whatever the matrix unit does."""

    name = "gemm_nvfp4_trtllm"
    constants = (FLOOR, STREAM, flop_energy(0.25), BLOCK_WAIT, MOVE)
    kernel = NVFP4_LATENCY_GEMM


class Fp8Aiter(GemmFamily):
    """AITER's FP8 with 128 x 128 scales: a K block takes its matrix work or its operands' way.

    No core multicasts, so that each takes in the operands of its tiles itself.
    """

    name = "gemm_fp8_aiter"
    constants = (FLOOR, STREAM, JOIN, MOVE, FEED)
    kernel = AITER_FP8_GEMM


class Bf16Aiter(GemmFamily):
    """AITER's BF16, of all libraries that it tunes over."""

    name = "gemm_bf16_aiter"
    constants = (FLOOR, STREAM, JOIN, MOVE, FEED)
    kernel = AITER_BF16_GEMM


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Bf16Gemm(),
        Fp8DeepGemm(),
        Fp8TensorRt(),
        Nvfp4Sglang(),
        Nvfp4TensorRt(),
        Fp8Aiter(),
        Bf16Aiter(),
    )
}
