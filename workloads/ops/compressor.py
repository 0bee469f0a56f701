"""Compressor: pools the projections of each block of tokens into one cache entry.

Per channel, a softmax over the pooled tokens' scores weights their values. With overlap (ratio 4)
an entry pools the previous block through the first half of the projection and its own block
through the second; entry 0 has no previous block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.dtype import BF16
from workloads.op import Array, CacheRegion, EvalContext, Op, Types, require, require_arity
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Append, Read, Work, total_bytes


@dataclass(frozen=True, slots=True)
class CompressPool(Op):
    """kv, score [tokens, halves, entry] to the completed entries [entries, entry], before the norm.

    The tail region holds (kv, score) rows of the last `halves` x ratio tokens.
    """

    ratio: int
    halves: int

    @property
    def tail(self) -> int:
        """Rows of the state: the own block, and the previous one where blocks overlap."""
        return self.ratio * self.halves

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[entries that the step completes, entry]."""
        require_arity(self, types, 2, 1)
        kv, score = types.inputs
        (ape,) = types.params
        require(
            len(kv.axes) == 3 and kv.axes == score.axes and kv.shape[0] == step.tokens,
            self,
            f"{step.tokens} tokens, {kv.axes} and {score.axes}",
        )
        require(
            ape.axes == (("block", self.ratio), *kv.axes[1:]) and kv.axes[1][1] == self.halves,
            self,
            f"position bias {ape.axes} against {kv.axes}",
        )
        return (TensorType((("entries", step.emitted(self.ratio)), kv.axes[2]), BF16),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Join the tail with the chunk, pool what is complete, keep the new tail."""
        kv, score, ape = arrays
        rows = np.stack([kv, score + ape[context.batch.positions % self.ratio]], axis=1)
        (state,) = context.regions
        pooled = [
            self._pool_request(rows[span], request, past, state)
            for request, span, past in context.batch.rows()
        ]
        return (np.concatenate(pooled),)

    def _pool_request(self, own: Array, request: int, past: int, state: CacheRegion) -> Array:
        """Entries of one request; `own` is [new, 2, halves, entry]."""
        length, entry = past + len(own), own.shape[-1]
        start = self._first_needed(past)
        tail = state.read(request, np.arange(start, past)).reshape(-1, *own.shape[1:])
        joined = np.concatenate([tail.astype(own.dtype), own])
        kept = np.arange(max(length - self.tail, start), length)
        state.write(request, kept, joined[kept - start].reshape(len(kept), -1))
        first, last = past // self.ratio, length // self.ratio
        if first == last:
            return np.empty((0, entry), dtype=own.dtype)
        blocks = joined[first * self.ratio - start : last * self.ratio - start]
        own_part = blocks.reshape(last - first, self.ratio, *own.shape[1:])[:, :, :, -1]
        if self.halves == 1:
            return _weighted(own_part)
        previous = self._previous(joined, first, last, start)
        return _weighted(np.concatenate([previous, own_part], axis=1))

    def _previous(self, joined: Array, first: int, last: int, start: int) -> Array:
        """[entries, ratio, 2, entry] of the block before each entry; -inf scores before entry 0."""
        begin = (first - 1) * self.ratio - start
        rows = joined[max(begin, 0) : (last - 1) * self.ratio - start, :, 0]
        if begin < 0:
            absent = np.zeros((self.ratio, *rows.shape[1:]), dtype=rows.dtype)
            absent[:, 1] = -np.inf
            rows = np.concatenate([absent, rows])
        return rows.reshape(last - first, self.ratio, *rows.shape[1:])

    def _first_needed(self, past: int) -> int:
        return max((past // self.ratio - (self.halves - 1)) * self.ratio, 0)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Bias on every token; exponentials and a weighted sum over the support of each entry."""
        kv = types.inputs[0]
        support = types.outputs[0].size * self.tail
        read = step.total(
            lambda new, past: (
                (past - self._first_needed(past))
                if (past + new) // self.ratio > past // self.ratio
                else 0
            )
        )
        written = step.total(lambda new, past: min(new, self.tail))
        return Work(
            vector_ops=kv.size + 4 * support,
            special_ops=support + types.outputs[0].size,
            input_bytes=total_bytes(types.inputs),
            param_bytes=total_bytes(types.params),
            output_bytes=total_bytes(types.outputs),
            reads=(Read(region=0, entries=read, distinct=read, pattern="window"),),
            appends=(Append(region=0, entries=written),),
        )


def _weighted(rows: Array) -> Array:
    """[entries, support, 2, entry] to [entries, entry]: softmax over the support, per channel."""
    values, scores = rows[:, :, 0], rows[:, :, 1]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (values * weights).sum(axis=1) / weights.sum(axis=1)
