"""Lightning indexer: scores of all visible compressed entries, and the top-k pick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.dtype import FP32, INT32
from workloads.op import Array, EvalContext, Op, Types, require, require_arity
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Read, Work, total_bytes

QUERY_BLOCK = 256


@dataclass(frozen=True, slots=True)
class IndexScore(Op):
    """score(t, s) = sum over heads of w[t, h] relu(q[t, h] . k[s]) for every visible s.

    Output: one packed array of all (query, visible entry) pairs, query after query.
    """

    ratio: int
    math: str

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[pairs] fp32."""
        require_arity(self, types, 2, 0)
        q, weights = types.inputs
        require(
            len(q.axes) == 3 and q.axes[:2] == weights.axes and q.shape[0] == step.tokens,
            self,
            f"{step.tokens} tokens, {q.axes} and {weights.axes}",
        )
        return (TensorType((("pairs", step.entry_pairs(self.ratio)),), FP32),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """By request and block of queries; invisible pairs are cut off."""
        q, weights = arrays
        (pool,) = context.regions
        packed: list[Array] = []
        for request, span, past in context.batch.rows():
            length = past + span.stop - span.start
            keys = pool.read(request, np.arange(length // self.ratio)).astype(q.dtype)
            for start in range(span.start, span.stop, QUERY_BLOCK):
                rows = slice(start, min(start + QUERY_BLOCK, span.stop))
                dots = np.maximum(np.einsum("thd,sd->ths", q[rows], keys), 0.0)
                scores = np.einsum("ths,th->ts", dots, weights[rows])
                visible = (context.batch.positions[rows] + 1) // self.ratio
                packed += [row[:count] for row, count in zip(scores, visible, strict=True)]
        return (np.concatenate(packed),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """heads x dim multiply-adds a pair; ReLU, product and sum a head; all keys once."""
        q = types.inputs[0]
        pairs, heads, dim = step.entry_pairs(self.ratio), q.axes[1][1], q.axes[2][1]
        return Work(
            macs={self.math: pairs * heads * dim},
            vector_ops=3 * pairs * heads,
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
            reads=(
                Read(region=0, entries=pairs, distinct=step.entries(self.ratio), pattern="scan"),
            ),
        )


@dataclass(frozen=True, slots=True)
class TopK(Op):
    """Ids of the `top_k` best entries of each query, ascending; -1 fills; ties take the lowest."""

    ratio: int
    top_k: int

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[tokens, picks] int32."""
        require_arity(self, types, 1, 0)
        require(
            types.inputs[0].size == step.entry_pairs(self.ratio), self, str(types.inputs[0].axes)
        )
        return (TensorType((("tokens", step.tokens), ("picks", self.top_k)), INT32),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Stable sort of the negated scores keeps the lowest id among equals."""
        (packed,) = arrays
        visible = (context.batch.positions + 1) // self.ratio
        scores = np.split(packed, np.cumsum(visible)[:-1])
        ids = np.full((len(visible), self.top_k), -1, dtype=np.int64)
        for row, row_scores in enumerate(scores):
            best = np.argsort(-row_scores, kind="stable")[: self.top_k]
            ids[row, : len(best)] = np.sort(best)
        return (context.choices.choose(context.path, "top-k", ids, scores),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Every score is read once and compared about twice (radix select)."""
        pairs = types.inputs[0].size
        return Work(
            vector_ops=2 * pairs,
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
        )
