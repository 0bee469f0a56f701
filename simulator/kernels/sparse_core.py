"""Sparse attention core: a query's heads over its window and its compressed entries, K = V.

One query (all its padded heads) is a tile of one core; the keys of a tile are a serial loop, so
the time of a tile is a prologue plus cycles a key, and tiles go over the cores in waves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.constant import Constant
from simulator.kernels.family import Columns, Family
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.pipes import exposed
from simulator.kernels.warmth import warm_share
from simulator.kernels.waves import waves_of

WINDOW = 128
# Compressed ids are padded to a multiple of this in the two-list call.
ID_PAD = 128
BLOCK_KEYS = 64
HEADS = 64
HEAD_DIM = 512
# A cached key, and a query's heads in and out in BF16.
KEY_BYTES = 584
QUERY_BYTES = 2 * 2 * HEADS * HEAD_DIM
# Tokens an HCA entry stands for.
RATIO = 128
# Kernels of a prefill call besides the core: gathers of both lists, and lengths.
PREFILL_EXTRA_KERNELS = 3
# The scheduler of decode counts a request's begin as five blocks and never cuts finer than that.
OVERHEAD_BLOCKS = 5

CORE_CONSTANTS = (
    Constant(
        name="launch",
        unit="s",
        meaning="graph node gap, start of the core kernel and merge of split rows",
        start=4e-6,
        low=1e-6,
        high=1.5e-5,
    ),
    Constant(
        name="gather",
        unit="s",
        meaning="gather and dequantisation of one request's keys into a BF16 buffer (prefill)",
        start=1.3e-6,
        low=2e-7,
        high=5e-6,
    ),
    Constant(
        name="query_cycles",
        unit="cycle",
        meaning="core cycles to begin and end a query: load its heads, fill the pipeline, write",
        start=8000.0,
        low=500.0,
        high=30000.0,
    ),
    Constant(
        name="key_cycles",
        unit="cycle",
        meaning="core cycles for a key and 64 heads, BF16 keys (QK, softmax, PV)",
        start=45.0,
        low=16.0,
        high=150.0,
    ),
    Constant(
        name="decode_key_cycles",
        unit="cycle",
        meaning="core cycles for a key and 64 heads where the core dequantises FP8 keys itself",
        start=60.0,
        low=16.0,
        high=250.0,
    ),
)


def padded_before(tokens: Floats) -> Floats:
    """Padded compressed ids of all rows with up to `tokens` tokens, in units of the padding.

    A row of i tokens has floor(i / 128) ids: one unit from 128 tokens on, one more every 16,384.
    """
    step = RATIO * ID_PAD
    rows = np.maximum(tokens - RATIO + 1, 0.0)
    full = np.floor(rows / step)
    return step * full * (full + 1) / 2 + (rows - step * full) * (full + 1)


def padded_extra(past: Floats, new: Floats) -> Floats:
    """Padded compressed ids of a row, mean over the new rows of a request."""
    return (padded_before(past + new) - padded_before(past)) / new * ID_PAD


def core_tiles(queries: Floats, tile_cycles: Floats, chip: ChipSpec) -> dict[str, Floats]:
    """Seconds of equal tiles in waves: the work itself, and places that the last wave leaves."""
    full = waves_of(queries, chip.core_count) * tile_cycles / chip.clock_hz
    fair = queries / chip.core_count * tile_cycles / chip.clock_hz
    return {"matrix": fair, "tail": full - fair}


class SparseCoreVllm(Family):
    """vLLM's HCA core (FlashMLA sparse, two id lists).

    Prefill: launch + three small kernels + a gather a request + waves x (prologue + keys x cycles),
    keys = 128 of the window + compressed ids padded to 128. Decode (`new_tokens` 1): launch +
    requests of the fullest core x prologue + its keys; keys are dequantised on the fly, and long
    rows of few requests are split over cores, in parts of at least five blocks.

    Assumes: rows of different length mix evenly over the cores.
    """

    name: ClassVar[str] = "sparse_core_vllm"
    constants: ClassVar[tuple[Constant, ...]] = CORE_CONSTANTS
    needs: ClassVar[tuple[str, ...]] = ("batch", "new_tokens", "past_tokens")

    def covers(self, row: Mapping[str, str]) -> bool:
        """HCA core rows of vLLM."""
        return row["op"] == "hca_attention_core" and row["engine"].startswith("vllm")

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause."""
        batch, new, past = (np.asarray(calls[n], dtype=np.float64) for n in self.needs)
        return core_parts(
            batch, new, past, padded_extra(past, new), np.ones_like(batch), chip, constants
        )


