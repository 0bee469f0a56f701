"""Kernel programs of attention: the core and its gather, index logits, top-k."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
from simulator.engine.kernel_section import CoreRule
from simulator.kernels import index_logits, sparse_core, top_k
from simulator.kernels.constants_file import fitted_chip
from simulator.kernels.core_rates import core_rate
from simulator.kernels.moved_blocks import THREAD_REGISTERS_BYTES, after_first_load, passed
from simulator.kernels.sparse_core import BF16_BYTES, BLOCK_KEYS, KeyTime, Queries
from simulator.kernels.warmth import warm_share

Sizes = Mapping[str, Any]
Constants = Mapping[str, float]


def columns_of(sizes: Sizes) -> dict[str, np.ndarray]:
    """Sizes of one call as columns of one row."""
    return {name: np.array([value]) for name, value in sizes.items()}


def _one(value: Any) -> float:
    return float(np.asarray(value, dtype=np.float64).reshape(-1)[0])


def dealt_units(lengths: np.ndarray, cores: int, share: int) -> np.ndarray:
    """Rows of so many units dealt to cores in order, a row cut where a share ends.

    Pieces as rows of an array: core, row, first unit, units. The last core takes what is left.
    """
    ends = np.cumsum(lengths)
    cuts = np.arange(1, cores) * share
    edges = np.unique(np.concatenate([[0], ends, cuts[cuts < ends[-1]]]))
    first, last = edges[:-1], edges[1:]
    row = np.searchsorted(ends, first, side="right")
    low = first - (ends[row] - lengths[row])
    core = np.minimum(first // share, cores - 1)
    return np.stack([core, row, low, last - first], axis=1).astype(np.int64)


def dealt_rows(rows: int, blocks: int, cores: int, share: int) -> np.ndarray:
    """Equal rows of key blocks dealt as FlashMLA's scheduler does; pieces as `dealt_units`.

    A core takes whole rows, each for its blocks and a begin, and of the next one what is left of
    its share beside another begin. The last core takes what is left.
    """
    begin = sparse_core.OVERHEAD_BLOCKS
    pieces, row, done = [], 0, 0
    for core in range(cores):
        left = share if core < cores - 1 else rows * (blocks + begin)
        while row < rows:
            part = min(blocks - done, left - begin)
            if part > 0:
                pieces.append((core, row, done, part))
            if part < blocks - done:
                done += max(part, 0)
                break
            left -= part + begin
            row, done = row + 1, 0
    return np.array(pieces, dtype=np.int64)


def _key_work(
    key: KeyTime, q: Queries, held: int, math: str, chip: ChipSpec, converted: bool
) -> Work:
    """One block of keys: matrix units at their rate, and what the softmax and conversion add."""
    matrix = _one(q.macs) * held / core_rate(chip, math).macs_per_clock * BLOCK_KEYS
    whole = _one(key.converted if converted else key.plain) * BLOCK_KEYS
    return Work(matrix=matrix, vector=max(whole - matrix, 0.0))


def _core_block(
    q: Queries, held: int, tiles: int, work: Work, begin: float, distinct: int
) -> Block:
    """A block that walks keys of one query's heads.

    Assumes: a stage keeps its keys as stored and as they are multiplied, in BF16; two stages and
        the heads' queries fill a core.
    """
    stage = int(BLOCK_KEYS * _one(q.key_bytes))
    operands = max(32, int(_one(q.operand_bytes) / max(_one(q.tokens) * tiles, 1.0) / 2))
    return Block(
        prologue=Work(wait=begin),
        stage=work,
        accesses=(
            Access(region=0, nbytes=stage, row_bytes=stage, divide=tiles, modulo=max(distinct, 1)),
        ),
        last_accesses=(Access(region=1, nbytes=operands, row_bytes=2 * operands, stores=True),),
        stage_bytes=stage,
        fixed_bytes=int(held * BLOCK_KEYS * 8 * BF16_BYTES),
        registers_bytes=128 * 255 * 4,
        threads=384,
        in_flight=2,
    )


def _core_regions(q: Queries, chip: ChipSpec) -> tuple[Region, Region]:
    total = q.operand_bytes + q.cache_bytes
    warm = _one(warm_share(total, chip))
    touched = max(_one(q.tokens * q.blocks * BLOCK_KEYS * q.key_bytes), 1.0)
    # Keys that several queries read are cached: misses are spread over all reads.
    cold = (1.0 - warm) * min(1.0, _one(q.cache_bytes) / touched)
    keys = Region(
        nbytes=max(int(_one(q.cache_bytes)), int(BLOCK_KEYS * _one(q.key_bytes))),
        run_bytes=max(32, int(_one(q.run_bytes))),
        warm=1.0 - cold,
        kept=0.0,
    )
    return keys, Region(nbytes=max(int(_one(q.operand_bytes)), 64), warm=warm)


def core_blocks(
    form: str, sizes: Sizes, chip: ChipSpec, constants: Constants, rule: CoreRule, math: str
) -> KernelProgram:
    """Sparse attention in the form of an engine's rule: dealt, or tiles in waves."""
    q = Queries.of(columns_of(sizes))
    prefill = _one(q.new) > 1
    tiles_by_core = {**rule.head_tile, **(rule.gathered_head_tile if form == "gathered" else {})}
    held = sparse_core.held_heads(tiles_by_core, chip)
    tiles = int(_one(q.tiles(held)))
    regions = _core_regions(q, chip)
    launch = chip.launch_gap_s
    keys = q.blocks * BLOCK_KEYS
    blocks = _one(q.blocks)
    more: list[Launch] = []
    if form == "two_lists":
        keys = q.window + q.padded_extra
        blocks = _one(np.ceil(np.minimum(q.past + 1, q.window) / BLOCK_KEYS)) + _one(
            q.padded_extra / BLOCK_KEYS
        )
        launch = constants["launch"]
        if prefill:
            blocks = _one(keys) / BLOCK_KEYS
            gather = _one(q.requests) * constants["gather"]
            launch += sparse_core.PREFILL_EXTRA_KERNELS * chip.launch_gap_s + gather
    key = KeyTime.of(q, keys, held, math, chip, constants)
    is_dealt = form == "dealt" or (form == "two_lists" and not prefill)
    work = _key_work(key, q, held, math, chip, is_dealt)
    begin = constants["query_cycles"] if form != "waves" else 0.0
    fitted = fitted_chip(chip)
    begin = max(0.0, begin - fitted.llc_latency_s * fitted.clock_hz)
    distinct = int(_one(q.cache_bytes) / (BLOCK_KEYS * _one(q.key_bytes)))
    block = _core_block(q, held, tiles, work, begin, distinct)
    queries = round(_one(q.tokens))
    whole = max(1, round(blocks))
    scale = blocks / whole
    block = _scaled(block, scale)
    stage_bytes = BLOCK_KEYS * _one(q.key_bytes)
    gap = after_first_load(launch, chip, regions[0].warm, stage_bytes)
    if is_dealt:
        own = _dealt_queries(block, queries, whole, tiles, chip, gap)
    else:
        own = equal_blocks(
            block, queries * tiles, whole, gap_s=gap, place=np.arange(queries * tiles) * whole
        )
    return KernelProgram(regions=regions, launches=(*more, own), name="core")


