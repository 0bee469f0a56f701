"""Mixture of experts: routing by score or by token id, and the routed experts' two products.

The slots of a token are its chosen experts. Rows of the expert products are the (token, slot)
pairs whose expert is held here, in packed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.dtype import BF16, FP32, INT32
from workloads.op import Array, EvalContext, Op, Types, require, require_arity
from workloads.run_stats import RunStats, alone_tokens
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work, total_bytes


@dataclass(frozen=True, slots=True)
class Route(Op):
    """Gate logits [tokens, experts] to expert ids and weights [tokens, slots].

    score = sqrt(softplus(logit)). Ids: the best scores plus a bias that only selects, or
    tid2eid[token] in a hash layer. Weights: the chosen scores (over their sum if `normalise`),
    times `scale`.
    """

    per_token: int
    scale: float
    hashed: bool = False
    normalise: bool = True

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """ids int32 and weights fp32, [tokens, slots]."""
        require_arity(self, types, 2 if self.hashed else 1, 1)
        logits, (last,) = types.inputs[0], types.params
        if self.hashed:
            fits = types.inputs[1].axes == logits.axes[:1] and last.shape[1:] == (self.per_token,)
        else:
            fits = last.axes == logits.axes[1:]
        require(fits, self, f"{[t.axes for t in types.inputs]} and {last.axes}")
        axes = (types.inputs[0].axes[0], ("slots", self.per_token))
        return TensorType(axes, INT32), TensorType(axes, FP32)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Ties take the lowest id; ids are in descending order of score."""
        logits, last = arrays[0], arrays[-1]
        scores = np.sqrt(np.logaddexp(0.0, logits))
        if self.hashed:
            ids = last[arrays[1]]
        else:
            selection = scores + last
            ids = np.argsort(-selection, axis=1, kind="stable")[:, : self.per_token]
            ids = context.choices.choose(context.path, "experts", ids, list(selection))
        chosen = np.take_along_axis(scores, ids, axis=1)
        if self.normalise:
            chosen = chosen / (chosen.sum(axis=1, keepdims=True) + 1e-20)
        return ids, chosen * self.scale

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Exponential, logarithm and root a logit; bias and per_token passes where it selects."""
        logits = types.inputs[0]
        (last,) = types.params
        picked = types.outputs[0].size * last.dtype.bits // 8  # a row of tid2eid a token
        return Work(
            vector_ops=0 if self.hashed else logits.size * (1 + self.per_token),
            special_ops=3 * logits.size,
            input_bytes=total_bytes(types.inputs),
            param_bytes=(picked if self.hashed else last.nbytes,),
            output_bytes=total_bytes(types.outputs),
        )


def _local_slots(ids: Array, held: int, context: EvalContext) -> tuple[Array, Array]:
    """(flat slot indices whose expert is held here, their local expert ids)."""
    local = ids.reshape(-1) - context.rank_index("experts") * held
    slots = np.flatnonzero((local >= 0) & (local < held))
    return slots, local[slots]


@dataclass(frozen=True, slots=True)
class ExpertUp(Op):
    """Gate and up products of the routed experts: [rows, gate_up, ffn].

    Assumes: rows are spread evenly over the ranks that share the experts.
    """

    experts: int
    math: str

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Rows are the slots of the share of experts held here."""
        require_arity(self, types, 2, 1)
        x, ids = types.inputs
        (weight,) = types.params
        require(
            len(weight.axes) == 4
            and weight.column_axes == x.axes[-1:]
            and ids.axes[0] == x.axes[0],
            self,
            f"{x.axes}, ids {ids.axes} and {weight.axes}",
        )
        rows = _held_rows(ids, weight, self.experts)
        return (TensorType((("rows", rows), *weight.axes[1:3]), BF16),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Expert by expert."""
        x, ids, weight = arrays
        slots, local = _local_slots(ids, len(weight), context)
        out = np.empty((len(slots), *weight.shape[1:3]), dtype=x.dtype)
        for expert in np.unique(local):
            rows = np.flatnonzero(local == expert)
            tokens = slots[rows] // ids.shape[1]
            flat = weight[expert].reshape(-1, weight.shape[-1])
            out[rows] = (x[tokens] @ flat.T).reshape(len(rows), *weight.shape[1:3])
        return (out,)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """rows x 2 ffn x hidden multiply-adds; weights of the distinct experts touched."""
        x, ids = types.inputs
        (weight,), (out,) = types.params, types.outputs
        return Work(
            macs={self.math: out.size * weight.axes[3][1]},
            input_bytes=(x.nbytes, ids.nbytes),
            param_bytes=(_touched_bytes(weight, ids, self.experts, step, stats),),
            output_bytes=total_bytes(types.outputs),
        )

    def contracted_axes(self, types: Types) -> frozenset[str]:
        """The hidden axis, which is never sharded."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class ExpertDown(Op):
    """Down product, weighted and summed over the slots of each token: [tokens, hidden]."""

    experts: int
    math: str

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """One row a token."""
        require_arity(self, types, 3, 1)
        h, ids, weights = types.inputs
        (weight,) = types.params
        require(
            h.axes == (("rows", _held_rows(ids, weight, self.experts)), *weight.column_axes)
            and weights.axes == ids.axes,
            self,
            f"{h.axes}, ids {ids.axes}, weights {weights.axes} and {weight.axes}",
        )
        return (TensorType((ids.axes[0], weight.axes[1]), BF16),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Expert by expert; the slots of a token are summed in slot order."""
        h, ids, weights, down = arrays
        slots, local = _local_slots(ids, len(down), context)
        out = np.zeros((ids.size, down.shape[1]), dtype=h.dtype)
        for expert in np.unique(local):
            rows = np.flatnonzero(local == expert)
            out[slots[rows]] = h[rows] @ down[expert].T
        weighted = out * weights.reshape(-1, 1)
        return (weighted.reshape(*ids.shape, -1).sum(axis=1),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """rows x ffn x hidden multiply-adds; weighting and summing each row."""
        h, ids, weights = types.inputs
        (down,) = types.params
        hidden = down.axes[1][1]
        return Work(
            macs={self.math: h.size * hidden},
            vector_ops=2 * h.axes[0][1] * hidden,
            input_bytes=(h.nbytes, ids.nbytes, weights.nbytes),
            param_bytes=(_touched_bytes(down, ids, self.experts, step, stats),),
            output_bytes=total_bytes(types.outputs),
        )

    def contracted_axes(self, types: Types) -> frozenset[str]:
        """The experts' inner axis; experts held elsewhere are missing from the sum too."""
        return frozenset({"ffn", "experts"})


def _held_rows(ids: TensorType, weight: TensorType, experts: int) -> int:
    """Slots of the share of experts held here."""
    return -(-ids.size * weight.axes[0][1] // experts)


def _touched_bytes(
    weight: TensorType, ids: TensorType, experts: int, step: StepShape, stats: RunStats
) -> int:
    """Packed bytes of the experts that the tokens touch, of those held here."""
    tokens, per_token = ids.shape
    held = weight.axes[0][1]
    alone = alone_tokens(step, tokens)
    touched = stats.expected_experts(experts, per_token, tokens, alone) * held / experts
    return round(touched * weight.nbytes / held)
