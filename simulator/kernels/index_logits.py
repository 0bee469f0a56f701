"""Index logits: every query row against all compressed keys of its request, FP32 out.

A persistent kernel: the keys of a row are cut into units of 256, and all units are dealt to the
cores in equal, contiguous shares. A core pays for each unit and again whenever a row begins (its
64 query heads and weights are fetched), so the core that holds the shortest rows ends last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constant import Constant
from simulator.kernels.core_rates import CONVERT_OPS, core_rate, vector_ops_per_clock
from simulator.kernels.family import Columns, Family
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.pipes import exposed
from simulator.kernels.warmth import memory_bytes_per_s, run_share, warm_share

UNIT_KEYS = 256
# Keys that one instruction covers; a tile does not reach from page to page (DeepGEMM 54e2261).
TILE_KEYS = {"hopper": (64,), "blackwell": (32, 64)}
OTHER_TILE_KEYS = (64,)
SCORE_BYTES = 4
# Rows of a request that find no other core in step with theirs.
ROWS_OUT_OF_STEP = 16
# Row lengths that a warp looks at in one step.
SCANNED_AT_ONCE = 32

LAUNCH = Constant(
    name="launch",
    unit="s",
    meaning="graph node gap, and filling and draining the kernel's pipeline",
    start=3e-6,
    low=1e-6,
    high=8e-6,
)
VECTOR_RATE = Constant(
    name="vector_ops_per_clock",
    unit="op/clk",
    meaning="vector operations (ReLU, weights and the sum over heads) that a core completes a "
    "cycle between the matrix work of two keys",
    start=64.0,
    low=16.0,
    high=256.0,
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


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of equal requests, whose keys come one for `ratio` tokens, in units of `UNIT_KEYS`."""

    requests: Floats
    new: Floats
    past: Floats
    ratio: Floats

    @property
    def step(self) -> Floats:
        """Tokens of one unit."""
        return self.ratio * UNIT_KEYS

    def units_before(self, tokens: Floats) -> Floats:
        """Units of all rows with up to `tokens` tokens: one, and one more every `step` tokens.

        A row with i tokens has floor(i / ratio) keys, so a further unit begins ratio tokens late.
        """
        late = self.ratio - 1
        full = np.floor(np.maximum(tokens - late, 0) / self.step)
        return (
            self.step * full * (full + 1) / 2
            + (tokens - full * self.step) * (full + 1)
            - late * full
        )

    def tokens_at(self, units: Floats) -> Floats:
        """Inverse of `units_before`."""
        full = np.floor((np.sqrt(1 + 8 * units / self.step) - 1) / 2)
        return full * self.step + (units - self.step * full * (full + 1) / 2) / (full + 1)

    @property
    def pairs(self) -> Floats:
        """Scores of all rows."""
        return self.requests * self.new * (self.past + (self.new + 1) / 2) / self.ratio


class IndexLogits(Family):
    """Paged logits of the indexer.

    The busiest core takes launch + its units x 256 keys x cycles a key + its rows x cycles a row,
    never less than the bytes of keys and scores allow. A key takes its multiply-adds at the core's
    rate, its vector operations, and its conversion where the chip has no units for its format.
    Work of a request's rows grows with their position, and the first core holds the rows with the
    fewest units, hence the most rows.

    Assumes: rows of a batch have the same lengths, and requests follow one another.
    Assumes: keys of all requests are read once from memory and stay in the LLC if they fit.
    Assumes: a tile that a page leaves part empty takes as long as a full one.
    """

    constants: ClassVar[tuple[Constant, ...]] = (LAUNCH, VECTOR_RATE, ROW_CYCLES)

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """Seconds by cause of logits for `new` rows of each of `requests` requests.

        A warp that scans for the next row is modelled where `scan_cycles` is among the constants.
        """
        c = {n: np.asarray(v, dtype=np.float64) for n, v in calls.items() if n != "math"}
        rows = Rows(c["requests"], c["new"], c["past"], c["ratio"])
        tokens = rows.requests * rows.new
        before = rows.units_before(rows.past)
        of_request = rows.units_before(rows.past + rows.new) - before
        fair = rows.requests * of_request / chip.core_count
        share = np.ceil(fair)
        within = rows.tokens_at(before + np.minimum(share, of_request)) - rows.past
        core_rows = np.maximum(1.0, within * np.maximum(1.0, share / of_request))
        key = key_cycles(calls, c, chip, constants["vector_ops_per_clock"])
        padded = padded_share(c["page_rows"], chip)
        unit = UNIT_KEYS * key / chip.clock_hz
        matrix = share * unit * padded
        # The launch covers the begin of a core's first row.
        begin = (core_rows - 1.0) * constants["row_cycles"] / chip.clock_hz
        search = constants.get("scan_cycles", 0.0) * tokens / SCANNED_AT_ONCE / chip.clock_hz
        scan = exposed(np.ceil(tokens / chip.core_count) * search, matrix + begin)
        memory, again = _memory_seconds(rows, c, chip)
        wait = np.hypot(matrix + begin + scan, memory) - (matrix + begin + scan)
        return Parts(
            {
                "launch": np.full_like(tokens, constants["launch"]),
                "matrix": fair * unit,
                "tail": matrix - fair * unit,
                "vector": begin,
                "serial": scan,
                "dram_bandwidth": wait,
            },
            tiles=_tiles_text(int(c["page_rows"].flat[0]), chip),
            work=_work(calls, c, rows.requests * of_request * UNIT_KEYS, padded, again, chip),
        )


