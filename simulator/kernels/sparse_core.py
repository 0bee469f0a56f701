"""Sparse attention core: a query's heads over its window and its compressed entries, K = V.

A tile holds some heads of one query and walks its keys in blocks, so the time of a tile is a
prologue plus cycles a key. Multiply-adds of a key run at the core's rate, its softmax on the vector
unit, and keys stored narrower than they are multiplied are converted on the way. Three forms say
how tiles meet the cores: dealt evenly with queries cut where a share ends, dealt so in decode and
in waves behind a gather of the keys in prefill, or in waves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.engine.kernel_section import CoreRule
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constant import Constant
from simulator.kernels.core_rates import core_rate
from simulator.kernels.family import Columns, Family
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.warmth import memory_bytes_per_s, run_share, warm_share
from simulator.kernels.waves import waves_of

# Keys of a block, the step of a tile's loop (FlashMLA 9241ae3).
BLOCK_KEYS = 64
# Picked ids are padded to a multiple of this in the call with two lists (vLLM 0.33).
ID_PAD = 128
# Kernels of a prefill call besides the core: gathers of both lists, and lengths.
PREFILL_EXTRA_KERNELS = 3
# The scheduler of decode counts a request's begin as five blocks and never cuts finer than that.
OVERHEAD_BLOCKS = 5
BF16_BYTES = 2

LAUNCH = Constant(
    name="launch",
    unit="s",
    meaning="graph node gap, start of the core kernel and merge of split rows",
    start=4e-6,
    low=1e-6,
    high=1.5e-5,
)
GATHER = Constant(
    name="gather",
    unit="s",
    meaning="gather and dequantisation of one request's keys into a BF16 buffer (prefill)",
    start=1.3e-6,
    low=2e-7,
    high=5e-6,
)
QUERY_CYCLES = Constant(
    name="query_cycles",
    unit="cycle",
    meaning="core cycles to begin and end a query: load its heads, fill the pipeline, write",
    start=8000.0,
    low=500.0,
    high=30000.0,
)
VECTOR_RATE = Constant(
    name="vector_ops_per_clock",
    unit="op/clk",
    meaning="operations of the softmax that a core completes a cycle between matrix work",
    start=20.0,
    low=4.0,
    high=1024.0,
)
CONVERT_CYCLES = Constant(
    name="convert_cycles",
    unit="cycle",
    meaning="core cycles to convert one value of a key that is stored narrower than multiplied",
    start=0.12,
    low=0.01,
    high=0.5,
)


@dataclass(frozen=True, slots=True)
class Queries:
    """Calls of a core as arrays, from the named sizes of its node."""

    requests: Floats
    new: Floats
    past: Floats
    heads: Floats
    window: Floats
    ratio: Floats
    top_k: Floats
    # Multiply-adds of one head and key, softmax operations of one head and query.
    macs: Floats
    ops: Floats
    key_bytes: Floats
    scaled_values: Floats
    cache_bytes: Floats
    operand_bytes: Floats
    run_bytes: Floats
    pairs: Floats

    @classmethod
    def of(cls, calls: Columns) -> Queries:
        """From named sizes."""
        c = {n: np.asarray(v, dtype=np.float64) for n, v in calls.items() if n != "stored"}
        pairs = np.maximum(c["pairs"] * c["heads"], 1.0)
        queries = np.maximum(c["requests"] * c["new"] * c["heads"], 1.0)
        own = (
            "requests new past heads window ratio top_k key_bytes scaled_values cache_bytes "
            "operand_bytes run_bytes pairs"
        )
        return cls(
            macs=c["macs"] / pairs,
            ops=(c["vector_ops"] + c["special_ops"]) / queries,
            **{name: c[name] for name in own.split()},
        )

    @property
    def tokens(self) -> Floats:
        """Queries of all requests."""
        return self.requests * self.new

    @property
    def visible(self) -> Floats:
        """Tokens that a query sees, mean over the new ones."""
        return self.past + (self.new + 1) / 2

    @property
    def extra(self) -> Floats:
        """Compressed entries of a query beside its window, mean over the new ones."""
        entries = np.where(self.ratio > 0, self.visible / np.maximum(self.ratio, 1.0), 0.0)
        return np.where(self.top_k > 0, np.minimum(entries, self.top_k), entries)

    @property
    def blocks(self) -> Floats:
        """Blocks of keys of a query: of its window, and of its entries."""
        window = np.ceil(np.minimum(self.window, self.visible) / BLOCK_KEYS)
        return window + np.ceil(self.extra / BLOCK_KEYS)

    @property
    def padded_extra(self) -> Floats:
        """Compressed ids of a row in lists padded to `ID_PAD`, mean over the rows of a request."""
        ratio = np.maximum(self.ratio, 1.0)
        entries = np.ceil((self.past + self.new) / ratio / ID_PAD) * ID_PAD
        rising = padded_extra(self.past, self.new, ratio)
        padded = np.where(self.top_k > 0, np.minimum(entries, self.top_k), rising)
        return np.where(self.ratio > 0, padded, 0.0)

    def tiles(self, held: int) -> Floats:
        """Tiles that a query's heads take; fewer heads than a tile are padded."""
        return np.ceil(np.maximum(self.heads, 1) / held)

    def work(self, held: int, keys: Floats, converted: Floats | float) -> dict[str, Floats]:
        """Multiply-adds of tiles of `held` heads over so many keys a query, and what they pad.

        `converted`: share of the queries for which keys are converted on the fly.
        """
        heads = self.tiles(held) * held
        macs = self.tokens * heads * keys * self.macs
        padded_heads = self.pairs * (heads - self.heads) * self.macs
        return {
            "macs": macs,
            "head_padding_macs": padded_heads,
            "key_padding_macs": macs - self.pairs * self.heads * self.macs - padded_heads,
            "converted_values": self.tokens * keys * self.scaled_values * converted,
        }