def core_parts(
    batch: Floats,
    new: Floats,
    past: Floats,
    extra: Floats,
    tiles: Floats,
    chip: ChipSpec,
    constants: Mapping[str, float],
) -> Parts:
    """Seconds by cause of queries with a window and `extra` padded compressed ids each.

    `tiles` are those that a query's heads take.
    """
    prefill = _prefill(batch, new, extra, tiles, chip, constants)
    decode = _decode(batch, past, extra, tiles, chip, constants)
    seconds = {k: np.where(new > 1, prefill[k], decode[k]) for k in prefill}
    keys = np.minimum(past, WINDOW - 1) + new + np.floor((past + new) / RATIO)
    memory = core_memory_seconds(batch * new * QUERY_BYTES, batch * keys * KEY_BYTES, chip)
    busy = seconds["matrix"] + seconds["tail"] + seconds["dram_latency"] + seconds["serial"]
    return Parts({**seconds, "dram_bandwidth": exposed(memory, busy)})


def core_memory_seconds(queries: Floats, keys: Floats, chip: ChipSpec) -> Floats:
    """Bytes of queries, outputs and cached keys that do not stay in the LLC, at peak bandwidth."""
    total = queries + keys
    return total * (1.0 - warm_share(total, chip)) / chip.hbm_bandwidth_bytes_per_s


def _prefill(
    batch: Floats, new: Floats, extra: Floats, tiles: Floats, chip: ChipSpec, c: Mapping[str, float]
) -> dict[str, Floats]:
    tile = c["query_cycles"] + c["key_cycles"] * (WINDOW + extra)
    launch = c["launch"] + PREFILL_EXTRA_KERNELS * chip.launch_gap_s
    return {
        "launch": np.full_like(tile, launch),
        "serial": np.zeros_like(tile),
        "dram_latency": batch * c["gather"],
        **core_tiles(batch * new * tiles, tile, chip),
    }


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


def _decode(
    batch: Floats,
    past: Floats,
    extra: Floats,
    tiles: Floats,
    chip: ChipSpec,
    c: Mapping[str, float],
) -> dict[str, Floats]:
    blocks = np.ceil(np.minimum(past + 1, WINDOW) / BLOCK_KEYS) + extra / BLOCK_KEYS
    cycles = BLOCK_KEYS * c["decode_key_cycles"]
    work, begin, tail = decode_tiles(batch, blocks, c["query_cycles"], cycles, chip, tiles)
    return {
        "launch": np.full_like(work, c["launch"]),
        "serial": begin,
        "dram_latency": np.zeros_like(work),
        "matrix": work,
        "tail": tail,
    }


def decode_tiles(
    queries: Floats,
    blocks: Floats,
    query_cycles: float,
    block_cycles: float,
    chip: ChipSpec,
    tiles_a_query: float | Floats = 1.0,
) -> tuple[Floats, Floats, Floats]:
    """Seconds of key blocks evenly spread, of begins, and of what the fullest core has beyond."""
    begins, walked = split_schedule(
        queries, blocks, np.maximum(np.floor(chip.core_count / tiles_a_query), 1.0)
    )
    full = walked * block_cycles / chip.clock_hz
    fair = queries * tiles_a_query * blocks / chip.core_count * block_cycles / chip.clock_hz
    work = np.minimum(full, fair)
    return work, begins * query_cycles / chip.clock_hz, full - work


FAMILIES: dict[str, Family] = {f.name: f for f in (SparseCoreVllm(),)}
