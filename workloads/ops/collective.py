"""Collectives that the sharding pass inserts, and the exchange of tokens around the experts.

Values: `context.peers[r]` are the operands of the node on rank r. Demand: bytes that one rank
sends, and the number of dependent rounds. Cost models price them; the value never depends on how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.op import Array, EvalContext, Op, Types, require, require_arity
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work, total_bytes

FP8_BYTES_PER_VALUE = 1
BF16_BYTES_PER_VALUE = 2


@dataclass(frozen=True, slots=True)
class AllReduce(Op):
    """Sum over the ranks of a tensor group, on every rank."""

    layout: ParallelLayout

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Same type."""
        require_arity(self, types, 1, 0)
        return types.inputs

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Sum in rank order."""
        group = self.layout.tensor_group(context.rank)
        return (sum_of([context.peers[r][0] for r in group]),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """2 (p-1)/p of the payload leaves a rank: reduce-scatter, then all-gather."""
        ranks, payload = self.layout.tensor, types.inputs[0].nbytes
        return Work(
            vector_ops=types.inputs[0].size * (ranks - 1) // ranks,
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
            link_bytes=2 * (ranks - 1) * payload // ranks,
            link_phases=2,
        )


@dataclass(frozen=True, slots=True)
class AllGather(Op):
    """Parts of the last axis from the ranks of a tensor group, joined on every rank."""

    layout: ParallelLayout

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """The last axis grows by the number of ranks."""
        require_arity(self, types, 1, 0)
        (x,) = types.inputs
        name, size = x.axes[-1]
        return (TensorType((*x.axes[:-1], (name, size * self.layout.tensor)), x.dtype),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Join in rank order."""
        group = self.layout.tensor_group(context.rank)
        return (np.concatenate([context.peers[r][0] for r in group], axis=-1),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """A rank's part goes to the p-1 others."""
        return Work(
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
            link_bytes=(self.layout.tensor - 1) * types.inputs[0].nbytes,
            link_phases=1,
        )


@dataclass(frozen=True, slots=True)
class ReduceScatter(Op):
    """Sum over the data group; each rank keeps its own tokens.

    It undoes a gather of tokens: `total_tokens` rows in, the rank's own rows out.
    """

    layout: ParallelLayout

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Own tokens only."""
        require_arity(self, types, 1, 0)
        (x,) = types.inputs
        require(x.shape[0] >= step.tokens, self, f"{step.tokens} own tokens of {x.axes}")
        return (TensorType((("tokens", step.tokens), *x.axes[1:]), x.dtype),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Sum in rank order, then cut."""
        summed = sum_of([context.peers[r][0] for r in self.layout.data_group(context.rank)])
        return (_own_tokens(summed, self.layout, context),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """(p-1)/p of the payload leaves a rank."""
        ranks, payload = self.layout.data, types.inputs[0].nbytes
        return Work(
            vector_ops=types.inputs[0].size * (ranks - 1) // ranks,
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
            link_bytes=(ranks - 1) * payload // ranks,
            link_phases=1,
        )


@dataclass(frozen=True, slots=True)
class ExpertDispatch(Op):
    """Brings x, ids and weights of the tokens to the ranks that hold their experts.

    One data rank: nothing moves. Several, experts split by tensor: all tokens are gathered.
    Several, with expert groups: an all-to-all sends a row in FP8 for each (token, rank).
    Assumes: tokens pick experts of all groups alike; the tensor group shares the sending.
    """

    layout: ParallelLayout = ParallelLayout()
    total_tokens: int = 0

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """The token axis becomes that of all data ranks."""
        require_arity(self, types, 3, 0)
        x, ids, weights = types.inputs
        require(
            len(x.axes) == 2 and x.axes[0] == ids.axes[0] and ids.axes == weights.axes,
            self,
            f"{x.axes}, ids {ids.axes}, weights {weights.axes}",
        )
        if self.layout.data == 1:
            return types.inputs
        tokens = ("tokens", self.total_tokens)
        return tuple(TensorType((tokens, *t.axes[1:]), t.dtype) for t in types.inputs)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Rows of the data ranks in rank order."""
        if self.layout.data == 1:
            return tuple(arrays)
        group = self.layout.data_group(context.rank)
        return tuple(np.concatenate([context.peers[r][i] for r in group]) for i in range(3))

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """See the class."""
        layout = self.layout
        if layout.data == 1:
            return Work()
        x, ids, weights = types.inputs
        if layout.expert == 1:
            own = x.nbytes + ids.nbytes + weights.nbytes
            sent = (layout.data - 1) * own
        else:
            row = x.axes[1][1] * FP8_BYTES_PER_VALUE
            sent = _exchanged_rows(ids, layout) * row
        return Work(
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
            link_bytes=sent,
            link_phases=1,
        )


@dataclass(frozen=True, slots=True)
class ExpertCombine(Op):
    """Brings the experts' outputs back to the ranks that own the tokens, summed over all ranks.

    With expert groups and several data ranks: an all-to-all of BF16 rows, one per (token, rank).
    In the other cases this node is replaced by a reduce-scatter, or nothing moves.
    """

    per_token: int
    layout: ParallelLayout = ParallelLayout()

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Own tokens only."""
        require_arity(self, types, 1, 0)
        (y,) = types.inputs
        require(y.shape[0] >= step.tokens, self, f"{step.tokens} own tokens of {y.axes}")
        return (TensorType((("tokens", step.tokens), *y.axes[1:]), y.dtype),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Sum over all ranks, then cut."""
        if self.layout.data == 1:
            return tuple(arrays)
        summed = sum_of([peer[0] for peer in context.peers])
        return (_own_tokens(summed, self.layout, context),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """See the class."""
        if self.layout.data == 1:
            return Work()
        (out,) = types.outputs
        ids = TensorType((out.axes[0], ("slots", self.per_token)), out.dtype)
        row = out.axes[1][1] * BF16_BYTES_PER_VALUE
        return Work(
            vector_ops=ids.size * out.axes[1][1],
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
            link_bytes=_exchanged_rows(ids, self.layout) * row,
            link_phases=1,
        )


def _exchanged_rows(ids: TensorType, layout: ParallelLayout) -> int:
    """(token, rank) rows that one rank sends to ranks of other expert groups.

    A token that picked several experts of a group crosses once for all of them: of g groups it is
    expected to reach (g - 1) (1 - ((g - 1) / g)^picks) others. Each row goes to every rank of the
    group that splits the experts; the ranks of a data rank share the sending.
    """
    tokens, picks = ids.shape
    groups = layout.expert
    reached = (groups - 1) * (groups**picks - (groups - 1) ** picks)
    return -(-tokens * reached * layout.expert_tensor // (groups**picks * layout.tensor))


def rows_by_expert(picks: int, layout: ParallelLayout) -> float:
    """How many times as many rows cross where each (token, expert) is sent by itself."""
    groups = layout.expert
    if groups == 1:
        return 1.0
    return picks / groups / (1 - ((groups - 1) / groups) ** picks)


def _own_tokens(rows: Array, layout: ParallelLayout, context: EvalContext) -> Array:
    own = context.rank // layout.tensor
    counts = [len(batch.positions) for batch in context.peer_batches]
    start = sum(counts[:own])
    return rows[start : start + counts[own]]


def sum_of(parts: list[Array]) -> Array:
    """Sum in list order."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
