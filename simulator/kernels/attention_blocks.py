"""Kernel programs of attention: the core and its gather, index logits, top-k."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hwmodels.chip import ChipSpec
from hwmodels.machine.program import (
    Access,
    Block,
    Counts,
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
from simulator.kernels.family import Constants, Sizes, columns_of, one
from simulator.kernels.moved_blocks import (
    LEAST_BYTES,
    THREAD_REGISTERS_BYTES,
    after_first_load,
    passed,
)
from simulator.kernels.sparse_core import BF16_BYTES, BLOCK_KEYS, KeyTime, Queries
from simulator.kernels.warmth import warm_share

# Three groups of 128 threads, one of them with all registers that a thread may have (guessed: the
# usual form of such kernels on Hopper).
ATTENTION_THREADS = 384
ATTENTION_REGISTERS_BYTES = 128 * 255 * 4
# Heads whose queries one core holds: cores of Blackwell multiply tiles of 128 in pairs (guessed:
# with all 128 in one core one buffer of keys would be left, and products would wait for each).
QUERY_HEADS = 64
# Stages of keys that are loaded ahead: two buffers of the core (FlashMLA 9241ae3), three of the
# logits' units (guessed), and passes of scores in a search (guessed).
CORE_STAGES, UNIT_STAGES, SEARCH_STAGES = 2, 3, 4


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
    key: KeyTime, q: Queries, held: int, math: str, chip: ChipSpec, converted: bool, scale: float
) -> Work:
    """One block of keys: matrix units at their rate, and what the softmax and conversion add.

    `scale`: keys of a stage over those of a block, where the mean number of blocks is not whole.
    """
    keys = BLOCK_KEYS * scale
    matrix = one(q.macs) * held / core_rate(chip, math).macs_per_clock * keys
    whole = one(key.converted if converted else key.plain) * keys
    return Work(matrix=matrix, vector=max(whole - matrix, 0.0))


def _core_block(
    q: Queries, values: float, held: int, tiles: int, work: Work, begin: float, chip: ChipSpec
) -> Block:
    """A block that walks keys of one query's heads.

    Assumes: stages hold their keys as they are multiplied, in BF16; what is stored narrower passes
        through registers. Beside them the queries of the heads that there are stay in shared
        memory, of more than 64 half with the other core of a pair.
    """
    queries = min(held, QUERY_HEADS, max(1, round(one(q.heads))))
    stage = int(BLOCK_KEYS * one(q.key_bytes))
    operands = max(LEAST_BYTES, int(one(q.operand_bytes) / max(one(q.tokens) * tiles, 1.0) / 2))
    distinct = max(1, int(one(q.cache_bytes) / stage))
    fitted = fitted_chip(chip)
    return Block(
        prologue=Work(wait=begin),
        stage=work,
        accesses=(Access(region=0, nbytes=stage, row_bytes=stage, divide=tiles, modulo=distinct),),
        last_accesses=(Access(region=1, nbytes=operands, row_bytes=2 * operands, stores=True),),
        stage_bytes=int(BLOCK_KEYS * values * BF16_BYTES),
        fixed_bytes=int(queries * values * BF16_BYTES),
        registers_bytes=ATTENTION_REGISTERS_BYTES,
        threads=ATTENTION_THREADS,
        in_flight=CORE_STAGES,
        held_fill=fitted.matrix_fill_clocks,
        held_issue=fitted.matrix_issue_clocks,
    )


def _core_regions(q: Queries, chip: ChipSpec) -> tuple[Region, Region]:
    total = q.operand_bytes + q.cache_bytes
    warm = one(warm_share(total, chip))
    touched = max(one(q.tokens * q.blocks * BLOCK_KEYS * q.key_bytes), 1.0)
    # Keys that several queries read are cached: misses are spread over all reads.
    cold = (1.0 - warm) * min(1.0, one(q.cache_bytes) / touched)
    keys = Region(
        nbytes=max(int(one(q.cache_bytes)), int(BLOCK_KEYS * one(q.key_bytes))),
        run_bytes=max(LEAST_BYTES, int(one(q.run_bytes))),
        warm=1.0 - cold,
        kept=0.0,
    )
    return keys, Region(nbytes=max(int(one(q.operand_bytes)), LEAST_BYTES), warm=warm)


def core_blocks(
    form: str, sizes: Sizes, chip: ChipSpec, constants: Constants, rule: CoreRule, math: str
) -> KernelProgram:
    """Sparse attention in the form of an engine's rule: dealt, or tiles in waves."""
    q = Queries.of(columns_of(sizes))
    prefill = one(q.new) > 1
    tiles_by_core = {**rule.head_tile, **(rule.gathered_head_tile if form == "gathered" else {})}
    held = sparse_core.held_heads(tiles_by_core, chip)
    tiles = int(one(q.tiles(held)))
    launch, blocks, keys = chip.launch_gap_s, one(q.blocks), q.blocks * BLOCK_KEYS
    if form == "two_lists":
        keys = q.window + q.padded_extra
        first = np.minimum(q.past + 1, q.window) / BLOCK_KEYS
        blocks = one(np.ceil(first)) + one(q.padded_extra) / BLOCK_KEYS
        launch = constants["launch"]
        if prefill:
            blocks = one(keys) / BLOCK_KEYS
            launch += sparse_core.PREFILL_EXTRA_KERNELS * chip.launch_gap_s
            launch += one(q.requests) * constants["gather"]
    dealt = form == "dealt" or (form == "two_lists" and not prefill)
    key = KeyTime.of(q, keys, held, math, chip, constants)
    whole = max(1, round(blocks))
    work = _key_work(key, q, held, math, chip, dealt, blocks / whole)
    fitted = fitted_chip(chip)
    begin = constants["query_cycles"] if form != "waves" else 0.0
    begin = max(0.0, begin - fitted.llc_latency_s * fitted.clock_hz)
    block = _core_block(q, float(sizes["values"]), held, tiles, work, begin, chip)
    regions = _core_regions(q, chip)
    loaded = sum(access.nbytes for access in block.accesses)
    stored = sum(access.nbytes for access in block.last_accesses)
    gap = after_first_load(launch, chip, regions[0].warm, loaded, stored)
    queries = round(one(q.tokens))
    if dealt:
        own = _dealt_queries(block, queries, whole, tiles, chip, gap)
    else:
        # Tiles of one query's heads read the same keys.
        place = np.repeat(np.arange(queries) * whole, tiles) * tiles
        own = equal_blocks(block, queries * tiles, whole, gap_s=gap, place=place)
    return KernelProgram(regions=regions, launches=(own,), name="core")


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
    moved = one(parts.seconds["vector"]) * constants["move"] * chip.core_count * chip.clock_hz
    clocks = one(parts.seconds["vector"]) * chip.clock_hz
    warm = one(warm_share(np.array([moved]), chip))
    launch = passed(moved, clocks, chip, 0.0, warm)
    return KernelProgram(
        regions=(Region(nbytes=max(int(moved), LEAST_BYTES), warm=warm),),
        launches=(launch,),
        name="gather",
    )