def _scaled(block: Block, scale: float) -> Block:
    """The block with stages of a fraction more keys, where a mean of blocks is no whole number."""
    work = block.stage
    stage = Work(matrix=work.matrix * scale, vector=work.vector * scale, wait=work.wait * scale)
    return replace(block, stage=stage)


def _dealt_queries(
    block: Block, queries: int, blocks: int, tiles: int, chip: ChipSpec, gap_s: float
) -> Launch:
    """Key blocks of all queries dealt as FlashMLA's scheduler does, to a core a tile of heads."""
    groups = max(1, chip.core_count // tiles)
    cost = blocks + sparse_core.OVERHEAD_BLOCKS
    share = max(-(-queries * cost // groups), sparse_core.OVERHEAD_BLOCKS)
    share += sparse_core.OVERHEAD_BLOCKS
    pieces = dealt_rows(queries, blocks, groups, share)
    core = np.repeat(pieces[:, 0] * tiles, tiles) + np.tile(np.arange(tiles), len(pieces))
    place = (pieces[:, 1] * blocks + pieces[:, 2]) * tiles
    return Launch(
        kinds=(block,),
        kind=np.zeros(len(core), np.int64),
        stages=np.repeat(pieces[:, 3], tiles),
        core=core % chip.core_count,
        place=np.repeat(place, tiles) + np.tile(np.arange(tiles), len(pieces)),
        gap_s=gap_s,
    )


def gathering_blocks(sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    """The gather of all entries: passes at the pace of elementwise kernels."""
    parts = sparse_core.gathering(columns_of(sizes), chip, constants)
    moved = _one(parts.seconds["vector"]) * constants["move"] * chip.core_count * chip.clock_hz
    clocks = _one(parts.seconds["vector"]) * chip.clock_hz
    warm = _one(warm_share(np.array([moved]), chip))
    launch = passed(moved, clocks, chip, 0.0, warm)
    return KernelProgram(
        regions=(Region(nbytes=max(int(moved), 64), warm=warm),), launches=(launch,), name="gather"
    )


# Waits of units are told apart in steps of so many clocks.
_WAIT_STEP = 16.0


def index_blocks(sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    """Index logits: units of 256 keys of all rows, dealt to the cores in equal runs."""
    columns = columns_of(sizes)
    c = {n: np.asarray(v, dtype=np.float64) for n, v in columns.items() if n != "math"}
    requests, new, past = (int(_one(c[n])) for n in ("requests", "new", "past"))
    ratio = _one(c["ratio"])
    cores = chip.core_count
    math = str(sizes["math"])
    pairs = max(_one(c["pairs"]), 1.0)
    padded = _one(index_logits.padded_share(c["page_rows"], chip))
    key = _one(index_logits._key_cycles(columns, c, chip, constants["vector_ops_per_clock"]))
    matrix = _one(c["macs"]) / pairs / core_rate(chip, math).macs_per_clock
    unit = index_logits.UNIT_KEYS * padded
    unit_bytes = int(index_logits.UNIT_KEYS * _one(c["key_bytes"]))
    seen = past + 1 + np.arange(new)
    lengths = np.maximum(np.floor(seen / ratio / index_logits.UNIT_KEYS).astype(np.int64) + 1, 1)
    rows = np.tile(lengths, requests)
    share = max(1, -(-int(rows.sum()) // cores))
    pieces = dealt_units(rows, cores, share)
    stride = int(lengths[-1])
    used = np.unique(pieces[:, 0])
    begins = np.bincount(pieces[:, 0])[used]
    units = np.bincount(pieces[:, 0], weights=pieces[:, 3])[used].astype(np.int64)
    first = np.searchsorted(pieces[:, 0], used)
    place = (pieces[first, 1] // new) * stride + pieces[first, 2]
    # The loads of a row go on behind those of the row before, so that a begin is a wait among the
    # units of its core; the scheduling warp's search waits only where units do not hide it.
    waits = (begins - 1) * constants["row_cycles"] / units
    if "scan_cycles" in constants:
        scan = constants["scan_cycles"] * requests * new / index_logits.SCANNED_AT_ONCE
        searched = np.ceil(requests * new / cores) * scan
        waits = waits + np.maximum(searched / units - unit * key - waits, 0.0)
    levels, kind = np.unique(np.rint(waits / _WAIT_STEP).astype(np.int64), return_inverse=True)
    keys_bytes = requests * (past + new) / ratio * _one(c["key_bytes"])
    once = keys_bytes + pairs * 4 + requests * new * _one(c["query_bytes"])
    warm = _one(warm_share(np.array([2.0 * once]), chip))
    passes = min(new, index_logits.ROWS_OUT_OF_STEP + requests * new / cores)
    again = keys_bytes * (passes - 1.0) * (1.0 - _one(warm_share(np.array([keys_bytes]), chip)))
    touched = float(units.sum()) * unit_bytes
    cold = min(1.0, ((1.0 - warm) * keys_bytes + again) / touched)
    stage = Work(matrix=matrix * unit, vector=max(key - matrix, 0.0) * unit)
    accesses = (
        Access(region=0, nbytes=unit_bytes, row_bytes=unit_bytes),
        Access(
            region=1,
            nbytes=index_logits.UNIT_KEYS * index_logits.SCORE_BYTES,
            row_bytes=index_logits.UNIT_KEYS * index_logits.SCORE_BYTES,
            stores=True,
        ),
    )
    kinds = tuple(
        Block(
            stage=replace(stage, wait=level * _WAIT_STEP),
            accesses=accesses,
            stage_bytes=unit_bytes,
            fixed_bytes=int(_one(c["query_bytes"])) * 2,
            registers_bytes=128 * 255 * 4,
            threads=384,
            in_flight=3,
        )
        for level in levels.tolist()
    )
    run = max(32, int(_one(c["run_bytes"])))
    regions = (
        Region(
            nbytes=max(requests * stride * unit_bytes, unit_bytes),
            run_bytes=run,
            # What the rows of a request read again is cached: misses are spread over all reads.
            warm=1.0 - cold,
            kept=0.0,
        ),
        Region(nbytes=max(int(pairs * 4), 1024), warm=warm),
    )
    launch = Launch(
        kinds=kinds,
        kind=kind.reshape(-1),
        stages=units,
        core=used,
        place=place,
        gap_s=after_first_load(constants["launch"], chip, warm, unit_bytes),
    )
    return KernelProgram(regions=regions, launches=(launch,), name="index logits")


# Scores that a block of the search takes in at once: 1,024 threads with four each.
_SEARCH_STEP = 4096


def top_k_blocks(version: int, sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    """Search of the largest scores: a block a row, in the second version a cluster of them."""
    call = top_k._Calls.of(columns_of(sizes))
    rows, searched, keys, k = (_one(v) for v in (call.rows, call.searched, call.keys, call.k))
    ties = bool(call.ties[0])
    score = constants["op_cycles"] * _one(call.ops)
    cold = 1.0 - _one(warm_share(call.searched * call.keys * call.score_bytes, chip))
    parts = 1
    wait = again = end = 0.0
    if version == 1:
        ids = constants["id_cycles"] * k
        slowed = top_k.SMALL_BLOCK_SLOWER if k < top_k.FULL_THREADS else 1.0
        wait = score * (slowed - 1.0)
        first, short = top_k.SEARCH_PASSES * ids, ids
        if ties:
            again = constants["tie_id_cycles"] * k
            again += constants["tie_key_cycles"] * min(keys, top_k.TIE_BUFFER) * slowed
    else:
        first = short = constants["row_cycles"]
        if keys >= top_k.LONG_ROW:
            parts, end = top_k.CLUSTER, constants["cluster"]
        elif ties:
            again = constants["tie_row_cycles"]
    steps = max(1, round(keys / parts / _SEARCH_STEP)) if searched else 0
    each = keys / parts / max(steps, 1)
    nbytes = max(32, int(each * _one(call.score_bytes)))
    threads = int(min(top_k.FULL_THREADS, max(k, 128))) if version == 1 else top_k.FULL_THREADS
    plain = Block(
        prologue=Work(vector=short),
        stage=Work(),
        threads=threads,
        registers_bytes=threads * THREAD_REGISTERS_BYTES,
        fixed_bytes=int(min(top_k.TIE_BUFFER * 8, chip.smem_bytes_per_core // 2)),
    )
    search = replace(
        plain,
        prologue=Work(vector=first),
        stage=Work(vector=score * each, wait=wait * each),
        epilogue=Work(vector=again / top_k.TIE_OVERLAP, wait=again / top_k.TIE_OVERLAP),
        accesses=(Access(region=0, nbytes=nbytes, row_bytes=nbytes * max(steps, 1)),),
        in_flight=4,
    )
    many, few = round(searched) * parts, max(0, round(rows - searched))
    if many + few == 0:
        few = 1
    kind = np.concatenate([np.zeros(many, np.int64), np.ones(few, np.int64)])
    stages = np.where(kind == 0, steps, 0)
    region = Region(nbytes=max(many * nbytes * max(steps, 1), 64), warm=1.0 - cold)
    launch = Launch(
        kinds=(search, plain),
        kind=kind,
        stages=stages,
        gap_s=after_first_load(constants["launch"], chip, 1.0 - cold, nbytes if searched else 0.0),
        end_s=end,
    )
    return KernelProgram(regions=(region,), launches=(launch,), name="top-k")
