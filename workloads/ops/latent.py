"""Operations of DeepSeek-V3.2 that V4 has not: attention over latents, its norm and its routing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.dtype import BF16, FP32, INT32
from workloads.op import Array, EvalContext, Op, Types, require, require_arity
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Read, Work, total_bytes


@dataclass(frozen=True, slots=True)
class LatentAttention(Op):
    """Heads over picked rows that all of them share, in absorbed form.

    q [tokens, heads, latent] and q_rope [tokens, heads, rope] against rows of latent and rope
    values; the values summed up are the latents: [tokens, heads, latent]. ids [tokens, picks].
    """

    top_k: int
    scale: float

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[tokens, heads, latent]."""
        require_arity(self, types, 3, 0)
        q, rope, ids = types.inputs
        require(
            q.axes[:2] == rope.axes[:2] and ids.shape == (step.tokens, self.top_k),
            self,
            f"{q.axes}, {rope.axes} and ids {ids.axes}",
        )
        return (TensorType(q.axes, BF16),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Query by query."""
        q, rope, ids = arrays
        both, out = np.concatenate([q, rope], axis=2), np.empty_like(q)
        for request, span, past in context.batch.rows():
            length = past + span.stop - span.start
            rows = context.regions[0].read(request, np.arange(length)).astype(q.dtype)
            for t in range(span.start, span.stop):
                keys = rows[ids[t][ids[t] >= 0]]
                scores = both[t] @ keys.T * self.scale
                weights = np.exp(scores - scores.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
                out[t] = weights @ keys[:, : q.shape[2]]
        return (out,)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """latent + rope multiply-adds a head and pair for scores, latent ones for the sum."""
        q, rope, _ = types.inputs
        heads, latent = q.axes[1][1], q.axes[2][1]
        pairs = step.picked_pairs(1, self.top_k)

        def distinct(new: int, past: int) -> float:
            visible = past + new
            return stats.distinct_picks(visible, min(visible, self.top_k), new)

        return Work(
            macs={"bf16": (2 * latent + rope.axes[2][1]) * heads * pairs},
            vector_ops=4 * heads * pairs + q.size,
            special_ops=heads * pairs + heads * q.axes[0][1],
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
            reads=(
                Read(
                    region=0,
                    entries=pairs,
                    distinct=step.ordered_total(distinct),
                    pattern="gather",
                ),
            ),
        )


@dataclass(frozen=True, slots=True)
class Concat(Op):
    """Values side by side along their last axis."""

    axis: str

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[..., sum of the last axes]."""
        require_arity(self, types, 2, 0)
        a, b = types.inputs
        require(a.axes[:-1] == b.axes[:-1], self, f"{a.axes} and {b.axes}")
        size = a.axes[-1][1] + b.axes[-1][1]
        return (TensorType((*a.axes[:-1], (self.axis, size)), a.dtype),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Join."""
        return (np.concatenate(arrays, axis=-1),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Read once, written once."""
        return Work(input_bytes=total_bytes(types.inputs), output_bytes=total_bytes(types.outputs))


@dataclass(frozen=True, slots=True)
class LayerNorm(Op):
    """(x - mean) / sqrt(variance + eps) over the last axis, times a weight, plus a bias."""

    eps: float

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Type of the input."""
        require_arity(self, types, 1, 2)
        (x,) = types.inputs
        require(all(p.axes == x.axes[-1:] for p in types.params), self, f"{x.axes}")
        return (x,)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Row by row."""
        x, weight, bias = arrays
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.eps)
        return (centred / spread * weight + bias,)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Six operations a value, a root and a reciprocal a row."""
        (x,) = types.inputs
        return Work(
            vector_ops=6 * x.size,
            special_ops=2 * x.axes[0][1],
            input_bytes=total_bytes(types.inputs),
            param_bytes=total_bytes(types.params),
            output_bytes=total_bytes(types.outputs),
        )


@dataclass(frozen=True, slots=True)
class GroupedRoute(Op):
    """Gate logits to expert ids and weights, in two rounds: groups of experts, then experts.

    score = sigmoid(logit). A group counts by its two best scores with bias; the best `kept` groups
    stay, and of their experts the best `per_token`. Weights: the scores without bias, over their
    sum, times `scale`.
    """

    per_token: int
    scale: float
    groups: int
    kept: int

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """ids int32 and weights fp32, [tokens, slots]."""
        require_arity(self, types, 1, 1)
        logits, bias = types.inputs[0], types.params[0]
        require(bias.axes == logits.axes[1:], self, f"{logits.axes} and {bias.axes}")
        require(logits.shape[1] % self.groups == 0, self, f"{self.groups} groups, {logits.axes}")
        axes = (logits.axes[0], ("slots", self.per_token))
        return TensorType(axes, INT32), TensorType(axes, FP32)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Ties take the lowest id."""
        logits, bias = arrays
        scores = np.exp(-np.logaddexp(0.0, -logits))
        selection = scores + bias
        grouped = selection.reshape(len(logits), self.groups, -1)
        worth = np.sort(grouped, axis=2)[:, :, -2:].sum(axis=2)
        best = np.argsort(-worth, axis=1, kind="stable")[:, : self.kept]
        allowed = np.zeros(worth.shape, dtype=bool)
        np.put_along_axis(allowed, best, True, axis=1)
        inside = np.repeat(allowed, grouped.shape[2], axis=1)
        masked = np.where(inside, selection, -np.inf)
        ids = np.argsort(-masked, axis=1, kind="stable")[:, : self.per_token]
        ids = context.choices.choose(context.path, "experts", ids, list(masked))
        chosen = np.take_along_axis(scores, ids, axis=1)
        return ids, chosen / (chosen.sum(axis=1, keepdims=True) + 1e-20) * self.scale

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """An exponential and a reciprocal a logit; a pass for each choice."""
        logits = types.inputs[0]
        return Work(
            vector_ops=logits.size * (3 + self.per_token),
            special_ops=2 * logits.size,
            input_bytes=total_bytes(types.inputs),
            param_bytes=total_bytes(types.params),
            output_bytes=total_bytes(types.outputs),
        )
