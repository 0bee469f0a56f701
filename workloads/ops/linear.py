"""Matrix products with a weight: dense, and grouped (one matrix per group of heads)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.dtype import BF16, DType
from workloads.op import Array, EvalContext, Op, Types, require, require_arity
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work, total_bytes


@dataclass(frozen=True, slots=True)
class Linear(Op):
    """y = scale W x: the input's last axes are contracted with the weight's columns.

    `inner` trailing axes of the weight are its columns. `math` is the rate class of the matrix
    product; default the weight's own.
    """

    out: DType = BF16
    math: str | None = None
    scale: float = 1.0
    inner: int = 1

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[..., rows of the weight]."""
        require_arity(self, types, 1, 1)
        (x,), (weight,) = types.inputs, types.params
        lead = len(x.axes) - self.inner
        require(
            weight.inner == self.inner and weight.lead == 0 and x.axes[lead:] == weight.column_axes,
            self,
            f"input ends in {x.axes[lead:]}, weight columns are {weight.column_axes}",
        )
        return (TensorType(x.axes[:lead] + weight.row_axes, self.out),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Flatten, multiply, restore the axes."""
        x, weight = arrays
        rows = weight.shape[: weight.ndim - self.inner]
        columns = int(np.prod(weight.shape[weight.ndim - self.inner :]))
        y = x.reshape(-1, columns) @ weight.reshape(-1, columns).T
        if self.scale != 1.0:
            y = y * self.scale
        return (y.reshape(x.shape[: x.ndim - self.inner] + rows),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """rows(x) N K multiply-adds; every operand moves once."""
        (x,), (weight,) = types.inputs, types.params
        _, n, k = weight.matrix
        return Work(
            macs={self.math or weight.dtype.math: x.size // k * n * k},
            input_bytes=total_bytes(types.inputs),
            param_bytes=total_bytes(types.params),
            output_bytes=total_bytes(types.outputs),
        )

    def contracted_axes(self, types: Types) -> frozenset[str]:
        """The weight's columns."""
        return frozenset(name for name, _ in types.params[0].column_axes)


@dataclass(frozen=True, slots=True)
class GroupedLinear(Op):
    """y[t, g] = W[g] x[t, g]: one matrix per group, weight [groups, rows, columns]."""

    out: DType = BF16

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[tokens, groups, rows] from [tokens, heads, head_dim]: heads are split over groups."""
        require_arity(self, types, 1, 1)
        (x,), (weight,) = types.inputs, types.params
        groups, _, columns = weight.matrix
        require(
            weight.lead == 1 and x.size == x.axes[0][1] * groups * columns,
            self,
            f"input {x.axes} does not split into {groups} groups of {columns} columns",
        )
        return (TensorType(x.axes[:1] + weight.lead_axes + weight.row_axes, self.out),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Batched product over groups."""
        x, weight = arrays
        groups, _, columns = weight.shape
        grouped = x.reshape(len(x), groups, columns).transpose(1, 0, 2)
        return ((grouped @ weight.transpose(0, 2, 1)).transpose(1, 0, 2),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """tokens x groups x rows x columns multiply-adds."""
        (x,), (weight,) = types.inputs, types.params
        groups, n, k = weight.matrix
        return Work(
            macs={weight.dtype.math: x.axes[0][1] * groups * n * k},
            input_bytes=total_bytes(types.inputs),
            param_bytes=total_bytes(types.params),
            output_bytes=total_bytes(types.outputs),
        )
