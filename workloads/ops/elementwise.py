"""Embedding rows, sums, selection of the last row of each request, and the gated activation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.dtype import BF16
from workloads.op import Array, EvalContext, Op, Types, require, require_arity
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work, total_bytes


@dataclass(frozen=True, slots=True)
class Embed(Op):
    """Rows of the embedding table [vocab, hidden] by token id."""

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[tokens, hidden]."""
        require_arity(self, types, 1, 1)
        (ids,), (table,) = types.inputs, types.params
        require(len(ids.axes) == 1 and len(table.axes) == 2, self, f"{ids.axes} and {table.axes}")
        return (TensorType((*ids.axes, table.axes[1]), BF16),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """A rank of a sharded table contributes zero for ids outside its part."""
        ids, table = arrays
        local = ids - context.rank_index("vocab") * len(table)
        inside = (local >= 0) & (local < len(table))
        return (np.where(inside[:, None], table[np.where(inside, local, 0)], 0),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """One row a token is read and written."""
        return Work(
            input_bytes=total_bytes(types.inputs),
            param_bytes=(types.outputs[0].nbytes,),
            output_bytes=total_bytes(types.outputs),
        )

    def contracted_axes(self, types: Types) -> frozenset[str]:
        """A table sharded over the vocabulary gives partial sums."""
        return frozenset({"vocab"})


@dataclass(frozen=True, slots=True)
class Repeat(Op):
    """Copies of each row along a new axis: the residual streams of hyper-connections."""

    axis: str
    copies: int

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[tokens, copies, hidden]."""
        require_arity(self, types, 1, 0)
        (x,) = types.inputs
        return (TensorType((x.axes[0], (self.axis, self.copies), *x.axes[1:]), x.dtype),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Repeat along axis 1."""
        return (np.repeat(arrays[0][:, None], self.copies, axis=1),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Read once, write every copy."""
        return Work(input_bytes=total_bytes(types.inputs), output_bytes=total_bytes(types.outputs))


@dataclass(frozen=True, slots=True)
class Add(Op):
    """a + b; b [tokens, hidden] is added to every stream of a [tokens, streams, hidden]."""

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Type of the first operand."""
        require_arity(self, types, 2, 0)
        a, b = types.inputs
        require(
            a.axes == b.axes or (len(a.axes) == 3 and b.axes == a.axes[::2]),
            self,
            f"{a.axes} and {b.axes}",
        )
        return (a,)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Sum."""
        a, b = arrays
        return (a + (b if a.ndim == b.ndim else b[:, None]),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """One operation an element."""
        return Work(
            vector_ops=types.outputs[0].size,
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
        )


@dataclass(frozen=True, slots=True)
class LastRows(Op):
    """The last row of each request: only those reach the output head."""

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[requests, ...]."""
        require_arity(self, types, 1, 0)
        (x,) = types.inputs
        require(x.shape[0] == step.tokens, self, f"{step.tokens} tokens, {x.axes}")
        return (TensorType((("requests", step.batch), *x.axes[1:]), x.dtype),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Select."""
        return (arrays[0][context.batch.boundaries[1:] - 1],)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Reads and writes the selected rows."""
        out = types.outputs[0].nbytes
        return Work(input_bytes=(out,), output_bytes=(out,))


@dataclass(frozen=True, slots=True)
class SwiGlu(Op):
    """silu(min(gate, limit)) x clip(up, -limit, limit) on [..., 2, ffn] = (gate, up)."""

    limit: float | None

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[..., ffn]."""
        require_arity(self, types, 1, 0)
        (x,) = types.inputs
        require(x.axes[-2:-1] == (("gate_up", 2),), self, f"needs a gate_up axis of 2 in {x.axes}")
        return (TensorType((*x.axes[:-2], x.axes[-1]), BF16),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Clamp, activate, multiply."""
        gate, up = arrays[0][..., 0, :], arrays[0][..., 1, :]
        if self.limit is not None:
            gate, up = np.minimum(gate, self.limit), np.clip(up, -self.limit, self.limit)
        return (gate / (1.0 + np.exp(-gate)) * up,)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Clamps, two products and a sum; one exponential and one reciprocal."""
        size = types.outputs[0].size
        return Work(
            vector_ops=6 * size,
            special_ops=2 * size,
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
        )
