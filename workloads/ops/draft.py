"""Operations of a DSpark draft head: taps of the backbone, drafted tokens, and their confidence.

Source: facts on the head from the released code: SGLang 0.5.23 `deepseek_v4_dspark.py`, and the
DSpark paper of deepseek-ai/DeepSpec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.dtype import BF16, FP32, INT32
from workloads.op import Array, EvalContext, Op, Types, require, require_arity
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work, total_bytes


@dataclass(frozen=True, slots=True)
class StreamMeans(Op):
    """Residual streams [tokens, streams, hidden] of some layers, each averaged, side by side."""

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[tokens, taps, hidden]."""
        require(bool(types.inputs) and not types.params, self, "needs streams of layers")
        first = types.inputs[0]
        same = all(t.axes == first.axes for t in types.inputs)
        require(len(first.axes) == 3 and same, self, f"{[t.axes for t in types.inputs]}")
        axes = (first.axes[0], ("taps", len(types.inputs)), first.axes[2])
        return (TensorType(axes, BF16),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Mean over the streams."""
        return (np.stack([x.mean(axis=1) for x in arrays], axis=1),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """One operation a value read."""
        return Work(
            vector_ops=sum(t.size for t in types.inputs),
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
        )


@dataclass(frozen=True, slots=True)
class DraftTokens(Op):
    """Drafts of a block, one after the other: each row's logits plus a bias of the token before.

    Inputs: logits [tokens, vocab] and the block's ids [tokens], of which the first of a request is
    its last committed token. Parameters: w1 and w2 [vocab, rank]; bias = w2 w1[previous].
    Outputs: drafts [tokens] (greedy; ties go to the lowest id), biased logits, w1[previous].

    Assumes: every rank of a tensor group has w1 and w2 whole, and drafts from gathered logits.
    Assumes: w2 is read anew for each position of a block, as the positions wait for each other.
    """

    block: int

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """ids int32 [tokens], logits fp32, rows [tokens, rank]."""
        require_arity(self, types, 2, 2)
        (logits, ids), (w1, w2) = types.inputs, types.params
        require(
            logits.axes[:1] == ids.axes and w1.axes == w2.axes and w1.shape[0] == logits.shape[1],
            self,
            f"{logits.axes}, ids {ids.axes}, {w1.axes} and {w2.axes}",
        )
        whole = all(new == self.block for new, _ in step.requests)
        require(whole, self, f"every request has a block of {self.block} tokens: {step.requests}")
        rows = TensorType((ids.axes[0], w1.axes[1]), BF16)
        return TensorType(ids.axes, INT32), TensorType(logits.axes, FP32), rows

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Position after position; requests side by side."""
        logits, ids, w1, w2 = arrays
        first = context.batch.boundaries[:-1]
        drafts, biased = np.empty_like(ids), np.empty_like(logits)
        rows = np.empty((len(ids), w1.shape[1]), dtype=w1.dtype)
        previous = ids[first]
        for i in range(self.block):
            rows[first + i] = w1[previous]
            biased[first + i] = logits[first + i] + w1[previous] @ w2.T
            previous = biased[first + i].argmax(axis=1)
            drafts[first + i] = previous
        return drafts, biased, rows

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """tokens x vocab x rank multiply-adds; bias and choice an operation each a logit."""
        (logits, ids), (w1, w2) = types.inputs, types.params
        _, rank = w1.shape
        gathered = ids.size * rank * w1.dtype.bits // 8
        return Work(
            macs={w2.dtype.math: logits.size * rank},
            vector_ops=2 * logits.size,
            input_bytes=total_bytes(types.inputs),
            param_bytes=(gathered, self.block * w2.nbytes),
            output_bytes=total_bytes(types.outputs),
        )


@dataclass(frozen=True, slots=True)
class Confidence(Op):
    """Chance that each draft is accepted if those before it are: sigmoid(w . [hidden, rows])."""

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """[tokens]."""
        require(len(types.inputs) in (1, 2) and len(types.params) == 1, self, "1 or 2 inputs")
        width = sum(t.shape[-1] for t in types.inputs)
        require(types.params[0].shape == (1, width), self, f"{types.params[0].axes}, {width} wide")
        return (TensorType(types.inputs[0].axes[:1], FP32),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Linear, then a sigmoid."""
        z = np.concatenate(arrays[:-1], axis=1) @ arrays[-1][0]
        return (np.exp(-np.logaddexp(0, -z)),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """One multiply-add a value on the vector units; an exponential and a reciprocal a token."""
        return Work(
            vector_ops=2 * sum(t.size for t in types.inputs),
            special_ops=2 * types.outputs[0].size,
            input_bytes=total_bytes(types.inputs),
            param_bytes=total_bytes(types.params),
            output_bytes=total_bytes(types.outputs),
        )
