"""Sparse attention over the raw window and the compressed entries, in one softmax with a sink.

One key-value vector serves all heads (K = V). A query at position t sees raw rows t-window+1 .. t
and the compressed entries below (t+1)//ratio: all of them (HCA), or the picked ids (CSA).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.dtype import BF16
from workloads.op import Array, EvalContext, Op, Types, require
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Read, Work, total_bytes

QUERY_BLOCK = 64


@dataclass(frozen=True, slots=True)
class SparseAttention(Op):
    """q [tokens, heads, dim], kv [tokens, dim] (own rows), ids [tokens, picks] for CSA only.

    Regions: the window ring, then the compressed pool where `ratio` > 0. `top_k` 0 means that
    every visible entry is read. The ring is read before the chunk is written to it.
    With `pooled` the chunk was written before, to a paged window, and is read back from it: there
    is no operand `kv`, and causality alone hides what comes later.
    With `block` the chunk is a block of drafts: each query sees all of the chunk, whatever its
    place in it, and the `window` rows before it.
    """

    window: int
    ratio: int = 0
    top_k: int = 0
    block: bool = False
    pooled: bool = False

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[tokens, heads, dim]."""
        operands = (3 if self.top_k else 2) - self.pooled
        require(
            len(types.inputs) == operands and len(types.params) == 1,
            self,
            f"needs {operands} inputs and a sink, got {len(types.inputs)} and {len(types.params)}",
        )
        q, own = types.inputs[0], types.inputs[1 : 2 - self.pooled]
        require(
            len(q.axes) == 3
            and q.shape[0] == step.tokens
            and all(kv.shape == q.shape[::2] for kv in own),
            self,
            f"{step.tokens} tokens, {q.axes} and {[kv.axes for kv in own]}",
        )
        for ids in types.inputs[2 - self.pooled :]:
            require(ids.shape == (step.tokens, self.top_k), self, f"{q.axes} and ids {ids.axes}")
        require(types.params[0].axes == q.axes[1:2], self, f"sink {types.params[0].axes}")
        return (TensorType(q.axes, BF16),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """By request and block of queries."""
        q, sink = arrays[0], arrays[-1]
        ids = arrays[2 - self.pooled] if self.top_k else None
        out = np.empty_like(q)
        for request, span, past in context.batch.rows():
            kept = min(past, self.window - 1)
            if self.block:
                known = context.batch.draft_from
                kept = min(past - (0 if known is None else int(known[request])), self.window)
            end = past + span.stop - span.start if self.pooled else past
            raw = context.regions[0].read(request, np.arange(past - kept, end)).astype(q.dtype)
            if not self.pooled:
                raw = np.concatenate([raw, arrays[1][span]])
            if self.block:
                keys = np.broadcast_to(raw, (span.stop - span.start, *raw.shape))
                out[span] = _attend(q[span], keys, np.ones(keys.shape[:2], dtype=bool), sink)
                continue
            entries = self._entries(request, past + span.stop - span.start, context)
            for start in range(span.start, span.stop, QUERY_BLOCK):
                rows = slice(start, min(start + QUERY_BLOCK, span.stop))
                positions = context.batch.positions[rows]
                picks = None if ids is None else ids[rows]
                keys, mask = self._keys(raw, past - kept, entries, positions, picks)
                out[rows] = _attend(q[rows], keys, mask, sink)
        return (out,)

    def _entries(self, request: int, length: int, context: EvalContext) -> Array | None:
        if not self.ratio:
            return None
        return context.regions[1].read(request, np.arange(length // self.ratio))

    def _keys(
        self,
        raw: Array,
        raw_start: int,
        entries: Array | None,
        positions: Array,
        picks: Array | None,
    ) -> tuple[Array, Array]:
        """Keys [queries, n, dim] and visibility [queries, n] of one block of queries."""
        offsets = positions[:, None] - np.arange(self.window)[::-1]
        keys, mask = raw[np.maximum(offsets - raw_start, 0)], offsets >= 0
        if entries is None:
            return keys, mask
        if picks is None:
            count = len(entries)
            picks = np.broadcast_to(np.arange(count), (len(positions), count))
            seen = picks < ((positions + 1) // self.ratio)[:, None]
        else:
            seen = picks >= 0
        if not len(entries):
            return keys, mask
        chosen = entries[np.maximum(picks, 0)].astype(keys.dtype)
        return np.concatenate([keys, chosen], axis=1), np.concatenate([mask, seen], axis=1)

    def pairs(self, step: StepShape) -> int:
        """(query, key) pairs of the step."""
        return self._raw_pairs(step) + self._entry_pairs(step)

    def _raw_pairs(self, step: StepShape) -> int:
        if self.block:
            return step.total(lambda new, past: new * (min(past, self.window) + new))
        return step.window_pairs(self.window)

    def _past_rows(self, step: StepShape) -> int:
        if self.block:
            return step.total(lambda _, past: min(past, self.window))
        return step.window_past_rows(self.window)

    def _entry_pairs(self, step: StepShape) -> int:
        if not self.ratio:
            return 0
        if self.top_k:
            return step.picked_pairs(self.ratio, self.top_k)
        return step.entry_pairs(self.ratio)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """2 dim multiply-adds a head and pair; own rows count as read in the cache's format.

        One exponential a head and pair; for the sink another and a reciprocal a head and query.
        """
        q = types.inputs[0]
        heads, dim = q.axes[1][1], q.axes[2][1]
        pairs = self.pairs(step)
        reads = [
            Read(
                region=0,
                entries=self._raw_pairs(step),
                distinct=self._past_rows(step) + step.tokens,
                pattern="window",
            )
        ]
        if self.ratio:
            reads.append(
                Read(
                    region=1,
                    entries=self._entry_pairs(step),
                    distinct=self._distinct(step, stats),
                    pattern="gather" if self.top_k else "scan",
                )
            )
        inputs = list(total_bytes(types.inputs))
        if not self.pooled:
            inputs[1] = 0
        return Work(
            macs={"bf16": 2 * dim * heads * pairs},
            vector_ops=4 * heads * pairs + q.size,
            special_ops=heads * pairs + 2 * heads * q.axes[0][1],
            input_bytes=tuple(inputs),
            param_bytes=total_bytes(types.params),
            output_bytes=total_bytes(types.outputs),
            reads=tuple(reads),
        )

    def _distinct(self, step: StepShape, stats: RunStats) -> float:
        if not self.top_k:
            return step.entries(self.ratio)

        def distinct(new: int, past: int) -> float:
            visible = (past + new) // self.ratio
            return stats.distinct_picks(visible, min(visible, self.top_k), new)

        return step.ordered_total(distinct)


def _attend(q: Array, keys: Array, mask: Array, sink: Array) -> Array:
    """Softmax over the visible keys and the sink, which has a score but no value."""
    scores = np.einsum("thd,tnd->thn", q, keys) * q.shape[-1] ** -0.5
    scores = np.where(mask[:, None, :], scores, -np.inf)
    top = np.maximum(scores.max(axis=-1), sink)
    weights = np.exp(scores - top[..., None])
    total = weights.sum(axis=-1) + np.exp(sink - top)
    return np.einsum("thn,tnd->thd", weights, keys) / total[..., None]
