"""Index logits: every query row against all compressed keys of its request, FP8 in, FP32 out.

A persistent kernel: the keys of a row are cut into units of 256, and all units are dealt to the
cores in equal, contiguous shares. A core pays for each unit and again whenever a row begins (its
64 query heads and weights are fetched), so the core that holds the shortest rows ends last.
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

COMPRESS_RATIO = 4
UNIT_KEYS = 256
KEY_BYTES = 132
SCORE_BYTES = 4
INDEX_HEADS = 64
HEAD_DIM = 128
# Query heads of a row in FP8 and their FP32 weights.
QUERY_BYTES = INDEX_HEADS * HEAD_DIM + 4 * INDEX_HEADS
# Rows of a request that find no other core in step with theirs.
ROWS_OUT_OF_STEP = 16
# Row lengths that a warp looks at in one step.
SCANNED_AT_ONCE = 32
# Two per multiply-add, of one row and one key.
FLOPS_PER_PAIR = 2 * INDEX_HEADS * HEAD_DIM

LAUNCH = Constant(
    name="launch",
    unit="s",
    meaning="graph node gap, and filling and draining the kernel's pipeline",
    start=3e-6,
    low=1e-6,
    high=8e-6,
)
KEY_CYCLES = Constant(
    name="key_cycles",
    unit="cycle",
    meaning="core cycles for one key and query row: 64 heads x 128 on the FP8 matrix unit, then "
    "ReLU, weights and the sum over heads on the vector unit",
    start=4.5,
    low=2.0,
    high=12.0,
)
ROW_CYCLES = Constant(
    name="row_cycles",
    unit="cycle",
    meaning="core cycles to begin a row: fetch its query heads and weights, refill the pipeline",
    start=300.0,
    low=20.0,
    high=3000.0,
)
SCAN_CYCLES = Constant(
    name="scan_cycles",
    unit="cycle",
    meaning="core cycles for the scheduling warp to pass over 32 row lengths in its search for "
    "the next row; hidden behind the units of a long row",
    start=30.0,
    low=5.0,
    high=120.0,
)


def _units_before(tokens: Floats) -> Floats:
    """Units of all rows with up to `tokens` tokens: one, and one more every 1,024 tokens.

    A row with i tokens has floor(i / 4) keys, so a further unit begins at 1,028, 2,052, ...
    """
    step = COMPRESS_RATIO * UNIT_KEYS
    late = COMPRESS_RATIO - 1
    full = np.floor(np.maximum(tokens - late, 0) / step)
    return step * full * (full + 1) / 2 + (tokens - full * step) * (full + 1) - late * full


def _tokens_at(units: Floats) -> Floats:
    """Inverse of `_units_before`."""
    step = COMPRESS_RATIO * UNIT_KEYS
    full = np.floor((np.sqrt(1 + 8 * units / step) - 1) / 2)
    return full * step + (units - step * full * (full + 1) / 2) / (full + 1)


class IndexLogits(Family):
    """Paged logits of the indexer.

    The busiest core takes launch + its units x 256 keys x cycles a key + its rows x cycles a row,
    never less than the bytes of keys and scores allow. Work of a request's rows grows with their
    position, and the first core holds the rows with the fewest units, hence the most rows.

    Assumes: rows of a batch have the same lengths, and requests follow one another.
    Assumes: keys of all requests are read once from memory and stay in the LLC if they fit.
    """

    constants: ClassVar[tuple[Constant, ...]] = (LAUNCH, KEY_CYCLES, ROW_CYCLES)
    needs: ClassVar[tuple[str, ...]] = ("batch", "new_tokens", "past_tokens")
    engine: ClassVar[str]

    def covers(self, row: Mapping[str, str]) -> bool:
        """Index logits of the family's engine."""
        return row["op"] == "indexer_logits" and row["engine"].startswith(self.engine)

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause."""
        batch, new, past = (np.asarray(calls[n], dtype=np.float64) for n in self.needs)
        return index_logits_parts(batch, new, past, chip, constants)


def index_logits_parts(
    batch: Floats, new: Floats, past: Floats, chip: ChipSpec, constants: Mapping[str, float]
) -> Parts:
    """Seconds by cause of logits for `new` rows of each of `batch` requests.

    A warp that scans for the next row is modelled where `scan_cycles` is among the constants.
    """
    rows = batch * new
    before = _units_before(past)
    of_request = _units_before(past + new) - before
    fair = batch * of_request / chip.core_count
    share = np.ceil(fair)
    within = _tokens_at(before + np.minimum(share, of_request)) - past
    core_rows = np.maximum(1.0, within * np.maximum(1.0, share / of_request))
    unit = UNIT_KEYS * constants["key_cycles"] / chip.clock_hz
    matrix = share * unit
    # The launch covers the begin of a core's first row.
    begin = (core_rows - 1.0) * constants["row_cycles"] / chip.clock_hz
    search = constants.get("scan_cycles", 0.0) * rows / SCANNED_AT_ONCE / chip.clock_hz
    scan = exposed(np.ceil(rows / chip.core_count) * search, matrix + begin)
    memory = _memory_seconds(batch, new, past, chip)
    wait = np.hypot(matrix + begin + scan, memory) - (matrix + begin + scan)
    return Parts(
        {
            "launch": np.full_like(rows, constants["launch"]),
            "matrix": fair * unit,
            "tail": matrix - fair * unit,
            "vector": begin,
            "serial": scan,
            "dram_bandwidth": wait,
        }
    )


def _memory_seconds(batch: Floats, new: Floats, past: Floats, chip: ChipSpec) -> Floats:
    """Keys, queries and scores, at the rate of the cache for the share that stays warm in it.

    Every row reads the keys of its request. Where the keys of all requests outgrow the cache, they
    come from memory again, once for all cores that are in step on a request; cores fall in step
    over its first rows, which each fetch for themselves.
    """
    rows = batch * new
    keys = batch * (past + new) / COMPRESS_RATIO * KEY_BYTES
    scores = rows * (past + new / 2) / COMPRESS_RATIO * SCORE_BYTES
    once = keys + scores + rows * QUERY_BYTES
    # Each half of the cache holds its own copy of what cores on both sides read.
    warm = warm_share(2.0 * once, chip)
    passes = np.minimum(new, ROWS_OUT_OF_STEP + rows / chip.core_count)
    again = keys * (passes - 1.0) * (1.0 - warm_share(keys, chip))
    cold = (1.0 - warm) * once + again
    slow = cold / chip.hbm_bandwidth_bytes_per_s
    fast = warm * once / chip.llc_bandwidth_bytes_per_s
    return np.asarray(slow + fast, dtype=np.float64)


class SglangIndexLogits(IndexLogits):
    """SGLang: `deep_gemm.fp8_paged_mqa_logits`."""

    name: ClassVar[str] = "index_logits_sglang"
    engine: ClassVar[str] = "sglang"


class VllmIndexLogits(IndexLogits):
    """vLLM: `fp8_fp4_paged_mqa_logits`, whose scheduler walks the row lengths for every row."""

    name: ClassVar[str] = "index_logits_vllm"
    engine: ClassVar[str] = "vllm"
    constants: ClassVar[tuple[Constant, ...]] = (LAUNCH, KEY_CYCLES, ROW_CYCLES, SCAN_CYCLES)


FAMILIES: dict[str, Family] = {f.name: f for f in (SglangIndexLogits(), VllmIndexLogits())}
