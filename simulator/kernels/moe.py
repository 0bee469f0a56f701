"""MoE kernels of the engines: Triton, TensorRT-LLM's generated ones, DeepGEMM and CUTLASS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.kernels.family import Family
from simulator.kernels.moe_gemm import Operands
from simulator.kernels.moe_layer import (
    DRAM_SHARE,
    ELEMENTWISE_RATE,
    LAUNCH,
    OPERAND_RATE,
    STREAM_RATE,
    TILE_CLOCKS,
    MoeFamily,
    Passes,
)
from simulator.kernels.parts import Floats

# Activations in bytes a value: FP8 scales of 128 are left out; NVFP4 keeps one byte for 16 values,
# MXFP8 one for 32. Bytes of a weight are those of the node.
FP8 = Operands(activation_bytes=1.0, matrix_type="fp8")
NVFP4 = Operands(activation_bytes=0.5 + 1 / 16, matrix_type="fp4")
MXFP4 = Operands(activation_bytes=1.0 + 1 / 32, matrix_type="fp8")
# Weights in four bits that are turned into half precision on their way to the matrix units.
HALF = Operands(activation_bytes=2.0, matrix_type="bf16")

# Bytes of the passes, half precision unless quantised to FP8:
# quantise the input (2 + 1 a token value), activate (gate and up read, 4, result written, 2),
# quantise that (2 + 1), combine (2 a pair read, 2 a token written).
SEPARATE_PASSES = Passes(token=5, pair=2, inner=9)
# Rows that came back are read and added up (2 a pair), and written (2 a token).
MEGA_PASSES = Passes(token=2, pair=2, inner=0)
# Nothing is quantised: gate and up read, result written, all in half precision.
HALF_PASSES = Passes(token=2, pair=2, inner=6)
# Activation that quantises as it writes: 4 read, 1 written.
FUSED_QUANTISE_PASSES = Passes(token=5, pair=2, inner=5)
# Activation in the epilogue of the gate-up GEMM.
FUSED_ACTIVATION_PASSES = Passes(token=5, pair=2, inner=0)
# Tokens are first copied to their experts (2 a token read, 2 a pair written), then quantised.
COPIED_PASSES = Passes(token=4, pair=7, inner=9)

TRITON_TILE, TRITON_SMALL_TILE = 64.0, 16.0
# Up to so many tokens of a call vLLM's default configuration takes the small tile.
TRITON_SMALL_TOKENS = 64
GENERATED_SMALLEST_TILE = 8.0
DENSE_TILE = 128.0
AITER_SMALLEST_TILE = 32.0
# Two kernels; sorting and quantising are kernels of their own there.
AITER_LAUNCH = replace(LAUNCH, start=10.0, low=1.0)
# CUTLASS swaps operands while an expert has fewer tokens on average than this; the tile is then
# the mean, rounded up to a multiple of the instruction's 16 rows.
SWAP_TOKENS, SWAP_MULTIPLE = 32.0, 16.0


class TritonMoe(MoeFamily):
    """Fused Triton kernel on FP8 experts, activation and quantisation in kernels of their own.

    Its few pipeline stages keep too little in flight to fill the memory of every chip.
    """

    operands, passes = FP8, SEPARATE_PASSES
    constants = (LAUNCH, STREAM_RATE, OPERAND_RATE, TILE_CLOCKS, ELEMENTWISE_RATE)


class SglangTritonMoe(TritonMoe):
    """SGLang: tiles of 64 tokens."""

    name = "moe_triton_sglang"

    def tile_tokens(self, tokens: Floats, mean: Floats) -> Floats:
        """64 for every call, the default configuration."""
        return np.full(tokens.shape, TRITON_TILE)


class VllmTritonMoe(TritonMoe):
    """vLLM: 16 tokens a tile for small calls, else 64."""

    name = "moe_triton_vllm"

    def tile_tokens(self, tokens: Floats, mean: Floats) -> Floats:
        """By the tokens of the call."""
        return np.where(tokens <= TRITON_SMALL_TOKENS, TRITON_SMALL_TILE, TRITON_TILE)


class WeightOnlyTritonMoe(SglangTritonMoe):
    """Four-bit experts where the matrix units have no such type (Marlin's way): operands stream in
    four bits, and are multiplied in half precision with activations in half precision.

    Assumes: tiles, pipelines and launches are those of the fused Triton kernel on FP8 experts;
        turning four bits into half precision hides behind the matrix units.
    """

    name = "moe_weight_only"
    operands, passes = HALF, HALF_PASSES


# Not fitted: the form of a kernel whose constants are those of the engine's Triton kernel.
WEIGHT_ONLY = WeightOnlyTritonMoe()


class GeneratedMoe(MoeFamily):
    """TensorRT-LLM's generated kernels: an instruction's rows are weights, its columns tokens.

    The tile is the largest power of two below the mean tokens of an expert, within the menu.
    """

    largest_tile = 128.0

    def tile_tokens(self, tokens: Floats, mean: Floats) -> Floats:
        """Half the next power of two of an expert's mean tokens, within the menu."""
        below = 2.0 ** (np.ceil(np.log2(mean)) - 1)
        return np.clip(below, GENERATED_SMALLEST_TILE, self.largest_tile)


class Fp8GeneratedMoe(GeneratedMoe):
    """FP8 experts on Blackwell; a menu of tiles up to 64, activation in a kernel of its own."""

    name = "moe_generated_fp8"
    operands, passes = FP8, FUSED_QUANTISE_PASSES
    largest_tile = 64.0


class Nvfp4GeneratedMoe(GeneratedMoe):
    """NVFP4 experts and activations; activation in the GEMM's epilogue."""

    name = "moe_generated_nvfp4"
    operands, passes = NVFP4, FUSED_ACTIVATION_PASSES


class VllmMxfp4GeneratedMoe(GeneratedMoe):
    """MXFP4 experts, MXFP8 activations, in vLLM, which pads the inner size to 256."""

    name = "moe_generated_mxfp4_vllm"
    operands, passes = MXFP4, FUSED_ACTIVATION_PASSES
    inner_multiple = 256


class SglangMxfp4GeneratedMoe(GeneratedMoe):
    """MXFP4 experts, MXFP8 activations, in SGLang, which pads the inner size to 128."""

    name = "moe_generated_mxfp4_sglang"
    operands, passes = MXFP4, FUSED_ACTIVATION_PASSES
    inner_multiple = 128


class DeepGemmMoe(MoeFamily):
    """TensorRT-LLM with DeepGEMM: 128 tokens a tile, which run at the matrix units' rate.

    Pairs of cores share operands, so that the cache does not bound a step.
    """

    name = "moe_deepgemm"
    operands, passes = FP8, COPIED_PASSES
    constants = (LAUNCH, DRAM_SHARE, TILE_CLOCKS, ELEMENTWISE_RATE)

    def tile_tokens(self, tokens: Floats, mean: Floats) -> Floats:
        """128 for every call."""
        return np.full(tokens.shape, DENSE_TILE)


class MegaMoe(DeepGemmMoe):
    """DeepGEMM's experts inside its fused exchange: quantising, activation and adding up are
    epilogues, so that what is left to elementwise work is one pass over the combined rows."""

    name = "moe_mega"
    passes = MEGA_PASSES

    def tile_tokens(self, tokens: Floats, mean: Floats) -> Floats:
        """The smallest power of two that holds an expert's mean tokens, from 8 to 128."""
        return np.clip(2.0 ** np.ceil(np.log2(mean)), GENERATED_SMALLEST_TILE, DENSE_TILE)


# Not fitted: the form of the fused kernel, whose constants are those of DeepGEMM's grouped GEMM.
MEGA = MegaMoe()


class CutlassMoe(MoeFamily):
    """TensorRT-LLM's CUTLASS flow: operands swapped for few tokens an expert, else 128 a tile."""

    name = "moe_cutlass"
    operands, passes = FP8, COPIED_PASSES

    def tile_tokens(self, tokens: Floats, mean: Floats) -> Floats:
        """By the mean tokens of an expert."""
        swapped = np.ceil(mean / SWAP_MULTIPLE) * SWAP_MULTIPLE
        return np.where(mean < SWAP_TOKENS, swapped, DENSE_TILE)


class AiterMoe(MoeFamily):
    """AITER's two stages on MXFP4 experts and MXFP8 activations, activation and quantising inside.

    Tiles of 32 tokens for few an expert, of up to 128 for many: what its tuned tables take most
    often. The second stage writes a row a pair, and sums them.
    """

    name = "moe_aiter"
    operands, passes = MXFP4, MEGA_PASSES
    constants = (AITER_LAUNCH, STREAM_RATE, OPERAND_RATE, TILE_CLOCKS, ELEMENTWISE_RATE)

    def tile_tokens(self, tokens: Floats, mean: Floats) -> Floats:
        """The power of two above an expert's mean tokens, from 32 to 128."""
        above = 2.0 ** (np.floor(np.log2(np.maximum(mean, 1.0))) + 1.0)
        return np.clip(above, AITER_SMALLEST_TILE, DENSE_TILE)


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        AiterMoe(),
        SglangTritonMoe(),
        VllmTritonMoe(),
        Fp8GeneratedMoe(),
        Nvfp4GeneratedMoe(),
        VllmMxfp4GeneratedMoe(),
        SglangMxfp4GeneratedMoe(),
        DeepGemmMoe(),
        CutlassMoe(),
    )
}
