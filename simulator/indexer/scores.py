"""Index scores with queries and keys in a cache format, rotated or not, by the model's score rule.

score(t, s) = sum over heads of w[t, h] relu(q[t, h] . k[s]); the best `top_k` are picked, ties to
the lowest id, as `workloads.ops.indexer` has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from simulator.indexer.index_case import IndexCase
from workloads.block_scale import Array, as_floats, to_bytes
from workloads.entry_format import Bf16Entry, EntryFormat, PlainEntry
from workloads.index_entry import Fp4IndexEntry, Fp8IndexEntry, hadamard

# Rows that are rounded, and keys that are scored at once: they fit a core's own cache.
ROUNDED_ROWS, SCORED_KEYS = 512, 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A way to store and score: `precision` of queries and keys, `hadamard` before rounding.

    `bf16_scores` rounds the scores themselves before the pick.
    """

    precision: str
    hadamard: bool = False
    bf16_scores: bool = False

    @property
    def name(self) -> str:
        """Words for tables: `FP4, Hadamard`."""
        scored = ", BF16 scores" if self.bf16_scores else ""
        return f"{self.precision.upper()}{', Hadamard' if self.hadamard else ''}{scored}"


REFERENCE = Variant(precision="fp32")
# From the coarsest format to the finest; the last two show what rotation and scores do alone.
VARIANTS = (
    *(Variant(precision=p, hadamard=h) for p in ("fp4", "fp8", "bf16") for h in (False, True)),
    Variant(precision="fp32", hadamard=True),
    Variant(precision="fp32", bf16_scores=True),
)


def format_of(precision: str, dim: int) -> EntryFormat:
    """The product's entry format of a precision."""
    if precision == "fp4":
        return Fp4IndexEntry(dim)
    if precision == "fp8":
        return Fp8IndexEntry(dim)
    return Bf16Entry(dim) if precision == "bf16" else PlainEntry(dim)


def rotated(case: IndexCase) -> IndexCase:
    """The case in the basis that index entries are stored in; rotated values are float32."""
    return replace(case, q=_by_rows(hadamard, case.q), k=_by_rows(hadamard, case.k))


def rounded(values: Array, precision: str) -> Array:
    """Values [..., dim] as they come back from a precision's format, float32."""
    entry = format_of(precision, values.shape[-1])
    return _by_rows(lambda rows: entry.decode(entry.encode(rows)), values)


def _by_rows(change: Callable[[Array], Array], values: Array) -> Array:
    rows = values.reshape(-1, values.shape[-1])
    out = np.empty(rows.shape, dtype=np.float32)
    for start in range(0, len(rows), ROUNDED_ROWS):
        block = slice(start, start + ROUNDED_ROWS)
        out[block] = change(rows[block].astype(np.float64))
    return out.reshape(values.shape)


def scores(case: IndexCase, variant: Variant) -> Array:
    """[queries, entries] float32; the case is already `rotated` where the variant asks for it.

    Assumes: queries are rounded in the format of the keys, as engines do; products of rounded
        values are summed in float32, in any order.
    """
    q, k = rounded(case.q, variant.precision), rounded(case.k, variant.precision)
    found = np.empty((case.queries, case.entries), dtype=np.float32)
    for start in range(0, case.entries, SCORED_KEYS):
        keys = k[start : start + SCORED_KEYS]
        for query in range(case.queries):
            dots = keys @ q[query].T
            np.maximum(dots, 0.0, out=dots)
            found[query, start : start + SCORED_KEYS] = dots @ case.w[query]
    if variant.bf16_scores:
        raw = to_bytes(found.astype(np.float64), "bfloat16")
        return as_floats(raw, "bfloat16").astype(np.float32)
    return found


def top_k(row: Array, count: int) -> Array:
    """Ids [count] of the best scores of [entries], ascending; ties take the lowest id."""
    if count >= len(row):
        return np.arange(len(row))
    worst = np.partition(row, len(row) - count)[len(row) - count]
    above = np.flatnonzero(row > worst)
    level = np.flatnonzero(row == worst)[: count - len(above)]
    return np.sort(np.concatenate([above, level]))
