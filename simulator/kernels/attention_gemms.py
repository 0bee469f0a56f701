"""GEMMs of an attention module, by name, with the constants of the GEMM families.

The weights of one module are read in turn, call after call: they stay in the last-level cache
where all of them fit the part of it that one die reads through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwmodels.chip import ChipSpec
from simulator.kernels.attention_calls import (
    GROUP_RANK,
    HEAD_DIM,
    HEADS_PER_GROUP,
    INDEX_HEADS,
    INDEX_WIDTH,
    AttentionCalls,
)
from simulator.kernels.gemm_tiles import FORMATS
from simulator.kernels.gemm_time import gemm_parts
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.warmth import ROTATION_FADE, warm_share

GROUP_DEPTH = HEADS_PER_GROUP * HEAD_DIM
INDEX_COMPRESSOR_WIDTH = 512
# All that GEMMs depend on.
GEMM_COLUMNS = ("tokens", "heads", "hidden", "query_rank", "csa", "hca", "fp8", "cold")
# Calls whose GEMMs are worked out together: more would take too large arrays of tiles.
FEW_CALLS = 16
# GEMMs that only CSA has.
CSA_ONLY = ("index_query", "index_weights", "index_compressor_gemm")
# GEMMs that stay in BF16 in checkpoints with FP8 weights.
ALWAYS_BF16 = ("compressor_gemm", "index_weights", "index_compressor_gemm")


def gemm_shapes(calls: AttentionCalls) -> dict[str, tuple[Floats, Floats]]:
    """Columns and depth of every GEMM; `output_group` is one block of columns a group of heads."""
    one = np.ones_like(calls.heads)
    return {
        "down": (calls.query_rank + HEAD_DIM, calls.hidden),
        "query": (calls.heads * HEAD_DIM, calls.query_rank),
        "output_group": (calls.heads / HEADS_PER_GROUP * GROUP_RANK, one * GROUP_DEPTH),
        "output": (calls.hidden, calls.output_rank),
        "compressor_gemm": (calls.compressor_width, calls.hidden),
        "index_query": (one * INDEX_WIDTH, calls.query_rank),
        "index_weights": (one * INDEX_HEADS, calls.hidden),
        "index_compressor_gemm": (one * INDEX_COMPRESSOR_WIDTH, calls.hidden),
    }


def module_gemms(
    calls: AttentionCalls,
    chip: ChipSpec,
    bf16: Mapping[str, float],
    fp8: Mapping[str, float],
    fp8_output_group: bool,
) -> dict[str, Parts]:
    """Seconds by cause of every GEMM, activation-quantise kernels included.

    `bf16` and `fp8` are constants of the GEMM families. `output_group` needs no quantise kernel of
    its own: the kernel before it writes FP8.
    """
    shapes = gemm_shapes(calls)
    in_fp8 = {
        name: calls.fp8 & (name not in ALWAYS_BF16) & (fp8_output_group or name != "output_group")
        for name in shapes
    }
    warm = weights_warm(calls, shapes, in_fp8, chip)
    found: dict[str, dict[str, Floats]] = {name: {} for name in shapes}
    for job, parts in _timed(_jobs(calls, shapes, in_fp8), calls, shapes, warm, chip, bf16, fp8):
        for cause, value in parts.items():
            found[job.name].setdefault(cause, np.zeros_like(calls.heads))[job.rows] = value
    # No time where the module has no such GEMM.
    return {
        name: Parts(seconds or {"launch": np.zeros_like(calls.heads)})
        for name, seconds in found.items()
    }


@dataclass(frozen=True, slots=True)
class _Job:
    """One GEMM in one format: the calls that have it so."""

    name: str
    dtype: str
    rows: NDArray[np.intp]

    @property
    def quantises(self) -> bool:
        return self.dtype == "fp8_block" and self.name != "output_group"


def _jobs(
    calls: AttentionCalls,
    shapes: Mapping[str, tuple[Floats, Floats]],
    in_fp8: Mapping[str, np.ndarray],
) -> Iterator[_Job]:
    for name in shapes:
        used = has_gemm(calls, name)
        for dtype, chosen in (("fp8_block", in_fp8[name]), ("bfloat16", ~in_fp8[name])):
            rows = np.flatnonzero(chosen & used)
            if len(rows):
                yield _Job(name, dtype, rows)


def _timed(
    jobs: Iterable[_Job],
    calls: AttentionCalls,
    shapes: Mapping[str, tuple[Floats, Floats]],
    warm: Floats,
    chip: ChipSpec,
    bf16: Mapping[str, float],
    fp8: Mapping[str, float],
) -> Iterator[tuple[_Job, dict[str, Floats]]]:
    """Seconds by cause of each; GEMMs of few calls in one format are worked out at once."""
    groups: dict[object, list[_Job]] = {}
    for job in jobs:
        alone = job.name if len(calls.heads) > FEW_CALLS else None
        groups.setdefault((job.dtype, job.quantises, alone), []).append(job)
    for group in groups.values():
        first = group[0]
        parts = warmed_gemm(
            np.concatenate([calls.tokens[job.rows] for job in group]),
            np.concatenate([shapes[job.name][0][job.rows] for job in group]),
            np.concatenate([shapes[job.name][1][job.rows] for job in group]),
            first.dtype,
            np.concatenate([warm[job.rows] for job in group]),
            chip,
            fp8 if first.dtype == "fp8_block" else bf16,
            quantise=first.quantises,
        )
        start = 0
        for job in group:
            own = slice(start, start + len(job.rows))
            yield job, {cause: value[own] for cause, value in parts.seconds.items()}
            start = own.stop


def weights_warm(
    calls: AttentionCalls,
    shapes: Mapping[str, tuple[Floats, Floats]],
    in_fp8: Mapping[str, np.ndarray],
    chip: ChipSpec,
) -> Floats:
    """Share of the weights that are still in cache from the last call of the module.

    Assumes: every die of a package keeps its own copy of the weights that its cores read.
    """
    total = np.zeros_like(calls.heads)
    if calls.cold.all():
        return total
    for name, (columns, depth) in shapes.items():
        each = np.where(
            in_fp8[name], FORMATS["fp8_block"].weight_bytes, FORMATS["bfloat16"].weight_bytes
        )
        total = total + columns * depth * each * has_gemm(calls, name)
    return warm_share(total * chip.dies, chip, ROTATION_FADE) * ~calls.cold


def has_gemm(calls: AttentionCalls, name: str) -> np.ndarray:
    """Calls whose kind of layer has the GEMM."""
    if name in CSA_ONLY:
        return calls.csa
    return calls.compresses if name == "compressor_gemm" else np.ones_like(calls.csa)


def warmed_gemm(
    m: Floats,
    n: Floats,
    k: Floats,
    dtype: str,
    warm: Floats,
    chip: ChipSpec,
    constants: Mapping[str, float],
    *,
    quantise: bool,
) -> Parts:
    """A GEMM whose weights are partly in cache: the mean of one from memory and one from cache.

    Assumes: the wait of a K block is a wait for its weights, shorter from the cache in the ratio
    of the latencies.
    """
    nearer = chip.llc_latency_s / chip.dram_latency_s
    cached = {**constants, "block_wait": constants["block_wait"] * nearer}
    far = gemm_parts(m, n, k, dtype, chip, constants, weights_warm=0.0, quantise=quantise)
    if not warm.any():
        return far
    near = gemm_parts(m, n, k, dtype, chip, cached, weights_warm=1.0, quantise=quantise)
    return Parts({c: far.seconds[c] * (1.0 - warm) + near.seconds[c] * warm for c in far.seconds})