def _work(
    calls: Columns,
    c: Mapping[str, Floats],
    keys: Floats,
    padded: Floats,
    again: Floats,
    chip: ChipSpec,
) -> dict[str, Floats]:
    """Multiply-adds of whole units of keys (`keys` of all rows) and of tiles that pages pad."""
    pair = c["macs"] / np.maximum(c["pairs"], 1.0)
    rate = core_rate(chip, str(np.asarray(calls["math"])[0]))
    return {
        "macs": keys * padded * pair,
        "key_padding_macs": (keys - c["pairs"]) * pair,
        "empty_tile_macs": keys * (padded - 1.0) * pair,
        "reread_bytes": again,
        "converted_values": keys * padded * c["values"] * rate.converts,
    }


def key_cycles(
    calls: Columns, c: Mapping[str, Floats], chip: ChipSpec, vector_rate: float
) -> Floats:
    """Core cycles of one key and row; one format a table of calls."""
    pairs = np.maximum(c["pairs"], 1.0)
    rate = core_rate(chip, str(np.asarray(calls["math"])[0]))
    cycles = c["macs"] / pairs / rate.macs_per_clock + c["vector_ops"] / pairs / vector_rate
    if rate.converts:
        cycles = cycles + CONVERT_OPS * c["values"] / vector_ops_per_clock(chip)
    return np.asarray(cycles)


def padded_share(page_rows: Floats, chip: ChipSpec) -> Floats:
    """Keys of the tiles over a page's rows, a row: 1 where the rows fill whole tiles.

    Assumes: chips that DeepGEMM does not run on have its tiles of 64 keys.
    """
    sizes = TILE_KEYS.get(core_architecture(chip), OTHER_TILE_KEYS)
    filled = [np.ceil(page_rows / size) * size for size in sizes]
    return np.asarray(np.min(filled, axis=0) / page_rows)


def _tiles_text(page_rows: int, chip: ChipSpec) -> str:
    keys = tile_keys(page_rows, chip)
    return f"tiles of {keys} keys, {1 - page_rows / (-(-page_rows // keys) * keys):.0%} empty"


def tile_keys(page_rows: int, chip: ChipSpec) -> int:
    """Keys of a tile: the size that wastes least of a page, the larger first."""
    sizes = TILE_KEYS.get(core_architecture(chip), OTHER_TILE_KEYS)
    return min(sizes, key=lambda size: (-(-page_rows // size) * size, -size))


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of keys, of all once (of which a share is `warm`, in cache), and of keys again."""

    keys: Floats
    once: Floats
    warm: Floats
    again: Floats

    @classmethod
    def of(cls, rows: Rows, c: Mapping[str, Floats], chip: ChipSpec) -> Traffic:
        """Of calls with these rows."""
        tokens = rows.requests * rows.new
        keys = rows.requests * (rows.past + rows.new) / rows.ratio * c["key_bytes"]
        scores = tokens * (rows.past + rows.new / 2) / rows.ratio * SCORE_BYTES
        once = keys + scores + tokens * c["query_bytes"]
        # Each half of the cache holds its own copy of what cores on both sides read.
        warm = warm_share(2.0 * once, chip)
        passes = np.minimum(rows.new, ROWS_OUT_OF_STEP + tokens / chip.core_count)
        again = keys * (passes - 1.0) * (1.0 - warm_share(keys, chip))
        return cls(keys, once, warm, again)


def _memory_seconds(rows: Rows, c: Mapping[str, Floats], chip: ChipSpec) -> tuple[Floats, Floats]:
    """Keys, queries and scores, at the rate of the cache for the share that stays warm in it.

    Beside the seconds the bytes of keys that are read again.

    Every row reads the keys of its request. Where the keys of all requests outgrow the cache, they
    come from memory again, once for all cores that are in step on a request; cores fall in step
    over its first rows, which each fetch for themselves.
    """
    moved = Traffic.of(rows, c, chip)
    cold = (1.0 - moved.warm) * moved.once + moved.again
    # Keys of a page lie in one run; what else is read or written streams.
    scattered = np.minimum(cold, moved.keys + moved.again)
    scattered = scattered * (1.0 / run_share(c["run_bytes"], chip) - 1.0)
    slow = (cold + scattered) / memory_bytes_per_s(chip)
    fast = moved.warm * moved.once / chip.llc_bandwidth_bytes_per_s
    return np.asarray(slow + fast, dtype=np.float64), np.asarray(moved.again)


class SglangIndexLogits(IndexLogits):
    """SGLang: `deep_gemm.fp8_paged_mqa_logits`."""

    name: ClassVar[str] = "index_logits_sglang"


class VllmIndexLogits(IndexLogits):
    """vLLM: `fp8_fp4_paged_mqa_logits`, whose scheduler walks the row lengths for every row."""

    name: ClassVar[str] = "index_logits_vllm"
    constants: ClassVar[tuple[Constant, ...]] = (LAUNCH, VECTOR_RATE, ROW_CYCLES, SCAN_CYCLES)


FAMILIES: dict[str, Family] = {f.name: f for f in (SglangIndexLogits(), VllmIndexLogits())}