def held_heads(tiles: Mapping[str, int], chip: ChipSpec) -> int:
    """Heads that one tile holds, by core architecture.

    Assumes: cores of an architecture that the engine does not name have the smallest tile.
    """
    return tiles.get(core_architecture(chip), min(tiles.values()))


@dataclass(frozen=True, slots=True)
class KeyTime:
    """Cycles of one key in a tile: multiply-adds, softmax, and the conversion of a narrow key.

    Assumes: conversion runs beside the rest in warps of its own, and each covers the other only
        partly: the root of the sum of their squares.
    """

    plain: Floats
    converted: Floats

    @classmethod
    def of(
        cls,
        q: Queries,
        keys: Floats,
        held: int,
        math: str,
        chip: ChipSpec,
        constants: Mapping[str, float],
    ) -> KeyTime:
        """For tiles of `held` heads, over so many keys a query with padding."""
        matrix = q.macs * held / core_rate(chip, math).macs_per_clock
        softmax = q.ops / np.maximum(keys, 1.0) * held
        plain = matrix + softmax / constants["vector_ops_per_clock"]
        convert = constants.get("convert_cycles", 0.0) * q.scaled_values
        return cls(plain, np.hypot(plain, convert))


def padded_before(tokens: Floats, ratio: Floats) -> Floats:
    """Padded compressed ids of all rows with up to `tokens` tokens, in units of the padding.

    A row of i tokens has floor(i / ratio) ids: one unit from `ratio` tokens on, one more every
    `ratio` x 128.
    """
    step = ratio * ID_PAD
    rows = np.maximum(tokens - ratio + 1, 0.0)
    full = np.floor(rows / step)
    return step * full * (full + 1) / 2 + (rows - step * full) * (full + 1)


def padded_extra(past: Floats, new: Floats, ratio: Floats) -> Floats:
    """Padded compressed ids of a row, mean over the new rows of a request."""
    return (padded_before(past + new, ratio) - padded_before(past, ratio)) / new * ID_PAD


def core_tiles(queries: Floats, tile_cycles: Floats, chip: ChipSpec) -> dict[str, Floats]:
    """Seconds of equal tiles in waves: the work itself, and places that the last wave leaves."""
    full = waves_of(queries, chip.core_count) * tile_cycles / chip.clock_hz
    fair = queries / chip.core_count * tile_cycles / chip.clock_hz
    return {"matrix": fair, "tail": full - fair}


