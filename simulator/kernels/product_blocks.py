"""Kernel programs of products: GEMMs, experts, hyper-connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hwmodels.chip import ChipSpec
from hwmodels.machine.program import (
    MOST_STAGES,
    Access,
    Block,
    KernelProgram,
    Launch,
    Region,
    Work,
    equal_blocks,
)
from simulator.kernels import hyper_connection as hc
from simulator.kernels import moe_gemm
from simulator.kernels.architecture import core_architecture
from simulator.kernels.attention_blocks import _one, columns_of
from simulator.kernels.constants_file import fitted_chip
from simulator.kernels.gemm_tiles import OUTPUT_BYTES, GemmKernel
from simulator.kernels.gemm_time import MICRO, chosen_tile, gemm_of, quantise_seconds
from simulator.kernels.moe_layer import ELEMENTWISE_RATE, MoeFamily
from simulator.kernels.moved_blocks import (
    after_first_load,
    load_latency_s,
    passed,
)
from simulator.kernels.power import PICO
from simulator.kernels.warmth import ROTATION_FADE, warm_share

Sizes = Mapping[str, Any]
Constants = Mapping[str, float]
# Blocks of a cluster that load each operand once for all of them, by multicast: pairs on Hopper,
# two pairs of cores that multiply together on Blackwell.
CLUSTER_SHARES = {"hopper": 2, "blackwell": 4}
# Bytes along K of a row that one load brings: the widest swizzle of the copy engine.
SWIZZLE_BYTES = 128
# Warps of a product kernel: one that copies, one that multiplies, and two groups that write.
PRODUCT_THREADS = 384
PRODUCT_REGISTERS_BYTES = PRODUCT_THREADS * 168 * 4


def gemm_blocks(
    kernel: GemmKernel, sizes: Sizes, chip: ChipSpec, constants: Constants
) -> KernelProgram:
    """Tiles of the shape that ends first, each a loop over K blocks; a quantise kernel before."""
    gemm, warm, quantises = gemm_of(kernel, columns_of(sizes), chip, constants)
    replayed = _one(sizes["replayed"])
    weights_warm = _one(warm) * (1.0 - replayed) + replayed
    tokens, columns, splits = chosen_tile(gemm, warm)
    m, n, k, work = (_one(v) for v in (gemm.m, gemm.n, gemm.k, gemm.work))
    form = kernel.format
    down, across = -(-int(m) // tokens), -(-int(n) // columns)
    stages = max(1, int(np.ceil(k / splits / form.k_block)))
    clock = chip.clock_hz
    matrix = 2.0 * tokens * columns * form.k_block * work / gemm.core_rate() * clock
    nearer = chip.llc_latency_s / chip.dram_latency_s
    wait = constants["block_wait"] * (1.0 - replayed * (1.0 - nearer))
    if kernel.waits == "latency":
        wait = max(wait - matrix, 0.0)
    # Rows and columns that a tile has beyond the operands are not loaded.
    shared = CLUSTER_SHARES.get(core_architecture(chip), 1)
    weight = min(columns, n / across) * form.k_block * _one(gemm.weight_bytes) / (n * k)
    activation = min(tokens, m / down) * form.k_block * form.activation_bytes
    weight, activation = (max(32, int(size)) for size in (weight, activation))
    weight_load = max(32, weight // min(shared, down))
    activation_load = max(32, activation // min(shared, across))
    around = m * k * form.activation_bytes + m * n * OUTPUT_BYTES
    around_warm = _one(warm_share(np.array([around]), chip, ROTATION_FADE))
    out = int(tokens * columns * OUTPUT_BYTES)
    epilogue = Work()
    if not kernel.overlaps_epilogue:
        epilogue = Work(vector=out / constants["move"])
    block = Block(
        stage=Work(matrix=matrix, wait=wait),
        epilogue=epilogue,
        accesses=(
            Access(
                region=0,
                nbytes=weight_load // SWIZZLE_BYTES * SWIZZLE_BYTES or weight_load,
                row_bytes=weight_load * stages,
                divide=max(1, down // min(shared, down)),
                modulo=across * splits * min(shared, down),
                pieces=max(1, weight_load // SWIZZLE_BYTES),
                pitch=SWIZZLE_BYTES * stages,
            ),
            Access(
                region=1,
                nbytes=activation_load,
                row_bytes=activation_load * stages,
                modulo=down * min(shared, across),
            ),
        ),
        last_accesses=(Access(region=2, nbytes=out, row_bytes=out, stores=True),),
        stage_bytes=weight + activation,
        fixed_bytes=min(out, 32768),
        registers_bytes=PRODUCT_REGISTERS_BYTES,
        threads=PRODUCT_THREADS,
        in_flight=MOST_STAGES,
    )
    end = 0.0
    if splits > 1:
        sums = m * n * 4.0 * (splits + 1.0)
        end = constants.get("join", 0.0) * MICRO + sums / chip.llc_bandwidth_bytes_per_s
    loads = weight_load + activation_load
    gap = after_first_load(constants["floor"] * MICRO, chip, weights_warm, loads)
    main = equal_blocks(block, down * across * splits, stages, gap_s=gap, end_s=end)
    regions = (
        Region(nbytes=max(weight * stages * across * splits, 64), warm=weights_warm),
        Region(nbytes=max(activation * stages * down, 64), warm=around_warm),
        Region(nbytes=max(out * down * across, 64), warm=around_warm),
    )
    launches: tuple[Launch, ...] = (main,)
    if _one(quantises):
        seconds = quantise_seconds(gemm.m, gemm.k, form, chip, constants)
        moved = m * k * (2.0 * form.passes + form.activation_bytes)
        before = passed(
            moved, _one(seconds["vector"]) * clock, chip, chip.launch_gap_s, 1.0, region=1
        )
        launches = (before, main)
    energy = _one(gemm.operations) * constants["flop_energy"] * PICO
    return KernelProgram(regions=regions, launches=launches, name="gemm", energy_j=energy)


def _whole_counts(means: np.ndarray) -> np.ndarray:
    """Mean counts as whole ones whose running sums are nearest to theirs."""
    return np.diff(np.rint(np.cumsum(means)).astype(np.int64), prepend=0)


def moe_blocks(
    family: MoeFamily, sizes: Sizes, chip: ChipSpec, constants: Constants
) -> KernelProgram:
    """Two grouped GEMMs, expert by expert, and the elementwise passes after them."""
    columns = columns_of(sizes)
    gemms = family.gemms(columns)
    regions, launches = [], []
    launch_s = constants["launch_us"] * MICRO
    for number, gemm in enumerate(gemms):
        launch, own = _grouped(gemm, chip, constants, 2 * number)
        gap = after_first_load(launch_s, chip, 0.0) if number == 0 else 0.0
        launches.append(_replaced(launch, gap_s=gap))
        regions += own
    c = {n: np.asarray(v, dtype=np.float64) for n, v in columns.items() if n != "distribution"}
    seconds = family.elementwise(c, chip, constants)
    busy = sum(_one(v) for v in seconds.values())
    moved = busy * constants[ELEMENTWISE_RATE.name] * chip.core_count * chip.clock_hz
    launches.append(passed(moved, busy * chip.clock_hz, chip, 0.0, 1.0, region=len(regions)))
    regions.append(Region(nbytes=max(int(moved), 64), warm=1.0))
    return KernelProgram(regions=tuple(regions), launches=tuple(launches), name="experts")


def _replaced(launch: Launch, **changes: Any) -> Launch:
    from dataclasses import replace

    return replace(launch, **changes)


GOLDEN = (5**0.5 - 1) / 2
# Resident blocks of a core in Triton's kernels share what their cache has of an operand.
TRITON_SHARES = 2
# A stage of a grouped GEMM is this part of a step where a bound on bytes in flight asks for it.
_PARTS_OF_STEP = 8
# Resident blocks of a core in Triton's kernels: four stages of operands each leave room for two.
TRITON_BLOCKS = 2
# Steps whose operands are loaded ahead: in Triton's default configuration, and in other kernels,
# as many as the core's shared memory has room for.
TRITON_STEPS, PIPELINED_STEPS = 2, MOST_STAGES


def _grouped(
    gemm: moe_gemm.GroupedGemm, chip: ChipSpec, constants: Constants, region: int
) -> tuple[Launch, list[Region]]:
    """Tiles of all experts; each takes its expert's weights from memory, once for all its tiles.

    Assumes: what bounds a core's operands, and what fills and drains a tile, keeps its matrix unit
        from other tiles.
    Assumes: a bound on operands in flight was fitted where weights come from memory: tiles that
        share an expert's weights find them in cache, and have all their stages in flight.
    """
    tiles = gemm.experts.tiles[0].astype(np.int64)
    counts = _whole_counts(gemm.experts.experts[0])
    across = int(np.ceil(_one(gemm.columns) / moe_gemm.TILE_COLUMNS))
    steps = max(1, int(np.ceil(_one(gemm.depth) / moe_gemm.STEP_DEPTH)))
    tokens = _one(gemm.tile_tokens)
    peak = chip.matrix_flops_per_s(gemm.operands.matrix_type)
    assert peak is not None
    matrix = _one(gemm.step_flops) * chip.core_count / peak * chip.clock_hz
    step_bytes = _one(gemm.step_bytes)
    if "operand_bytes_per_clock" in constants:
        matrix = max(matrix, step_bytes / constants["operand_bytes_per_clock"])
    fitted = fitted_chip(chip)
    parts, resident, shares = 1, 1, CLUSTER_SHARES.get(core_architecture(chip), 1)
    single = shared_depth = PIPELINED_STEPS
    if "stream_bytes_per_clock" in constants:
        parts, resident, shares = _PARTS_OF_STEP, TRITON_BLOCKS, TRITON_SHARES
        flight = constants["stream_bytes_per_clock"] * fitted.dram_latency_s * fitted.clock_hz
        many = min(TRITON_BLOCKS, -(-int((tiles * counts).sum()) * across // chip.core_count))
        # Beside those on their way, one part is at work.
        loaded = step_bytes - moe_gemm.STEP_DEPTH * tokens * gemm.operands.activation_bytes / 2
        single = 1 + max(1, round(flight / max(many, 1) / (loaded / parts)))
        shared_depth = max(single, TRITON_STEPS * parts)
    weight = moe_gemm.STEP_DEPTH * moe_gemm.TILE_COLUMNS * _one(gemm.value_bytes) / parts
    activation = moe_gemm.STEP_DEPTH * tokens * gemm.operands.activation_bytes / parts
    weight_bytes, activation_bytes = max(32, int(weight)), max(32, int(activation))
    activation_bytes = max(32, activation_bytes // min(shares, across))
    first_wait = max(0.0, constants["tile_clocks"] - fitted.llc_latency_s * fitted.clock_hz)
    out = max(32, int(tokens * moe_gemm.TILE_COLUMNS * OUTPUT_BYTES))
    stages = steps * parts
    # Tiles of one expert: all token tiles of a column tile follow one another.
    # Experts come in no order of their load: in one that spreads it.
    expert_tiles = np.repeat(tiles, counts)
    expert_tiles = expert_tiles[np.argsort(np.arange(len(expert_tiles)) * GOLDEN % 1.0)]
    own = np.repeat(np.arange(len(expert_tiles)), expert_tiles * across)
    within = np.concatenate([np.arange(t * across) for t in expert_tiles]) if len(own) else own
    column = within // np.maximum(np.repeat(expert_tiles, expert_tiles * across), 1)
    # Tiles of one expert's rows load their parts of its weights, a few tiles each part.
    rows_of = np.repeat(expert_tiles, expert_tiles * across)
    levels = [level for level in (1, 2, 4) if level <= shares]
    kind = np.searchsorted(levels, np.minimum(rows_of, shares), side="right") - 1
    shared = np.array(levels)[kind]
    part = within % np.maximum(rows_of, 1) * shared // np.maximum(rows_of, 1)
    place = (own * across + column) * shares + part
    if not len(place):
        place = kind = np.zeros(1, np.int64)
    kinds = tuple(
        Block(
            prologue=Work(matrix=first_wait),
            stage=Work(matrix=matrix / parts),
            accesses=(
                Access(
                    region=region,
                    nbytes=max(32, weight_bytes // share),
                    row_bytes=weight_bytes * stages // shares,
                ),
                Access(
                    region=region + 1,
                    nbytes=activation_bytes,
                    row_bytes=activation_bytes * stages,
                ),
            ),
            last_accesses=(Access(region=region + 1, nbytes=out, row_bytes=out, stores=True),),
            stage_bytes=weight_bytes + activation_bytes,
            fixed_bytes=min(out, 32768),
            registers_bytes=PRODUCT_REGISTERS_BYTES // resident,
            threads=PRODUCT_THREADS // resident,
            in_flight=single if share == 1 else shared_depth,
        )
        for share in levels
    )
    launch = Launch(
        kinds=kinds,
        kind=kind.astype(np.int64),
        stages=np.full(len(place), stages, np.int64),
        place=place,
    )
    rows = max(1, int(place.max()) + 1)
    regions = [
        Region(nbytes=rows * weight_bytes * stages // shares),
        Region(nbytes=max(activation_bytes * stages * 64, 64), warm=1.0),
    ]
    return launch, regions


def post_blocks(sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    """Expands a block's output into the streams: a block a token, chunk after dependent chunk."""
    c = {n: _one(v) for n, v in sizes.items()}
    launch, regions = _chunked(c, chip, constants, reads=c["streams"] + 1, writes=c["streams"])
    gap = after_first_load(constants["start_us"] * MICRO, chip, regions[0].warm)
    return _sites(c, regions, (_replaced(launch, gap_s=gap),), "mhc post")


