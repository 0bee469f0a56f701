"""Root-mean-square norms, with a weight or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.dtype import BF16, DType
from workloads.op import Array, EvalContext, Op, Types, require
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work, total_bytes


@dataclass(frozen=True, slots=True)
class RmsNorm(Op):
    """x / sqrt(mean(x^2) + eps) over the last `over` axes, times a weight when one is given."""

    eps: float
    over: int = 1
    out: DType = BF16

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Same axes as the input."""
        require(
            len(types.inputs) == 1 and len(types.params) <= 1,
            self,
            f"needs 1 input and at most 1 parameter, "
            f"got {len(types.inputs)} and {len(types.params)}",
        )
        (x,) = types.inputs
        require(len(x.axes) >= self.over, self, f"norm over {self.over} axes of {x.axes}")
        for weight in types.params:
            require(weight.axes == x.axes[-1:], self, f"weight {weight.axes} against {x.axes}")
        return (TensorType(x.axes, self.out),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Norm, then weight."""
        x = arrays[0]
        axes = tuple(range(x.ndim - self.over, x.ndim))
        y = x / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + self.eps)
        return (y * arrays[1] if len(arrays) == 2 else y,)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Square, add, scale (and weight) each element; one reciprocal root a normed vector."""
        (x,) = types.inputs
        normed = 1
        for _, size in x.axes[len(x.axes) - self.over :]:
            normed *= size
        return Work(
            vector_ops=x.size * (3 + len(types.params)),
            special_ops=x.size // normed if normed else 0,
            input_bytes=total_bytes(types.inputs),
            param_bytes=total_bytes(types.params),
            output_bytes=total_bytes(types.outputs),
        )
