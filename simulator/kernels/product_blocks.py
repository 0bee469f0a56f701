"""Kernel programs of products: GEMMs and experts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hwmodels.chip import ChipSpec
from hwmodels.machine.program import (
    MOST_STAGES,
    Access,
    Block,
    Counts,
    KernelProgram,
    Launch,
    Region,
    Work,
    equal_blocks,
    spread_order,
)
from simulator.kernels import moe_gemm
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constants_file import fitted_chip
from simulator.kernels.family import Constants, Sizes, columns_of, one
from simulator.kernels.gemm_tiles import OUTPUT_BYTES, GemmKernel
from simulator.kernels.gemm_time import (
    MICRO,
    Gemm,
    flop_energy_of,
    gemm_of,
    nearer_waits,
    quantise_seconds,
    quantised_bytes,
)
from simulator.kernels.moe_layer import MoeFamily
from simulator.kernels.moved_blocks import LEAST_BYTES, after_first_load, passed
from simulator.kernels.power import PICO
from simulator.kernels.warmth import ROTATION_FADE, warm_share

# Blocks of a cluster that load each operand once for all of them, by multicast. Guessed: pairs on
# Hopper, two pairs of cores that multiply together on Blackwell; with fewer the cache's measured
# rate would bound products that are measured faster.
CLUSTER_SHARES = {"hopper": 2, "blackwell": 4}
# Bytes along K of a row that one load brings: the widest swizzle of the copy engine.
SWIZZLE_BYTES = 128
# Three groups of 128 threads, one that copies and two that multiply or write, with all registers
# of a Hopper core between them (guessed: the usual form of such kernels).
PRODUCT_THREADS = 384
PRODUCT_REGISTERS_BYTES = PRODUCT_THREADS * 168 * 4
# Of a finished tile at most so much waits in shared memory to be written (guessed).
STAGED_OUTPUT_BYTES = 32768
# Rows of activations that tiles of experts go through (see `_grouped`).
ACTIVATION_ROWS = 64


def gemm_blocks(
    kernel: GemmKernel, sizes: Sizes, chip: ChipSpec, constants: Constants
) -> KernelProgram:
    """Tiles of the shape that ends first, each a loop over K blocks; a quantise kernel before."""
    gemm, warm, quantises = gemm_of(kernel, columns_of(sizes), chip, constants)
    replayed = one(sizes["replayed"])
    tile = _Tile.of(gemm, gemm.shape(warm), chip)
    weights_warm = one(warm) * (1.0 - replayed) + replayed
    around_warm = one(warm_share(gemm.around_bytes, chip, ROTATION_FADE))
    # A replayed module's wait for its weights is shorter, as in the closed form.
    nearer = 1.0 - replayed * (1.0 - chip.llc_latency_s / chip.dram_latency_s)
    waiting = nearer_waits(constants, nearer)
    size = np.array([float(tile.tokens)]), np.array([float(tile.columns)])
    stage = replace(gemm, constants=waiting).stage_times(*size)
    times = gemm.tile_times(*size, np.array([float(tile.splits)]))
    block = tile.block(
        Work(matrix=one(stage.matrix) * chip.clock_hz, wait=one(stage.wait) * chip.clock_hz),
        Work(vector=one(stage.epilogue) * chip.clock_hz),
    )
    # Rows beyond the operand come from one place for all cores, so each waits for all of them.
    padding = one(times.padding)
    floor = constants["floor"] * MICRO
    gap = after_first_load(floor, chip, weights_warm, tile.loaded_bytes, tile.out)
    main = equal_blocks(block, tile.count, tile.stages, gap_s=gap, end_s=one(times.join) + padding)
    before: tuple[Launch, ...] = ()
    if one(quantises):
        seconds = quantise_seconds(gemm.m, gemm.k, kernel.format, chip, constants)
        moved = one(quantised_bytes(gemm.m, gemm.k, kernel.format))
        clocks = one(seconds["vector"]) * chip.clock_hz
        before = (passed(moved, clocks, chip, chip.launch_gap_s, 1.0, region=1),)
    return KernelProgram(
        regions=tile.regions(weights_warm, around_warm),
        launches=(*before, main),
        name="gemm",
        energy_j=one(gemm.operations) * flop_energy_of(constants) * PICO,
    )


@dataclass(frozen=True, slots=True)
class _Tile:
    """Tiles of a GEMM: their grid, K blocks of each, bytes of a K block's operands and of a result.

    Of a cluster each block loads its part of the operands that it shares.
    """

    tokens: int
    columns: int
    splits: int
    down: int
    across: int
    stages: int
    weight: int
    activation: int
    out: int
    shared: int
    fitted: ChipSpec

    @classmethod
    def of(cls, gemm: Gemm, shape: tuple[int, int, int], chip: ChipSpec) -> _Tile:
        """Rows and columns that a tile has beyond the operands are neither loaded nor written."""
        tokens, columns, splits = shape
        m, n, k = (one(v) for v in (gemm.m, gemm.n, gemm.k))
        form = gemm.kernel.format
        down, across = -(-int(m) // tokens), -(-int(n) // columns)
        weight = min(columns, n / across) * form.k_block * one(gemm.weight_bytes) / (n * k)
        activation = min(tokens, m / down) * form.k_block * form.activation_bytes
        return cls(
            tokens,
            columns,
            splits,
            down,
            across,
            max(1, int(np.ceil(k / splits / form.k_block))),
            max(LEAST_BYTES, int(weight)),
            max(LEAST_BYTES, int(activation)),
            max(LEAST_BYTES, int(min(tokens, m / down) * min(columns, n / across) * OUTPUT_BYTES)),
            CLUSTER_SHARES.get(core_architecture(chip), 1),
            fitted_chip(chip),
        )

    @property
    def count(self) -> int:
        """Blocks of the grid."""
        return self.down * self.across * self.splits

    @property
    def weight_load(self) -> int:
        """Bytes of weights that a block loads itself for a K block."""
        return max(LEAST_BYTES, self.weight // min(self.shared, self.down))

    @property
    def activation_load(self) -> int:
        """Bytes of activations that a block loads itself for a K block."""
        return max(LEAST_BYTES, self.activation // min(self.shared, self.across))

    @property
    def loaded_bytes(self) -> int:
        """Bytes that a block loads for a K block."""
        return self.weight_load + self.activation_load

    def block(self, stage: Work, epilogue: Work) -> Block:
        """The block of one tile; its weights are rows of the matrix, a swizzle of each."""
        sharers = min(self.shared, self.down)
        pieces = max(1, self.weight_load // SWIZZLE_BYTES)
        weights = Access(
            region=0,
            nbytes=self.weight_load // SWIZZLE_BYTES * SWIZZLE_BYTES or self.weight_load,
            row_bytes=self.weight_load * self.stages,
            divide=max(1, self.down // sharers),
            modulo=self.across * self.splits * sharers,
            pieces=pieces,
            pitch=SWIZZLE_BYTES * self.stages,
        )
        activations = Access(
            region=1,
            nbytes=self.activation_load,
            row_bytes=self.activation_load * self.stages,
            modulo=self.down * min(self.shared, self.across),
        )
        return Block(
            stage=stage,
            epilogue=epilogue,
            accesses=(weights, activations),
            last_accesses=(Access(region=2, nbytes=self.out, row_bytes=self.out, stores=True),),
            stage_bytes=self.weight + self.activation,
            fixed_bytes=min(self.out, STAGED_OUTPUT_BYTES),
            registers_bytes=PRODUCT_REGISTERS_BYTES,
            threads=PRODUCT_THREADS,
            in_flight=MOST_STAGES,
            held_fill=self.fitted.matrix_fill_clocks,
            held_issue=self.fitted.matrix_issue_clocks,
        )

    def regions(self, weights_warm: float, around_warm: float) -> tuple[Region, ...]:
        """Weights, activations and output."""
        return (
            Region(nbytes=self.weight * self.stages * self.across * self.splits, warm=weights_warm),
            Region(nbytes=self.activation * self.stages * self.down, warm=around_warm),
            Region(nbytes=self.out * self.down * self.across, warm=around_warm),
        )


def _whole_counts(means: np.ndarray) -> np.ndarray:
    """Mean counts as whole ones whose running sums are nearest to theirs."""
    return np.diff(np.rint(np.cumsum(means)).astype(np.int64), prepend=0)


def moe_blocks(
    family: MoeFamily, sizes: Sizes, chip: ChipSpec, constants: Constants
) -> KernelProgram:
    """Two grouped GEMMs, expert by expert, and the elementwise passes after them."""
    columns = columns_of(sizes)
    regions: list[Region] = []
    launches: list[Launch] = []
    for gemm in family.gemms(columns):
        launch, own = _grouped(gemm, chip, constants, len(regions))
        launches.append(launch)
        regions += own
    gap = after_first_load(constants["launch_us"] * MICRO, chip, 0.0)
    launches[0] = replace(launches[0], gap_s=gap)
    c = {n: np.asarray(v, dtype=np.float64) for n, v in columns.items() if n != "distribution"}
    clocks = sum(one(v) for v in family.elementwise(c, chip, constants).values()) * chip.clock_hz
    moved = one(family.passed_bytes(c))
    launches.append(passed(moved, clocks, chip, 0.0, 1.0, region=len(regions)))
    regions.append(Region(nbytes=max(int(moved), LEAST_BYTES), warm=1.0))
    return KernelProgram(regions=tuple(regions), launches=tuple(launches), name="experts")


# Resident blocks of a core in Triton's kernels, which share what their cache has of an operand.
# Guessed: four stages of operands each leave room for two, and with one the cores would idle.
TRITON_BLOCKS = 2
# A stage of Triton's kernels is this part of a step, so that bytes in flight are whole stages.
TRITON_PARTS = 8
# Steps whose operands Triton's default configuration loads ahead.
TRITON_STEPS = 2


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """How blocks of a grouped GEMM load: parts of a step that are a stage, blocks that share
    operands, resident blocks; stages in flight of a tile alone and of tiles that share weights.
    """

    parts: int
    shares: int
    resident: int
    alone: int
    sharing: int

    @classmethod
    def of(
        cls, gemm: moe_gemm.GroupedGemm, tiles: int, chip: ChipSpec, constants: Constants
    ) -> _Pipeline:
        """A kernel with a bound on bytes in flight is Triton's; others load as far as they may.

        Assumes: a bound on operands in flight was fitted where weights come from memory: tiles that
            share an expert's weights find them in cache, and have all their stages in flight.
        """
        if "stream_bytes_per_clock" not in constants:
            shares = CLUSTER_SHARES.get(core_architecture(chip), 1)
            return cls(1, shares, 1, MOST_STAGES, MOST_STAGES)
        fitted = fitted_chip(chip)
        flight = constants["stream_bytes_per_clock"] * fitted.dram_latency_s * fitted.clock_hz
        resident = max(1, min(TRITON_BLOCKS, -(-tiles // chip.core_count)))
        activations = moe_gemm.STEP_DEPTH * one(gemm.tile_tokens) * gemm.operands.activation_bytes
        loaded = one(gemm.step_bytes) - activations * (1 - 1 / TRITON_BLOCKS)
        # Beside those on their way, one part is at work.
        alone = 1 + max(1, round(flight / resident / (loaded / TRITON_PARTS)))
        sharing = max(alone, TRITON_STEPS * TRITON_PARTS)
        return cls(TRITON_PARTS, TRITON_BLOCKS, TRITON_BLOCKS, alone, sharing)


@dataclass(frozen=True, slots=True)
class _ExpertGrid:
    """Tiles of all experts in order: which kind each is, and where its part of the weights lies.

    Tiles of one expert's columns follow one another; experts come in an order that spreads their
    loads, as they have none of their own. Tiles of the same weights load them in parts, a few tiles
    each part; kind k has parts of 1 / 2^k.
    """

    kind: Counts
    place: Counts
    levels: tuple[int, ...]

    @classmethod
    def of(cls, tiles: Counts, across: int, shares: int) -> _ExpertGrid:
        """For experts of so many token tiles each, in a grid of `across` column tiles."""
        levels = tuple(level for level in (1, 2, 4) if level <= shares)
        tiles = tiles[spread_order(len(tiles))]
        rows = np.repeat(tiles, tiles * across)
        if not len(rows):
            return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), levels)
        own = np.repeat(np.arange(len(tiles)), tiles * across)
        within = np.arange(len(rows)) - (np.cumsum(tiles * across) - tiles * across)[own]
        column = within // rows
        kind = np.searchsorted(levels, np.minimum(rows, shares), side="right") - 1
        part = within % rows * np.array(levels)[kind] // rows
        return cls(kind.astype(np.int64), (own * across + column) * shares + part, levels)


def _grouped(
    gemm: moe_gemm.GroupedGemm, chip: ChipSpec, constants: Constants, region: int
) -> tuple[Launch, list[Region]]:
    """Tiles of all experts; each takes its expert's weights from memory, once for all its tiles."""
    tiles = np.repeat(
        gemm.experts.tiles[0].astype(np.int64), _whole_counts(gemm.experts.experts[0])
    )
    across = int(np.ceil(one(gemm.columns) / moe_gemm.TILE_COLUMNS))
    steps = max(1, int(np.ceil(one(gemm.depth) / moe_gemm.STEP_DEPTH)))
    pipeline = _Pipeline.of(gemm, int(tiles.sum()) * across, chip, constants)
    grid = _ExpertGrid.of(tiles, across, pipeline.shares)
    parts, shares = pipeline.parts, pipeline.shares
    stages = steps * parts
    activation = moe_gemm.STEP_DEPTH * one(gemm.tile_tokens) * gemm.operands.activation_bytes
    weight = moe_gemm.STEP_DEPTH * moe_gemm.TILE_COLUMNS * one(gemm.value_bytes)
    weight_bytes = max(LEAST_BYTES, int(weight / parts))
    activation_bytes = max(LEAST_BYTES, int(activation / parts) // min(shares, across))
    block = _expert_block(gemm, chip, constants, pipeline, region)
    operand = Access(
        region=region + 1, nbytes=activation_bytes, row_bytes=activation_bytes * stages
    )
    kinds = tuple(
        replace(
            block,
            accesses=(
                Access(
                    region=region,
                    nbytes=max(LEAST_BYTES, weight_bytes // share),
                    row_bytes=weight_bytes * stages // shares,
                ),
                operand,
            ),
            stage_bytes=weight_bytes + activation_bytes,
            in_flight=pipeline.alone if share == 1 else pipeline.sharing,
        )
        for share in grid.levels
    )
    launch = Launch(
        kinds=kinds,
        kind=grid.kind,
        stages=np.full(len(grid.place), stages, np.int64),
        place=grid.place,
    )
    rows = int(grid.place.max()) + 1
    # Activations are in cache, whichever of them: rows of as many tokens as a few tiles have do.
    regions = [
        Region(nbytes=rows * weight_bytes * stages // shares),
        Region(nbytes=activation_bytes * stages * ACTIVATION_ROWS, warm=1.0),
    ]
    return launch, regions


def _expert_block(
    gemm: moe_gemm.GroupedGemm,
    chip: ChipSpec,
    constants: Constants,
    pipeline: _Pipeline,
    region: int,
) -> Block:
    """One tile of an expert, but for what it loads.

    Assumes: what bounds a core's operands, and what fills and drains a tile, keeps its matrix unit
        from other tiles.
    """
    peak = chip.matrix_flops_per_s(gemm.operands.matrix_type)
    assert peak is not None
    matrix = one(gemm.step_flops) * chip.core_count / peak * chip.clock_hz
    if "operand_bytes_per_clock" in constants:
        matrix = max(matrix, one(gemm.step_bytes) / constants["operand_bytes_per_clock"])
    fitted = fitted_chip(chip)
    filled = max(0.0, constants["tile_clocks"] - fitted.llc_latency_s * fitted.clock_hz)
    out = max(LEAST_BYTES, int(one(gemm.tile_tokens) * moe_gemm.TILE_COLUMNS * OUTPUT_BYTES))
    return Block(
        prologue=Work(matrix=filled),
        stage=Work(matrix=matrix / pipeline.parts),
        last_accesses=(Access(region=region + 1, nbytes=out, row_bytes=out, stores=True),),
        fixed_bytes=min(out, STAGED_OUTPUT_BYTES),
        registers_bytes=PRODUCT_REGISTERS_BYTES // pipeline.resident,
        threads=PRODUCT_THREADS // pipeline.resident,
        held_fill=fitted.matrix_fill_clocks,
        held_issue=fitted.matrix_issue_clocks,
    )