def _chunked(
    c: Mapping[str, float], chip: ChipSpec, constants: Constants, reads: float, writes: float
) -> tuple[Launch, tuple[Region, Region]]:
    """A block a token that reads and writes streams of its hidden values, 1,024 at a time."""
    tokens, hidden = int(c["tokens"]), c["hidden"]
    chunks = max(1, int(np.ceil(hidden / hc.CHUNK)))
    traffic = (reads + writes) * tokens * hidden * hc.STREAM_BYTES
    warm = _one(hc.warm_streams(np.array([c["sites"] * traffic]), chip))
    gates = hc.GATE_CYCLES * c["gate_ops"] / max(tokens, 1)
    rate = chip.vector_flops_per_s / chip.core_count / chip.peak_clock_hz
    vector = c["vector_ops"] / max(tokens, 1) / chunks / rate
    load, store = (max(32, int(n * hidden / chunks * hc.STREAM_BYTES)) for n in (reads, writes))
    # A round is fitted with its load from cache and its work, which the machine adds itself.
    fitted = fitted_chip(chip)
    round_s = constants.get("chunk_us", 0.0) * MICRO - load_latency_s(fitted, 1.0)
    moved = load / fitted.core_port_bytes_per_clock
    wait = max(0.0, round_s * chip.clock_hz - vector - moved)
    block = Block(
        prologue=Work(wait=gates),
        stage=Work(vector=vector, wait=wait),
        accesses=(
            _of_streams(0, load, chunks, int(reads), stores=False),
            _of_streams(1, store, chunks, int(writes), stores=True),
        ),
        threads=128,
        registers_bytes=128 * STREAM_REGISTERS_BYTES,
        fixed_bytes=load,
        in_flight=1,
    )
    read, written = (
        Region(nbytes=max(size * chunks * tokens, 64), warm=warm) for size in (load, store)
    )
    return equal_blocks(block, tokens, chunks), (read, written)