def split_schedule(queries: Floats, blocks: Floats, cores: float | Floats) -> tuple[Floats, Floats]:
    """Queries begun and key blocks walked by the fullest core, as FlashMLA's scheduler deals them.

    Every query counts as its blocks and five more; cores take equal shares in order, cutting a
    query where a share ends, and no share is smaller than a begin and five blocks.
    """
    cost = blocks + OVERHEAD_BLOCKS
    share = np.maximum(np.ceil(queries * cost / cores), OVERHEAD_BLOCKS) + OVERHEAD_BLOCKS
    whole = np.floor(share / cost)
    cut = np.maximum(share - whole * cost - OVERHEAD_BLOCKS, 0.0)
    return whole + (cut > 0), whole * blocks + cut


def decode_tiles(
    queries: Floats,
    blocks: Floats,
    query_cycles: float,
    block_cycles: Floats,
    chip: ChipSpec,
    tiles_a_query: float | Floats = 1.0,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Seconds of key blocks evenly spread, of begins, and of what the fullest core has beyond.

    Last the queries that it walks, parts of them counted as such.
    """
    begins, walked = split_schedule(
        queries, blocks, np.maximum(np.floor(chip.core_count / tiles_a_query), 1.0)
    )
    full = walked * block_cycles / chip.clock_hz
    fair = queries * tiles_a_query * blocks / chip.core_count * block_cycles / chip.clock_hz
    work = np.minimum(full, fair)
    return work, begins * query_cycles / chip.clock_hz, full - work, walked / blocks


def memory_seconds(q: Queries, chip: ChipSpec) -> Floats:
    """Queries, outputs and cached keys: from the LLC where they stay in it, else from memory."""
    total = q.operand_bytes + q.cache_bytes
    read = q.operand_bytes + q.cache_bytes / run_share(q.run_bytes, chip)
    warm = warm_share(total, chip)
    cold = read * (1.0 - warm) / memory_bytes_per_s(chip)
    return np.asarray(cold + total * warm / chip.llc_bandwidth_bytes_per_s)


def with_memory(
    seconds: Mapping[str, Floats],
    memory: Floats,
    work: Mapping[str, Floats],
    rows: Floats | None = None,
) -> Parts:
    """Work beside its loads.

    Assumes: loads and work cover each other only partly: the root of the sum of their squares.
    """
    busy = np.sum([value for cause, value in seconds.items() if cause != "launch"], axis=0)
    return Parts({**seconds, "dram_bandwidth": np.hypot(busy, memory) - busy}, rows, work=work)


class SparseCore(Family):
    """FlashMLA's sparse attention: its decode kernel, and its prefill over gathered keys.

    Decode: launch + requests of the fullest core x prologue + its keys; keys are converted on the
    fly, and long rows of few requests are split over cores, in parts of at least five blocks.
    Prefill over gathered keys: launch + three small kernels + a gather a request + waves x
    (prologue + keys x cycles).

    Assumes: rows of different length mix evenly over the cores.
    """

    name: ClassVar[str] = "sparse_core_flashmla"
    constants: ClassVar[tuple[Constant, ...]] = (
        LAUNCH,
        GATHER,
        QUERY_CYCLES,
        VECTOR_RATE,
        CONVERT_CYCLES,
    )

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause of vLLM's call with two lists, 64 heads a tile."""
        rule = CoreRule(form="two_lists", head_tile={"hopper": 64})
        return two_lists(calls, chip, constants, rule, "bf16")


def two_lists(
    calls: Columns, chip: ChipSpec, constants: Mapping[str, float], rule: CoreRule, math: str
) -> Parts:
    """vLLM's core: ids of window and entries in two padded lists; prefill gathers its keys."""
    q = Queries.of(calls)
    held = held_heads(rule.head_tile, chip)
    tiles, extra = q.tiles(held), q.padded_extra
    keys = q.window + extra
    key = KeyTime.of(q, keys, held, math, chip, constants)
    blocks = np.ceil(np.minimum(q.past + 1, q.window) / BLOCK_KEYS) + extra / BLOCK_KEYS
    work, begin, tail, rows = decode_tiles(
        q.requests, blocks, constants["query_cycles"], BLOCK_KEYS * key.converted, chip, tiles
    )
    tile = constants["query_cycles"] + key.plain * keys
    waves = core_tiles(q.tokens * tiles, tile, chip)
    prefill = q.new > 1
    more = PREFILL_EXTRA_KERNELS * chip.launch_gap_s
    seconds = {
        "launch": np.where(prefill, constants["launch"] + more, constants["launch"]),
        "serial": np.where(prefill, 0.0, begin),
        "dram_latency": np.where(prefill, q.requests * constants["gather"], 0.0),
        "matrix": np.where(prefill, waves["matrix"], work),
        "tail": np.where(prefill, waves["tail"], tail),
    }
    priced = np.where(prefill, keys, blocks * BLOCK_KEYS)
    asked = q.work(held, priced, np.where(prefill, 0.0, 1.0))
    return with_memory(seconds, memory_seconds(q, chip), asked, np.where(prefill, 0.0, rows))


def dealt(
    calls: Columns, chip: ChipSpec, constants: Mapping[str, float], rule: CoreRule, math: str
) -> Parts:
    """SGLang's core: the decode kernel for every query, keys converted on the fly."""
    q = Queries.of(calls)
    keys = q.blocks * BLOCK_KEYS
    held = held_heads(rule.head_tile, chip)
    key = KeyTime.of(q, keys, held, math, chip, constants)
    work, begin, tail, rows = decode_tiles(
        q.tokens,
        q.blocks,
        constants["query_cycles"],
        BLOCK_KEYS * key.converted,
        chip,
        q.tiles(held),
    )
    launch = np.full_like(work, chip.launch_gap_s)
    seconds = {"launch": launch, "matrix": work, "serial": begin, "tail": tail}
    return with_memory(seconds, memory_seconds(q, chip), q.work(held, keys, 1.0), rows)


def gathered(
    calls: Columns, chip: ChipSpec, constants: Mapping[str, float], rule: CoreRule, math: str
) -> Parts:
    """Attention over all entries of the requests, gathered in BF16 before; the gather is apart."""
    q = Queries.of(calls)
    keys = q.blocks * BLOCK_KEYS
    held = held_heads({**rule.head_tile, **rule.gathered_head_tile}, chip)
    key = KeyTime.of(q, keys, held, math, chip, constants)
    tile = constants["query_cycles"] + key.plain * keys
    launch = np.full_like(tile, chip.launch_gap_s)
    tiles = core_tiles(q.tokens * q.tiles(held), tile, chip)
    work = q.work(held, keys, 0.0)
    return with_memory({"launch": launch, **tiles}, memory_seconds(q, chip), work)


def gathering(calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
    """The gather of all entries as four plain kernels: copy, convert, scale, join with the rest.

    The copy reads and writes a stored row, the others convert its scaled values to BF16, multiply
    them by their scales, and join them with the values that are stored wide.
    """
    q = Queries.of(calls)
    wide = np.asarray(calls["values"], dtype=np.float64) * BF16_BYTES
    narrow, scaled = q.scaled_values, q.scaled_values * BF16_BYTES
    row = 2 * q.key_bytes + (narrow + scaled) + 2 * scaled + 2 * wide
    entries = np.where(q.ratio > 0, q.requests * (q.past + q.new) / np.maximum(q.ratio, 1.0), 0.0)
    moved = entries * row / (constants["move"] * chip.core_count * chip.clock_hz)
    work = {
        "gathered_bytes": entries * (q.key_bytes + wide),
        "converted_values": entries * narrow,
    }
    return Parts({"vector": moved}, work=work)


def waves(
    calls: Columns, chip: ChipSpec, constants: Mapping[str, float], rule: CoreRule, math: str
) -> Parts:
    """TensorRT-LLM's core: tiles of heads in waves, keys multiplied in the format of the cache.

    Assumes: beginning a query hides behind the keys of the one before.
    """
    q = Queries.of(calls)
    keys = q.blocks * BLOCK_KEYS
    held = held_heads(rule.head_tile, chip)
    key = KeyTime.of(q, keys, held, math, chip, constants)
    tiles = q.tokens * q.tiles(held)
    seconds = core_tiles(tiles, key.plain * keys, chip)
    launch = np.full_like(tiles, chip.launch_gap_s)
    work = q.work(held, keys, 0.0)
    return with_memory({"launch": launch, **seconds}, memory_seconds(q, chip), work)


FAMILIES: dict[str, Family] = {f.name: f for f in (SparseCore(),)}
