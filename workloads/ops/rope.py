"""Rotary position embedding on the last dims, interleaved pairs, with optional YaRN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from workloads.op import Array, EvalContext, Op, Types, require, require_arity
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work, total_bytes


@dataclass(frozen=True, slots=True)
class RotaryTable:
    """Frequencies theta^(-2i/dims), ramped by YaRN when `factor` > 1 (no attention factor)."""

    dims: int
    theta: float
    factor: float = 1.0
    original_positions: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0

    def frequencies(self) -> Array:
        """[dims / 2] radians a position, in float64."""
        return _frequencies(self)


@cache
def _frequencies(table: RotaryTable) -> Array:
    exponents = np.arange(0, table.dims, 2, dtype=np.float64) / table.dims
    plain = table.theta**-exponents
    if table.factor == 1.0:
        return plain

    def correction_dim(rotations: float) -> float:
        turns = table.original_positions / (rotations * 2 * math.pi)
        return table.dims * math.log(turns) / (2 * math.log(table.theta))

    low = max(math.floor(correction_dim(table.beta_fast)), 0)
    high = min(math.ceil(correction_dim(table.beta_slow)), table.dims - 1)
    ramp = (np.arange(table.dims // 2) - low) / max(high - low, 0.001)
    keep = 1.0 - np.clip(ramp, 0.0, 1.0)
    return plain / table.factor * (1.0 - keep) + plain * keep


@dataclass(frozen=True, slots=True)
class Rope(Op):
    """Rotate the last `table.dims` dims by position; `inverse` undoes it.

    `ratio` 0 takes the positions of the packed rows; a ratio m takes those of the compressed
    entries that the step emits (m times the entry's index).
    """

    table: RotaryTable
    inverse: bool = False
    ratio: int = 0

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Same type as the input."""
        require_arity(self, types, 1, 0)
        (x,) = types.inputs
        require(
            x.axes[-1][1] >= self.table.dims and self.table.dims % 2 == 0,
            self,
            f"{self.table.dims} rotary dims against axis {x.axes[-1]}",
        )
        rows = step.emitted(self.ratio) if self.ratio else step.tokens
        require(x.shape[0] == rows, self, f"positions of {rows} rows, {x.axes}")
        return (x,)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Angles in float64, rotation in the dtype of the values."""
        (x,) = arrays
        batch = context.batch
        positions = batch.entry_positions(self.ratio) if self.ratio else batch.positions
        angles = positions[:, None] * self.table.frequencies()
        shape = (len(x),) + (1,) * (x.ndim - 2) + (self.table.dims // 2,)
        cos = np.cos(angles).reshape(shape).astype(x.dtype)
        sin = np.sin(angles).reshape(shape).astype(x.dtype)
        if self.inverse:
            sin = -sin
        out = x.copy()
        even = x[..., -self.table.dims :: 2]
        odd = x[..., x.shape[-1] - self.table.dims + 1 :: 2]
        out[..., -self.table.dims :: 2] = even * cos - odd * sin
        out[..., x.shape[-1] - self.table.dims + 1 :: 2] = even * sin + odd * cos
        return (out,)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Six operations a rotated pair; sine and cosine once a row and pair."""
        (x,) = types.inputs
        vectors = x.size // x.axes[-1][1] if x.axes[-1][1] else 0
        return Work(
            vector_ops=vectors * self.table.dims * 3,
            special_ops=x.axes[0][1] * self.table.dims,
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
        )
