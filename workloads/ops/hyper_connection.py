"""Manifold-constrained hyper-connections: gates, Sinkhorn mixing, collapse and expansion.

n residual streams X [tokens, streams, hidden]. Before a block the n + n + n n projected numbers of
each token become `pre` (weights of the block input), `post` (weights of the block output) and a
doubly stochastic mixing matrix M. Formulas: DeepSeek-V4 inference code and golden files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.dtype import BF16, FP32
from workloads.op import Array, EvalContext, Op, Types, require, require_arity
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work, total_bytes


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def sinkhorn(matrix: Array, iterations: int, eps: float) -> Array:
    """Column normalisation, then (rows, columns) `iterations` - 1 times; eps in every divisor."""
    matrix = matrix / (matrix.sum(axis=-2, keepdims=True) + eps)
    for _ in range(iterations - 1):
        matrix = matrix / (matrix.sum(axis=-1, keepdims=True) + eps)
        matrix = matrix / (matrix.sum(axis=-2, keepdims=True) + eps)
    return matrix


@dataclass(frozen=True, slots=True)
class HcSplit(Op):
    """z [tokens, n + n + n n] to pre [tokens, n], post [tokens, n], M [tokens, n, n]."""

    streams: int
    iterations: int
    eps: float

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Three fp32 outputs."""
        require_arity(self, types, 1, 2)
        (z,), (scale, base) = types.inputs, types.params
        n = self.streams
        require(z.axes[-1][1] == n * (n + 2) == base.size, self, f"{z.axes}, base {base.axes}")
        require(scale.size == 3, self, f"needs 3 scales, got {scale.axes}")
        row, to = ("streams", n), ("streams_out", n)
        tokens = z.axes[0]
        return (
            TensorType((tokens, row), FP32),
            TensorType((tokens, row), FP32),
            TensorType((tokens, row, to), FP32),
        )

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Sigmoid gates, softmax rows, Sinkhorn."""
        z, scale, base = arrays
        n = self.streams
        pre = sigmoid(z[:, :n] * scale[0] + base[:n]) + self.eps
        post = 2.0 * sigmoid(z[:, n : 2 * n] * scale[1] + base[n : 2 * n])
        mix = (z[:, 2 * n :] * scale[2] + base[2 * n :]).reshape(-1, n, n)
        mix = np.exp(mix - mix.max(axis=-1, keepdims=True))
        mix = mix / mix.sum(axis=-1, keepdims=True) + self.eps
        return pre, post, sinkhorn(mix, self.iterations, self.eps)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Two operations an element and normalisations of M, each a sum and a product an element.

        n (n+2) exponentials; reciprocals: one a sigmoid (2 n), n a normalisation.
        """
        tokens, n = types.inputs[0].axes[0][1], self.streams
        normalisations = 2 * self.iterations
        return Work(
            vector_ops=tokens * (2 * n * (n + 2) + normalisations * 2 * n * n),
            special_ops=tokens * (n * (n + 2) + 2 * n + normalisations * n),
            input_bytes=total_bytes(types.inputs),
            param_bytes=total_bytes(types.params),
            output_bytes=total_bytes(types.outputs),
        )


@dataclass(frozen=True, slots=True)
class HcHeadGate(Op):
    """z [tokens, n] to the weights of the streams before the output head."""

    eps: float

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[tokens, n] fp32."""
        require_arity(self, types, 1, 2)
        (z,), (scale, base) = types.inputs, types.params
        require(z.axes[-1] == base.axes[-1] and scale.size == 1, self, f"{z.axes}, {base.axes}")
        return (TensorType(z.axes, FP32),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Sigmoid gate."""
        z, scale, base = arrays
        return (sigmoid(z * scale[0] + base) + self.eps,)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Three operations, an exponential and a reciprocal an element."""
        size = types.outputs[0].size
        return Work(
            vector_ops=3 * size,
            special_ops=2 * size,
            input_bytes=total_bytes(types.inputs),
            param_bytes=total_bytes(types.params),
            output_bytes=total_bytes(types.outputs),
        )


@dataclass(frozen=True, slots=True)
class HcCollapse(Op):
    """Sum over streams of pre[i] X[i]: the block's input."""

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[tokens, hidden]."""
        require_arity(self, types, 2, 0)
        x, pre = types.inputs
        require(len(x.axes) == 3 and pre.shape == x.shape[:2], self, f"{x.axes} and {pre.axes}")
        return (TensorType((x.axes[0], x.axes[2]), BF16),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Weighted sum of the streams."""
        x, pre = arrays
        return (np.einsum("tsd,ts->td", x, pre),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """A product and a sum an element of the streams."""
        return Work(
            vector_ops=2 * types.inputs[0].size,
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
        )


@dataclass(frozen=True, slots=True)
class HcExpand(Op):
    """X'[k] = post[k] y + sum over j of M[j, k] X[j]."""

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Streams again."""
        require_arity(self, types, 4, 0)
        y, x, post, mix = types.inputs
        require(
            len(x.axes) == 3
            and y.axes == (x.axes[0], x.axes[2])
            and post.axes == x.axes[:2] == mix.axes[:2]
            and mix.shape[2:] == x.shape[1:2],
            self,
            f"{y.axes}, {x.axes}, {post.axes}, {mix.axes}",
        )
        return (x,)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Mix the streams and add the block's output."""
        y, x, post, mix = arrays
        mixed = np.einsum("tjk,tjd->tkd", mix, x)
        return (post[:, :, None] * y[:, None, :] + mixed,)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """2 n hidden for the output and 2 n n hidden for the mix, a token."""
        _, x, _, _ = types.inputs
        return Work(
            vector_ops=2 * x.size * (1 + x.axes[1][1]),
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
        )
