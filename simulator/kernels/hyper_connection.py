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
from simulator.kernels.warmth import warm_share
from simulator.kernels.waves import tiles_of, waves_of

STREAM_BYTES = 2
WEIGHT_BYTES = 4
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


def _engine(row: Mapping[str, str]) -> str:
    return row["engine"].partition("-")[0]


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
    needs: ClassVar[tuple[str, ...]] = ("num_tokens", "hidden_size", "hc_mult", "num_sites")

    def __init__(self, name: str, engines: tuple[str, ...]) -> None:
        self.name = name  # type: ignore[misc]
        self.engines = engines

    def covers(self, row: Mapping[str, str]) -> bool:
        """Rows of op `mhc_post` of the family's engines."""
        return row["op"] == "mhc_post" and _engine(row) in self.engines

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Start + chain of chunks + the slower of DRAM and cache, times the sites."""
        tokens, hidden, streams, sites = _numbers(calls)
        traffic = (2 * streams + 1) * tokens * hidden * STREAM_BYTES
        cold = traffic * (1 - warm_streams(sites * traffic, chip))
        memory = chip.hbm_bandwidth_bytes_per_s * constants["dram_share"]
        pipes = {
            "dram_bandwidth": cold / memory,
            "llc": traffic / chip.llc_bandwidth_bytes_per_s,
        }
        return _sites(sites, constants, hidden, overlapped(pipes))


class HyperConnectionPre(Family):
    """Mixing product, its normalisation, and the collapse of the streams: two kernels a site.

    The product [24, n d] x streams runs as tiles of 64 tokens, split along K to fill the cores in
    one wave where tiles are few; a core streams its tile at a fixed rate a clock, unless DRAM or
    cache are slower. The collapse reads the n streams again and writes one.
    """

    constants: ClassVar[tuple[Constant, ...]] = (START, CHUNK_TIME, CORE_RATE, DRAM_SHARE)
    needs: ClassVar[tuple[str, ...]] = ("num_tokens", "hidden_size", "hc_mult", "num_sites")
    engines: ClassVar[tuple[str, ...]] = ("sglang", "vllm")
    name: ClassVar[str] = "mhc_pre_tilelang"

    def covers(self, row: Mapping[str, str]) -> bool:
        """Rows of op `mhc_pre` of the family's engines."""
        return row["op"] == "mhc_pre" and _engine(row) in self.engines

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Start + chain of chunks + product + collapse, times the sites."""
        tokens, hidden, streams, sites = _numbers(calls)
        read = streams * tokens * hidden * STREAM_BYTES
        collapse = {
            "dram_bandwidth": (read * (1 - warm_streams(read, chip)) + read / streams)
            / (chip.hbm_bandwidth_bytes_per_s * constants["dram_share"]),
            "llc": (read + read / streams) / chip.llc_bandwidth_bytes_per_s,
        }
        product = self.product(_Mixing(tokens, hidden, streams, sites), chip, constants)
        moved = overlapped(collapse)
        for cause, seconds in product.items():
            moved[cause] = moved[cause] + seconds if cause in moved else seconds
        return _sites(sites, constants, hidden, moved)

    def product(
        self, mixing: _Mixing, chip: ChipSpec, constants: Mapping[str, float]
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
    engines: ClassVar[tuple[str, ...]] = ("trtllm",)
    name: ClassVar[str] = "mhc_pre_trtllm"

    def product(
        self, mixing: _Mixing, chip: ChipSpec, constants: Mapping[str, float]
    ) -> dict[str, Floats]:
        """The fastest of the three kernels."""
        plain = mixing.matrix(tiles_of(mixing.tokens, TILE_TOKENS), 1.0, chip, constants)
        pieces = tiles_of(mixing.tokens, TRTLLM_SPLIT_TILE_TOKENS)
        split = mixing.matrix(pieces, float(TRTLLM_SPLIT), chip, constants)
        split["serial"] = np.full_like(mixing.tokens, constants["split_us"] * MICRO)
        vector = mixing.vector(chip, constants)
        return _fastest(vector, split, plain)


class _Mixing:
    """The product of one site: streams [tokens, n d] with weights [n (n + 2), n d]."""

    def __init__(self, tokens: Floats, hidden: Floats, streams: Floats, sites: Floats) -> None:
        self.tokens = tokens
        self.token_bytes = streams * hidden * STREAM_BYTES
        self.read = tokens * self.token_bytes
        self.weights = streams * (streams + 2) * streams * hidden * WEIGHT_BYTES
        self.replayed = sites * self.read

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
        core = waves * tile_bytes / (constants["core_bytes_per_clock"] * chip.clock_hz)
        return overlapped({"matrix": core, **self._moves(chip, constants)})

    def vector(self, chip: ChipSpec, constants: Mapping[str, float]) -> dict[str, Floats]:
        """Weights streamed from the cache once for every four tokens."""
        passes = tiles_of(self.tokens, VECTOR_TOKENS)
        rate = chip.llc_bandwidth_bytes_per_s * constants["weight_llc_share"]
        moves = self._moves(chip, constants)
        return overlapped({**moves, "llc": np.maximum(moves["llc"], passes * self.weights / rate)})

    def _moves(self, chip: ChipSpec, constants: Mapping[str, float]) -> dict[str, Floats]:
        memory = chip.hbm_bandwidth_bytes_per_s * constants["dram_share"]
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


def _numbers(calls: Columns) -> tuple[Floats, Floats, Floats, Floats]:
    """Tokens, hidden size, streams and sites of each call."""
    names = ("num_tokens", "hidden_size", "hc_mult", "num_sites")
    tokens, hidden, streams, sites = (np.asarray(calls[n], dtype=np.float64) for n in names)
    return tokens, hidden, streams, sites


def _sites(
    sites: Floats, constants: Mapping[str, float], hidden: Floats, moved: Mapping[str, Floats]
) -> Parts:
    """Start, chain of chunks and transfers of one site, times the sites."""
    seconds = dict(moved)
    chain = constants.get("chunk_us", 0.0) * MICRO * np.ceil(hidden / CHUNK)
    seconds["serial"] = seconds.get("serial", 0.0) + chain
    seconds["launch"] = np.full_like(hidden, constants["start_us"] * MICRO)
    return Parts({cause: sites * value for cause, value in seconds.items()})


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        HyperConnectionPost("mhc_post_tilelang", ("sglang", "vllm")),
        HyperConnectionPost("mhc_post_trtllm", ("trtllm",)),
        HyperConnectionPre(),
        TensorRtHyperConnectionPre(),
    )
}