def _of_streams(region: int, nbytes: int, chunks: int, streams: int, stores: bool) -> Access:
    """A chunk of each of a token's streams, which lie one behind the other."""
    each = max(32, nbytes // max(streams, 1))
    return Access(
        region=region,
        nbytes=each * streams,
        row_bytes=each * streams * chunks,
        pieces=max(streams, 1),
        pitch=each * chunks,
        stores=stores,
    )


def _sites(
    c: Mapping[str, float], regions: tuple[Region, ...], launches: tuple[Launch, ...], name: str
) -> KernelProgram:
    """The launches of one site, once for each."""
    return KernelProgram(regions=regions, launches=launches * max(1, int(c["sites"])), name=name)


# Registers of a thread that mixes streams: eight values of each stream, wide, and their gates.
STREAM_REGISTERS_BYTES = 128 * 4
# Stages of a block of the vector kernel, which streams its weights.
STREAMED_STAGES = 8


def pre_blocks(tensorrt: bool, sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    """The mixing product in tiles of 64 tokens, split along K, and the collapse of the streams."""
    c = {n: _one(v) for n, v in sizes.items()}
    mixing = hc._Mixing({n: np.array([float(v)]) for n, v in sizes.items()})
    tokens = int(c["tokens"])
    tiles = -(-tokens // hc.TILE_TOKENS)
    splits = max(1, chip.core_count // tiles)
    serial = 0.0
    streamed = 0.0
    if tensorrt:
        tiles, splits, serial, streamed = _tensorrt_kernel(mixing, chip, constants, tokens)
    tile_bytes = hc.TILE_TOKENS * _one(mixing.token_bytes) / splits
    real_bytes = _one(mixing.read) / (tiles * splits)
    stages = STREAMED_STAGES if streamed else max(1, round(tile_bytes / 16384))
    clocks = tile_bytes / constants["core_bytes_per_clock"] * _one(mixing.work) / stages
    if streamed:
        clocks = streamed * chip.clock_hz / stages
    load = max(32, int(real_bytes / stages))
    # A tile's tokens are rows of the streams, of which a stage takes a few values each.
    pieces = max(1, min(hc.TILE_TOKENS, tokens // tiles, load // 32))
    load = load // pieces * pieces
    warm = _one(hc.warm_streams(mixing.replayed, chip))
    block = Block(
        stage=Work(matrix=clocks),
        accesses=(
            Access(
                region=0,
                nbytes=load,
                row_bytes=load * stages,
                pieces=pieces,
                pitch=load // pieces * stages,
            ),
        ),
        stage_bytes=load,
        threads=PRODUCT_THREADS,
        registers_bytes=PRODUCT_REGISTERS_BYTES,
        in_flight=4,
    )
    gap = after_first_load(constants["start_us"] * MICRO, chip, warm, load)
    product = equal_blocks(block, tiles * splits, stages, gap_s=gap, end_s=serial)
    streams = Region(nbytes=max(load * stages * tiles * splits, 64), warm=warm)
    no_chunks = {**constants, "chunk_us": constants.get("chunk_us", 0.0)}
    collapse, collapsed = _chunked({**c, "sites": 1.0}, chip, no_chunks, c["streams"], 1.0)
    return _sites(
        c,
        (streams, *collapsed),
        (product, _moved_region(collapse, 1)),
        "mhc pre",
    )


def _moved_region(launch: Launch, region: int) -> Launch:
    """The launch with its accesses on regions that come later."""
    from dataclasses import replace

    kinds = tuple(
        replace(kind, accesses=tuple(replace(a, region=a.region + region) for a in kind.accesses))
        for kind in launch.kinds
    )
    return replace(launch, kinds=kinds)


def _tensorrt_kernel(
    mixing: Any, chip: ChipSpec, constants: Constants, tokens: int
) -> tuple[int, int, float, float]:
    """Tiles, splits, the wait for a sum and, of the vector kernel, the time of its weights.

    Assumes: the vector kernel's cores share its passes over the weights evenly.
    """
    tiles = -(-tokens // hc.TILE_TOKENS)
    pieces = -(-tokens // hc.TRTLLM_SPLIT_TILE_TOKENS)
    serial = constants["split_us"] * MICRO
    kernels = (
        (mixing.matrix(np.array([tiles]), 1.0, chip, constants), 0.0),
        (mixing.matrix(np.array([pieces]), float(hc.TRTLLM_SPLIT), chip, constants), serial),
        (mixing.vector(chip, constants), 0.0),
    )
    times = [sum(_one(v) for v in kernel.values()) + more for kernel, more in kernels]
    best = int(np.argmin(times))
    return (
        (tiles, 1, 0.0, 0.0),
        (pieces, hc.TRTLLM_SPLIT, serial, 0.0),
        (chip.core_count, 1, 0.0, times[2]),
    )[best]
