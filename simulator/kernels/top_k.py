"""Top-k of the indexer: the ids of the largest scores of every row, as page ids of the cache.

One block a row: a radix search for the score that separates the k largest, then a gather. Rows
with at most k entries need no search. Equal scores are the worst case: all entries fall into one
radix bin and must be searched again, step by step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.constant import Constant
from simulator.kernels.family import Columns, Family
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.pipes import exposed
from simulator.kernels.warmth import memory_bytes_per_s, warm_share

# A block has a thread for each selected id; this many threads use a core's issue slots.
FULL_THREADS = 1024
# A block with half as many threads takes less than twice as long: each has more loads under way.
SMALL_BLOCK_SLOWER = 1.7
# A selected id passes twice (collected, then turned into a page id); in a row without search once.
SEARCH_PASSES = 2
# Entries of one bin that fit a block's shared memory; beyond, a block stops collecting.
TIE_BUFFER = 8192
# Entries beyond are looked at once more, at half the work: compared, not counted.
TIE_LATE_PASS = 0.5
# Share of a search with ties in which a block keeps its core busy; for the rest it waits, and the
# other of the two blocks that the core's shared memory allows goes on.
TIE_BUSY = 0.6
# Rows from here on are split over a cluster of this many blocks (second version of the kernel).
LONG_ROW = 32768
CLUSTER = 4


def _launch(start: float) -> Constant:
    meaning = "graph node gap, and starting and ending the blocks"
    return Constant(name="launch", unit="s", meaning=meaning, start=start, low=3e-7, high=6e-6)


OP_CYCLES = Constant(
    name="op_cycles",
    unit="cycle",
    meaning="core cycles of one comparison of the search; a score takes about two",
    start=0.4,
    low=0.025,
    high=3.0,
)
ID_CYCLES = Constant(
    name="id_cycles",
    unit="cycle",
    meaning="core cycles of one pass over one selected id",
    start=1.0,
    low=0.05,
    high=10.0,
)
TIE_ID_CYCLES = Constant(
    name="tie_id_cycles",
    unit="cycle",
    meaning="cycles to hand out one selected place among entries of equal score",
    start=7.0,
    low=0.5,
    high=60.0,
)
ROW_CYCLES = Constant(
    name="row_cycles",
    unit="cycle",
    meaning="core cycles of the block-wide steps of a row, whatever its length",
    start=1600.0,
    low=100.0,
    high=20000.0,
)
TIE_ROW_CYCLES = Constant(
    name="tie_row_cycles",
    unit="cycle",
    meaning="cycles of the further radix rounds over the block's buffer where all scores are equal",
    start=120000.0,
    low=5000.0,
    high=600000.0,
)
TIE_KEY_CYCLES = Constant(
    name="tie_key_cycles",
    unit="cycle",
    meaning="cycles to search one of the entries of equal score again",
    start=2.0,
    low=0.05,
    high=20.0,
)


@dataclass(frozen=True, slots=True)
class SearchedRows:
    """Rows of equal requests; `keys` entries a row of those `searched` that have more than `k`.

    `last` are the entries of a request's last row.
    """

    rows: Floats
    searched: Floats
    keys: Floats
    last: Floats
    k: Floats
    ops: Floats
    score_bytes: Floats
    ties: np.ndarray

    @classmethod
    def of(cls, calls: Columns) -> SearchedRows:
        """From named sizes."""
        c = {name: np.asarray(value, dtype=np.float64) for name, value in calls.items()}
        requests, new, past, ratio, k = (
            c[n] for n in ("requests", "new", "past", "ratio", "top_k")
        )
        searched, keys = searched_rows(requests, new, past, k, ratio)
        ops = c["vector_ops"] / np.maximum(c["pairs"], 1.0)
        last = np.floor((past + new) / ratio)
        return cls(requests * new, searched, keys, last, k, ops, c["score_bytes"], c["ties"] > 0)

    def memory_seconds(self, chip: ChipSpec) -> Floats:
        """One read of the scores that the LLC no longer holds, at peak bandwidth."""
        read = self.searched * self.keys * self.score_bytes
        return read * (1.0 - warm_share(read, chip)) / memory_bytes_per_s(chip)


def searched_rows(
    requests: Floats, new: Floats, past: Floats, k: Floats, ratio: Floats
) -> tuple[Floats, Floats]:
    """Rows with more than k entries, and their mean number of entries."""
    first = ratio * (k + 1)
    each = np.clip(past + new - first + 1, 0.0, new)
    low = np.maximum(past + 1, first)
    return requests * each, np.floor((low + past + new) / (2 * ratio))


class TopKFirst(Family):
    """`topk_transform_v1`: one block a row at every length.

    launch + the longer of one row alone and the rows of a core: a row takes its block-wide steps
    and the cycles a key; a block alone has fewer threads than fill the core and is that much
    slower. With equal scores the search repeats, for as many entries as the block can hold.

    Assumes: a row's search passes over the scores up to the end of its request, where its own end
        lies before, since prefills of many rows take as long as that.
    """

    name: ClassVar[str] = "top_k_v1"
    constants: ClassVar[tuple[Constant, ...]] = (
        _launch(1.5e-6),
        ID_CYCLES,
        OP_CYCLES,
        TIE_ID_CYCLES,
        TIE_KEY_CYCLES,
    )

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause."""
        c, clock, call = constants, chip.clock_hz, SearchedRows.of(calls)
        searched, keys, k, ties = call.searched, call.keys, call.k, call.ties
        some = searched > 0
        slowed = np.where(k < FULL_THREADS, SMALL_BLOCK_SLOWER, 1.0)
        key = c["op_cycles"] * call.ops
        again = (
            ties
            * some
            * (c["tie_id_cycles"] * k + c["tie_key_cycles"] * np.minimum(keys, TIE_BUFFER) * slowed)
        )
        rows = np.ceil(searched / chip.core_count)
        others = np.ceil(call.rows / chip.core_count) - rows
        ids = c["id_cycles"] * k * (SEARCH_PASSES * rows + others)
        late = TIE_LATE_PASS * ties * exposed(keys, np.full_like(keys, TIE_BUFFER))
        scores = key * rows * (call.last + late)
        search = again * (1.0 + TIE_BUSY * np.maximum(rows - 1.0, 0.0))
        cold = 1.0 - warm_share(searched * keys * call.score_bytes, chip)
        slower = slowed * (1.0 + cold * (chip.dram_latency_s / chip.llc_latency_s - 1.0))
        alone = some * SEARCH_PASSES * c["id_cycles"] * k + again
        alone = alone + key * (call.last + late) * slower
        memory = call.memory_seconds(chip)
        return Parts(
            {
                "launch": np.full_like(keys, c["launch"]),
                "serial": (ids + search) / clock,
                "vector": scores / clock,
                "tail": some * exposed(alone, ids + scores + search) / clock,
                "dram_bandwidth": exposed(memory, (ids + scores + search) / clock),
            }
        )


