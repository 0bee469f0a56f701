"""Kernel programs of hyper-connections: mixing the residual streams before and after a block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hwmodels.chip import ChipSpec
from hwmodels.machine.program import (
    Access,
    Block,
    KernelProgram,
    Launch,
    Region,
    Work,
    equal_blocks,
)
from simulator.kernels import hyper_connection as hc
from simulator.kernels.constants_file import fitted_chip
from simulator.kernels.family import Constants, Sizes, one
from simulator.kernels.gemm_time import MICRO
from simulator.kernels.moved_blocks import LEAST_BYTES, after_first_load, load_latency_s
from simulator.kernels.product_blocks import PRODUCT_REGISTERS_BYTES, PRODUCT_THREADS


def post_blocks(sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    """Expands a block's output into the streams: a block a token, chunk after dependent chunk."""
    c = {n: one(v) for n, v in sizes.items()}
    launch, regions = _chunked(c, chip, constants, reads=c["streams"] + 1, writes=c["streams"])
    start_s, stored = constants["start_us"] * MICRO, launch.kinds[0].accesses[1].nbytes
    gap = after_first_load(start_s, chip, regions[0].warm, stored=stored)
    return _sites(c, regions, (replace(launch, gap_s=gap),), "mhc post")


def _chunked(
    c: Mapping[str, float], chip: ChipSpec, constants: Constants, reads: float, writes: float
) -> tuple[Launch, tuple[Region, Region]]:
    """A block a token that reads and writes streams of its hidden values, 1,024 at a time."""
    tokens, hidden = int(c["tokens"]), c["hidden"]
    chunks = max(1, int(np.ceil(hidden / hc.CHUNK)))
    traffic = (reads + writes) * tokens * hidden * hc.STREAM_BYTES
    warm = one(hc.warm_streams(np.array([c["sites"] * traffic]), chip))
    gates = hc.GATE_CYCLES * c["gate_ops"] / max(tokens, 1)
    rate = chip.vector_flops_per_s / chip.core_count / chip.peak_clock_hz
    vector = c["vector_ops"] / max(tokens, 1) / chunks / rate
    load, store = (
        max(LEAST_BYTES, int(n * hidden / chunks * hc.STREAM_BYTES)) for n in (reads, writes)
    )
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
        threads=STREAM_THREADS,
        registers_bytes=STREAM_THREADS * STREAM_REGISTERS_BYTES,
        fixed_bytes=load,
        in_flight=1,
    )
    read, written = (
        Region(nbytes=max(size * chunks * tokens, 64), warm=warm) for size in (load, store)
    )
    return equal_blocks(block, tokens, chunks), (read, written)


def _unfitted_chain_s(launch: Launch, chip: ChipSpec, constants: Constants) -> float:
    """Time of a block's rounds where no constant is fitted to them.

    Assumes: what was fitted as the start of such kernels covers their rounds' loads from the cache,
        on the chip where it was fitted.
    """
    if "chunk_us" in constants:
        return 0.0
    fitted = fitted_chip(chip)
    loaded = launch.kinds[0].accesses[0].nbytes / fitted.core_port_bytes_per_clock
    return int(launch.stages[0]) * (load_latency_s(fitted, 1.0) + loaded / fitted.clock_hz)


def _of_streams(region: int, nbytes: int, chunks: int, streams: int, stores: bool) -> Access:
    """A chunk of each of a token's streams, which lie one behind the other."""
    each = max(LEAST_BYTES, nbytes // max(streams, 1))
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


# Threads of a block that mixes streams, each with eight values of every stream, wide, and their
# gates (guessed: 128 registers).
STREAM_THREADS = 128
STREAM_REGISTERS_BYTES = 128 * 4
# Bytes of streams that a stage of the mixing product takes in, and how many are in flight: with
# the core's own pace, which is fitted, they only have to be enough (guessed).
MIXED_BYTES, MIXED_IN_FLIGHT = 16384, 4
# Stages of a block of the vector kernel, which streams its weights.
STREAMED_STAGES = 8


def pre_blocks(tensorrt: bool, sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    """The mixing product in tiles of 64 tokens, split along K, and the collapse of the streams."""
    c = {n: one(v) for n, v in sizes.items()}
    mixing = hc.Mixing({n: np.array([float(v)]) for n, v in sizes.items()})
    tokens = int(c["tokens"])
    tiles = -(-tokens // hc.TILE_TOKENS)
    splits = max(1, chip.core_count // tiles)
    serial = 0.0
    streamed = 0.0
    if tensorrt:
        tiles, splits, serial, streamed = _tensorrt_kernel(mixing, chip, constants, tokens)
    tile_bytes = hc.TILE_TOKENS * one(mixing.token_bytes) / splits
    real_bytes = one(mixing.read) / (tiles * splits)
    stages = STREAMED_STAGES if streamed else max(1, round(tile_bytes / MIXED_BYTES))
    clocks = tile_bytes / constants["core_bytes_per_clock"] * one(mixing.work) / stages
    if streamed:
        clocks = streamed * chip.clock_hz / stages
    load = max(LEAST_BYTES, int(real_bytes / stages))
    # A tile's tokens are rows of the streams, of which a stage takes a few values each.
    pieces = max(1, min(hc.TILE_TOKENS, tokens // tiles, load // LEAST_BYTES))
    load = load // pieces * pieces
    warm = one(hc.warm_streams(mixing.replayed, chip))
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
        in_flight=MIXED_IN_FLIGHT,
        held_fill=fitted_chip(chip).matrix_fill_clocks,
        held_issue=fitted_chip(chip).matrix_issue_clocks,
    )
    collapse, collapsed = _chunked({**c, "sites": 1.0}, chip, constants, c["streams"], 1.0)
    start_s = constants["start_us"] * MICRO - _unfitted_chain_s(collapse, chip, constants)
    gap = after_first_load(start_s, chip, warm, load)
    product = equal_blocks(block, tiles * splits, stages, gap_s=gap, end_s=serial)
    streams = Region(nbytes=max(load * stages * tiles * splits, 64), warm=warm)
    return _sites(
        c,
        (streams, *collapsed),
        (product, _moved_region(collapse, 1)),
        "mhc pre",
    )


def _moved_region(launch: Launch, region: int) -> Launch:
    """The launch with its accesses on regions that come later."""
    kinds = tuple(
        replace(kind, accesses=tuple(replace(a, region=a.region + region) for a in kind.accesses))
        for kind in launch.kinds
    )
    return replace(launch, kinds=kinds)


def _tensorrt_kernel(
    mixing: hc.Mixing, chip: ChipSpec, constants: Constants, tokens: int
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
    times = [sum(one(v) for v in kernel.values()) + more for kernel, more in kernels]
    best = int(np.argmin(times))
    return (
        (tiles, 1, 0.0, 0.0),
        (pieces, hc.TRTLLM_SPLIT, serial, 0.0),
        (chip.core_count, 1, 0.0, times[2]),
    )[best]
