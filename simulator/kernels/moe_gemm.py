"""Grouped GEMM: each expert's tokens times that expert's weights, tiles of all experts in a row.

A tile is 128 output columns of one expert for so many tokens; it walks the depth in steps of 128.
A step waits for the slower of its operands (weights and activations through the last-level cache)
and its multiply-adds. Tiles also fill and drain their pipeline.

Experts follow one another, so an expert takes the longer of streaming its weights out of device
memory and of its tiles on all cores: an expert of few tokens waits for memory, one of many for the
cores, in the same kernel. The last wave of tiles leaves cores idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.basis.errors import UnsupportedError
from simulator.kernels.expert_tokens import ExpertTiles
from simulator.kernels.parts import Floats
from simulator.kernels.pipes import overlapped
from simulator.kernels.warmth import memory_bytes_per_s
from simulator.kernels.waves import idle_share, tiles_of, waves_of

# Output columns of a tile and depth of a step, the same in Triton, DeepGEMM and CUTLASS kernels.
TILE_COLUMNS = 128
STEP_DEPTH = 128
# Share of peak memory bandwidth that long measured streams reach (0.93-0.955 on four chips).
LONG_STREAM_SHARE = 0.94
# How sharply memory turns from serving all requests to being full: with 4, equal limits give
# 84 % of each.
QUEUE_SHARPNESS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Bytes of an activation with its scales, and the matrix type that operands multiply on."""

    activation_bytes: float
    matrix_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedGemm:
    """One kernel a call: `columns` x `depth` weights an expert, `tile_tokens` tokens a tile.

    `value_bytes` of a stored weight, scales included; `work`: multiply-adds of a weight and token
    (1 unless an operation has more).
    """

    experts: ExpertTiles
    tile_tokens: Floats
    columns: Floats
    depth: Floats
    value_bytes: Floats
    work: Floats
    operands: Operands

    @property
    def tiles(self) -> Floats:
        """Tiles of the kernel, over all experts and columns."""
        return self.experts.total * tiles_of(self.columns, TILE_COLUMNS)

    @property
    def weight_bytes(self) -> Floats:
        """Weights of one expert."""
        return self.columns * self.depth * self.value_bytes

    @property
    def step_bytes(self) -> Floats:
        """Operands that a core takes in for one step of a tile."""
        weights = TILE_COLUMNS * self.value_bytes
        return STEP_DEPTH * (weights + self.tile_tokens * self.operands.activation_bytes)

    @property
    def step_flops(self) -> Floats:
        """Work of one step, rows of a tile that no token fills included."""
        return 2.0 * TILE_COLUMNS * STEP_DEPTH * self.tile_tokens * self.work

    @property
    def macs(self) -> Floats:
        """Multiply-adds of all tiles, with rows and columns that nothing fills."""
        steps = tiles_of(self.depth, STEP_DEPTH)
        return self.tiles * steps * self.step_flops / 2


def grouped_gemm_seconds(
    gemm: GroupedGemm, chip: ChipSpec, constants: Mapping[str, float]
) -> dict[str, Floats]:
    """Seconds by cause of the kernel, without its launch.

    Assumes: weights are cold, as a layer's are in a model; activations come out of the cache.
    """
    tile = _tile_seconds(gemm, chip, constants)
    whole = np.sum(list(tile.values()), axis=0)
    column_tiles = tiles_of(gemm.columns, TILE_COLUMNS)
    stream = (gemm.weight_bytes / _stream_rate(gemm, chip, constants))[:, None]
    # Core time of an expert's tiles when all cores share them.
    each = (column_tiles / chip.core_count)[:, None] * gemm.experts.tiles
    streamed = stream >= each * whole[:, None]
    worked = np.sum(gemm.experts.experts * np.where(streamed, 0.0, each), axis=1)
    seconds = {cause: worked * value for cause, value in tile.items()}
    seconds["dram_bandwidth"] = np.sum(gemm.experts.experts * streamed * stream, axis=1)
    idle = idle_share(gemm.tiles, chip.core_count) * waves_of(gemm.tiles, chip.core_count)
    seconds["tail"] = idle * whole
    return seconds


def _stream_rate(
    gemm: GroupedGemm, chip: ChipSpec, constants: Mapping[str, float]
) -> float | Floats:
    """Bytes of weights a second out of device memory.

    Either a share of the peak, or for kernels that keep too few loads in flight, what the cores
    ask for (weights' part of the operands that each takes in) where memory is not yet full.

    Assumes: requests of the cores and the memory's limit join as a smooth minimum.
    """
    peak = memory_bytes_per_s(chip)
    if "stream_bytes_per_clock" not in constants:
        return peak * constants["dram_share"]
    weights = STEP_DEPTH * TILE_COLUMNS * gemm.value_bytes / gemm.step_bytes
    asked = constants["stream_bytes_per_clock"] * chip.clock_hz * chip.core_count * weights
    limits = (peak * LONG_STREAM_SHARE) ** -QUEUE_SHARPNESS + asked**-QUEUE_SHARPNESS
    return np.asarray(limits ** (-1 / QUEUE_SHARPNESS))


def _tile_seconds(
    gemm: GroupedGemm, chip: ChipSpec, constants: Mapping[str, float]
) -> dict[str, Floats]:
    """One tile on one core, by cause."""
    peak = chip.matrix_flops_per_s(gemm.operands.matrix_type)
    if peak is None:
        raise UnsupportedError(
            f"chip {chip.name} has no {gemm.operands.matrix_type} matrix units, "
            f"which this MoE kernel multiplies on"
        )
    pipes = {"matrix": gemm.step_flops * chip.core_count / peak}
    if "operand_bytes_per_clock" in constants:
        feed = constants["operand_bytes_per_clock"] * chip.clock_hz
        pipes["llc"] = gemm.step_bytes / feed
    steps = tiles_of(gemm.depth, STEP_DEPTH)
    seconds = {cause: steps * value for cause, value in overlapped(pipes).items()}
    seconds["serial"] = np.full(steps.shape, constants["tile_clocks"] / chip.clock_hz)
    return seconds
