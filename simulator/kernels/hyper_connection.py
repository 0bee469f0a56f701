"""Hyper-connection kernels: mix the residual streams before a block (`pre`) and after (`post`).

A token keeps `hc_mult` streams of `hidden_size` half-precision values. A call covers `num_sites`
sites of a layer, one after the other, each with its own streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.constant import Constant
from simulator.kernels.family import Columns, Family
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.pipes import overlapped
from simulator.kernels.warmth import memory_bytes_per_s, warm_share
from simulator.kernels.waves import tiles_of, waves_of

STREAM_BYTES = 2
# Cycles of one operation of a token's gates and Sinkhorn steps, which follow one another in one
# thread: an instruction a cycle at best (guessed: nothing measured varies them).
GATE_CYCLES = 1.0
MICRO = 1e-6
# Values that one thread block loads at a time along a token's hidden dimension.
CHUNK = 1024
# Far and near half of the cache each keep a copy of a line that both sides read.
CACHE_COPIES = 2
# Tokens in a matrix tile of the mixing product, and the product's rows kept split along K.
TILE_TOKENS = 64
TRTLLM_SPLIT, TRTLLM_SPLIT_TILE_TOKENS = 16, 32
# Tokens that share one pass over the weights in TensorRT-LLM's vector kernel.
VECTOR_TOKENS = 4

START = Constant(
    name="start_us",
    unit="us",
    meaning="launch, prologue and epilogue of a site's kernels",
    start=3.0,
    low=0.5,
    high=20.0,
)
CHUNK_TIME = Constant(
    name="chunk_us",
    unit="us",
    meaning="one dependent load-mix-store round of 1,024 values of a token",
    start=0.3,
    low=0.05,
    high=1.5,
)
DRAM_SHARE = Constant(
    name="dram_share",
    unit="1",
    meaning="share of peak memory bandwidth that the mixed read and write streams reach",
    start=0.88,
    low=0.6,
    high=1.0,
)
CORE_RATE = Constant(
    name="core_bytes_per_clock",
    unit="B/clk",
    meaning="what one core streams through its pipeline of tiles, a clock",
    start=20.0,
    low=5.0,
    high=60.0,
)
SPLIT_TIME = Constant(
    name="split_us",
    unit="us",
    meaning="writing, synchronising and adding the partial products of a split along K",
    start=6.0,
    low=0.5,
    high=20.0,
)
WEIGHT_SHARE = Constant(
    name="weight_llc_share",
    unit="1",
    meaning="share of cache bandwidth at which the vector kernel streams its weights",
    start=0.5,
    low=0.1,
    high=1.0,
)


def warm_streams(footprint: Floats, chip: ChipSpec) -> Floats:
    """Share of a replayed footprint still cached.

    Assumes: lines are kept in both halves of the cache, so that half its capacity serves.
    """
    return warm_share(footprint * CACHE_COPIES, chip)


class HyperConnectionPost(Family):
    """Expands a block's output into the streams: one thread block a token, chunk after chunk.

    A site takes its start, a chain of ceil(hidden / 1,024) dependent rounds, and moves 2 n + 1
    streams (read n and the block's output, write n) through DRAM or, where the replayed streams of
    all sites still fit, through the cache.
    """

    constants: ClassVar[tuple[Constant, ...]] = (START, CHUNK_TIME, DRAM_SHARE)

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Start + chain of chunks + the slower of DRAM and cache, times the sites."""
        c = _numbers(calls)
        tokens, hidden, streams, sites = c["tokens"], c["hidden"], c["streams"], c["sites"]
        traffic = (2 * streams + 1) * tokens * hidden * STREAM_BYTES
        cold = traffic * (1 - warm_streams(sites * traffic, chip))
        memory = memory_bytes_per_s(chip) * constants["dram_share"]
        pipes = {
            "dram_bandwidth": cold / memory,
            "llc": traffic / chip.llc_bandwidth_bytes_per_s,
        }
        return _sites(c, constants, chip, overlapped(pipes))


class HyperConnectionPre(Family):
    """Mixing product, its normalisation, and the collapse of the streams: two kernels a site.

    The product [24, n d] x streams runs as tiles of 64 tokens, split along K to fill the cores in
    one wave where tiles are few; a core streams its tile at a fixed rate a clock, unless DRAM or
    cache are slower. The collapse reads the n streams again and writes one.
    """

    constants: ClassVar[tuple[Constant, ...]] = (START, CHUNK_TIME, CORE_RATE, DRAM_SHARE)
    name: ClassVar[str] = "mhc_pre_tilelang"

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Start + chain of chunks + product + collapse, times the sites."""
        c = _numbers(calls)
        tokens, hidden, streams = c["tokens"], c["hidden"], c["streams"]
        read = streams * tokens * hidden * STREAM_BYTES
        collapse = {
            "dram_bandwidth": (read * (1 - warm_streams(read, chip)) + read / streams)
            / (memory_bytes_per_s(chip) * constants["dram_share"]),
            "llc": (read + read / streams) / chip.llc_bandwidth_bytes_per_s,
        }
        product = self.product(Mixing(c), chip, constants)
        moved = overlapped(collapse)
        for cause, seconds in product.items():
            moved[cause] = moved[cause] + seconds if cause in moved else seconds
        return _sites(c, constants, chip, moved)

    def product(
        self, mixing: Mixing, chip: ChipSpec, constants: Mapping[str, float]
    ) -> dict[str, Floats]:
        """Seconds by cause of the mixing product of one site."""
        tiles = tiles_of(mixing.tokens, TILE_TOKENS)
        split = np.maximum(np.floor(chip.core_count / tiles), 1.0)
        return mixing.matrix(tiles, split, chip, constants)


class TensorRtHyperConnectionPre(HyperConnectionPre):
    """As `HyperConnectionPre`, with TensorRT-LLM's three product kernels, of which it takes the
    fastest: vector units for few tokens (each four tokens read all weights), 16 pieces of K in
    tiles of 32 tokens with a reduction after, and tiles of 64 tokens without a split.

    Assumes: the engine's choice of kernel is tuned, so that the fastest runs.
    """

    constants: ClassVar[tuple[Constant, ...]] = (
        START,
        CORE_RATE,
        DRAM_SHARE,
        SPLIT_TIME,
        WEIGHT_SHARE,
    )
    name: ClassVar[str] = "mhc_pre_trtllm"

    def product(
        self, mixing: Mixing, chip: ChipSpec, constants: Mapping[str, float]
    ) -> dict[str, Floats]:
        """The fastest of the three kernels."""
        plain = mixing.matrix(tiles_of(mixing.tokens, TILE_TOKENS), 1.0, chip, constants)
        pieces = tiles_of(mixing.tokens, TRTLLM_SPLIT_TILE_TOKENS)
        split = mixing.matrix(pieces, float(TRTLLM_SPLIT), chip, constants)
        split["serial"] = np.full_like(mixing.tokens, constants["split_us"] * MICRO)
        vector = mixing.vector(chip, constants)
        return _fastest(vector, split, plain)


class Mixing:
    """The product of one site: streams [tokens, n d] with weights [columns, n d]."""

    def __init__(self, c: Mapping[str, Floats]) -> None:
        self.tokens = c["tokens"]
        self.token_bytes = c["streams"] * c["hidden"] * STREAM_BYTES
        self.read = self.tokens * self.token_bytes
        self.weights = c["weight_bytes"]
        self.replayed = c["sites"] * self.read
        values = c["streams"] * c["hidden"] * np.maximum(c["gates"], 1.0)
        # Multiply-adds beyond one a value of a token and column: 1 unless an operation has more.
        self.work = np.maximum(c["macs"] / np.maximum(self.tokens * values, 1.0), 1e-3)

    def matrix(
        self,
        tiles: Floats,
        split: Floats | float,
        chip: ChipSpec,
        constants: Mapping[str, float],
    ) -> dict[str, Floats]:
        """Waves of tiles at a core's rate, or DRAM or cache where slower.

        Assumes: a smaller tile takes as long as one of 64 tokens: its loop over K sets the time.
        """
        waves = waves_of(tiles * split, chip.core_count)
        tile_bytes = TILE_TOKENS * self.token_bytes / split
        core = waves * tile_bytes / (constants["core_bytes_per_clock"] * chip.clock_hz) * self.work
        return overlapped({"matrix": core, **self._moves(chip, constants)})

    def vector(self, chip: ChipSpec, constants: Mapping[str, float]) -> dict[str, Floats]:
        """Weights streamed from the cache once for every four tokens."""
        passes = tiles_of(self.tokens, VECTOR_TOKENS)
        rate = chip.llc_bandwidth_bytes_per_s * constants["weight_llc_share"]
        moves = self._moves(chip, constants)
        return overlapped({**moves, "llc": np.maximum(moves["llc"], passes * self.weights / rate)})

    def _moves(self, chip: ChipSpec, constants: Mapping[str, float]) -> dict[str, Floats]:
        memory = memory_bytes_per_s(chip) * constants["dram_share"]
        cold = self.read * (1 - warm_streams(self.replayed, chip))
        return {
            "dram_bandwidth": cold / memory,
            "llc": (self.read + self.weights) / chip.llc_bandwidth_bytes_per_s,
        }


def _fastest(*kernels: dict[str, Floats]) -> dict[str, Floats]:
    """For each call the kernel that takes least, by cause."""
    totals = np.stack([np.sum(list(kernel.values()), axis=0) for kernel in kernels])
    best = totals.argmin(axis=0)
    causes = {cause for kernel in kernels for cause in kernel}
    nothing = np.zeros(totals.shape[1])
    return {
        cause: np.choose(best, [kernel.get(cause, nothing) for kernel in kernels])
        for cause in causes
    }


def _numbers(calls: Columns) -> dict[str, Floats]:
    """Named sizes as arrays."""
    return {name: np.asarray(value, dtype=np.float64) for name, value in calls.items()}


def _sites(
    c: Mapping[str, Floats],
    constants: Mapping[str, float],
    chip: ChipSpec,
    moved: Mapping[str, Floats],
) -> Parts:
    """Start, chain of chunks, gates and transfers of one site, times the sites.

    Assumes: gates and Sinkhorn steps of a token run one after the other in one thread, those of
        all tokens side by side.
    """
    seconds = dict(moved)
    chain = constants.get("chunk_us", 0.0) * MICRO * np.ceil(c["hidden"] / CHUNK)
    gates = GATE_CYCLES * c["gate_ops"] / np.maximum(c["tokens"], 1.0) / chip.clock_hz
    seconds["serial"] = seconds.get("serial", 0.0) + chain + gates
    # Products and their sums fuse: the vector units' peak at the clock in use.
    rate = chip.vector_flops_per_s * chip.clock_hz / chip.peak_clock_hz
    spent = np.sum(list(moved.values()), axis=0)
    seconds["vector"] = np.hypot(spent, c["vector_ops"] / rate) - spent
    seconds["launch"] = np.full_like(c["hidden"], constants["start_us"] * MICRO)
    return Parts({cause: c["sites"] * value for cause, value in seconds.items()})


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        HyperConnectionPost("mhc_post_tilelang"),
        HyperConnectionPost("mhc_post_trtllm"),
        HyperConnectionPre(),
        TensorRtHyperConnectionPre(),
    )
}