# Waits of units are told apart in steps of so many clocks.
_WAIT_STEP = 16.0


def index_blocks(sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    """Index logits: units of 256 keys of all rows, dealt to the cores in equal runs."""
    columns = columns_of(sizes)
    c = {n: np.asarray(v, dtype=np.float64) for n, v in columns.items() if n != "math"}
    rows = index_logits.Rows(c["requests"], c["new"], c["past"], c["ratio"])
    runs = _UnitRuns.of(rows, chip.core_count)
    pairs = max(one(c["pairs"]), 1.0)
    key = one(index_logits.key_cycles(columns, c, chip, constants["vector_ops_per_clock"]))
    matrix = one(c["macs"]) / pairs / core_rate(chip, str(sizes["math"])).macs_per_clock
    unit = index_logits.UNIT_KEYS * one(index_logits.padded_share(c["page_rows"], chip))
    waits = runs.waits(unit * key, one(rows.requests * rows.new), chip, constants)
    levels, kind = np.unique(np.rint(waits / _WAIT_STEP).astype(np.int64), return_inverse=True)
    stage = Work(matrix=matrix * unit, vector=max(key - matrix, 0.0) * unit)
    nbytes = int(index_logits.UNIT_KEYS * one(c["key_bytes"]))
    scores = index_logits.UNIT_KEYS * index_logits.SCORE_BYTES
    fitted = fitted_chip(chip)
    kinds = tuple(
        Block(
            stage=replace(stage, wait=level * _WAIT_STEP),
            accesses=(
                Access(region=0, nbytes=nbytes, row_bytes=nbytes),
                Access(region=1, nbytes=scores, row_bytes=scores, stores=True),
            ),
            stage_bytes=nbytes,
            # Queries of this row and of the next.
            fixed_bytes=2 * int(one(c["query_bytes"])),
            registers_bytes=ATTENTION_REGISTERS_BYTES,
            threads=ATTENTION_THREADS,
            in_flight=UNIT_STAGES,
            held_fill=fitted.matrix_fill_clocks,
            held_issue=fitted.matrix_issue_clocks,
        )
        for level in levels.tolist()
    )
    moved = index_logits.Traffic.of(rows, c, chip)
    cold = (1.0 - one(moved.warm)) * one(moved.keys) + one(moved.again)
    # What the rows of a request read again is cached: misses are spread over all reads.
    warm = 1.0 - min(1.0, cold / (float(runs.units.sum()) * nbytes))
    keys = Region(
        nbytes=runs.distinct * nbytes,
        run_bytes=max(LEAST_BYTES, int(one(c["run_bytes"]))),
        warm=warm,
        kept=0.0,
    )
    written = int(max(pairs * index_logits.SCORE_BYTES, scores))
    launch = Launch(
        kinds=kinds,
        kind=kind.reshape(-1),
        stages=runs.units,
        core=runs.core,
        place=runs.place,
        gap_s=after_first_load(constants["launch"], chip, one(moved.warm), nbytes, scores),
    )
    return KernelProgram(
        regions=(keys, Region(nbytes=written, warm=one(moved.warm))),
        launches=(launch,),
        name="index logits",
    )


@dataclass(frozen=True, slots=True)
class _UnitRuns:
    """Runs of units that cores walk: core, rows begun, units, and the first unit's place.

    Units of one request stand side by side, those of all requests in `distinct` places.
    """

    core: Counts
    begins: Counts
    units: Counts
    place: Counts
    distinct: int

    @classmethod
    def of(cls, rows: index_logits.Rows, cores: int) -> _UnitRuns:
        """All rows' units in equal, contiguous shares."""
        requests, new, past = (int(one(v)) for v in (rows.requests, rows.new, rows.past))
        seen = past + 1 + np.arange(new)
        lengths = (seen / one(rows.ratio) / index_logits.UNIT_KEYS).astype(np.int64) + 1
        every = np.tile(lengths, requests)
        pieces = dealt_units(every, cores, max(1, -(-int(every.sum()) // cores)))
        core, first, begins = np.unique(pieces[:, 0], return_index=True, return_counts=True)
        units = np.bincount(pieces[:, 0], weights=pieces[:, 3])[core].astype(np.int64)
        place = pieces[first, 1] // new * lengths[-1] + pieces[first, 2]
        return cls(core, begins, units, place, requests * int(lengths[-1]))

    def waits(
        self, unit_clocks: float, rows: float, chip: ChipSpec, constants: Constants
    ) -> np.ndarray:
        """Clocks of waits among the units of each run, a unit.

        The loads of a row go on behind those of the row before, so that a begin is a wait among the
        units of its core; the scheduling warp's search waits only where units do not hide it.
        """
        waits = (self.begins - 1) * constants["row_cycles"] / self.units
        if "scan_cycles" in constants:
            scan = constants["scan_cycles"] * rows / index_logits.SCANNED_AT_ONCE
            searched = np.ceil(rows / chip.core_count) * scan
            waits = waits + np.maximum(searched / self.units - unit_clocks - waits, 0.0)
        return np.asarray(waits)


# Scores that a block of the search takes in at once: 1,024 threads with four each.
_SEARCH_STEP = 4096


def top_k_blocks(version: int, sizes: Sizes, chip: ChipSpec, constants: Constants) -> KernelProgram:
    """Search of the largest scores: a block a row, in the second version a cluster of them."""
    call = top_k.SearchedRows.of(columns_of(sizes))
    lengths = call.last if version == 1 else call.keys
    rows, searched, keys, k = (one(v) for v in (call.rows, call.searched, lengths, call.k))
    ties = bool(call.ties[0])
    score = constants["op_cycles"] * one(call.ops)
    cold = 1.0 - one(warm_share(call.searched * call.keys * call.score_bytes, chip))
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
    nbytes = max(LEAST_BYTES, int(each * one(call.score_bytes)))
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
        epilogue=Work(vector=again * top_k.TIE_BUSY, wait=again * (1 - top_k.TIE_BUSY)),
        accesses=(Access(region=0, nbytes=nbytes, row_bytes=nbytes * max(steps, 1)),),
        in_flight=SEARCH_STAGES,
    )
    many, few = round(searched) * parts, max(0, round(rows - searched))
    if many + few == 0:
        few = 1
    kind = np.concatenate([np.zeros(many, np.int64), np.ones(few, np.int64)])
    stages = np.where(kind == 0, steps, 0)
    region = Region(nbytes=max(many * nbytes * max(steps, 1), LEAST_BYTES), warm=1.0 - cold)
    launch = Launch(
        kinds=(search, plain),
        kind=kind,
        stages=stages,
        gap_s=after_first_load(constants["launch"], chip, 1.0 - cold, nbytes if searched else 0.0),
        end_s=end,
    )
    return KernelProgram(regions=(region,), launches=(launch,), name="top-k")