class TopKSecond(Family):
    """`topk_transform_v2`: as the first version up to 32,768 entries, from there split over a
    cluster of blocks, which pays for the exchange between them but not for equal scores.
    """

    name: ClassVar[str] = "top_k_v2"
    constants: ClassVar[tuple[Constant, ...]] = (
        _launch(2.4e-6),
        ROW_CYCLES,
        OP_CYCLES,
        TIE_ROW_CYCLES,
        Constant(
            name="cluster",
            unit="s",
            meaning="exchange of histograms and ids between the blocks that share a long row",
            start=5e-6,
            low=1e-6,
            high=2e-5,
        ),
    )

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause; blocks all have 1,024 threads."""
        c, clock, call = constants, chip.clock_hz, SearchedRows.of(calls)
        searched, keys, ties = call.searched, call.keys, call.ties
        long = keys >= LONG_ROW
        blocks = np.where(long, CLUSTER, 1)
        rows = np.ceil(searched * blocks / chip.core_count)
        all_rows = np.ceil((searched * (blocks - 1) + call.rows) / chip.core_count)
        more = 1.0 + TIE_BUSY * np.maximum(rows - 1.0, 0.0)
        again = ties * ~long * (searched > 0) * c["tie_row_cycles"] * more
        serial = (all_rows * c["row_cycles"] + again) / clock
        vector = c["op_cycles"] * call.ops * rows * keys / blocks / clock
        return Parts(
            {
                "launch": np.full_like(keys, c["launch"]),
                "serial": serial + np.where(long, c["cluster"], 0.0),
                "vector": vector,
                "dram_bandwidth": exposed(call.memory_seconds(chip), serial + vector),
            }
        )


FAMILIES: dict[str, Family] = {f.name: f for f in (TopKFirst(), TopKSecond())}
