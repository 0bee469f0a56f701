"""Rounding to the cache's format, and writes into window rings and append-only pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.op import Array, EvalContext, Op, Types, require, require_arity
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Append, Work, total_bytes


@dataclass(frozen=True, slots=True)
class RoundToCache(Op):
    """Values as they will read back from the region (rotated first where its format rotates).

    `hadamard` is the length of the rotation that the format applies, 0 for none.
    """

    hadamard: int = 0

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Same type."""
        require_arity(self, types, 1, 0)
        (x,) = types.inputs
        fits = not self.hadamard or x.shape[-1] % self.hadamard == 0
        require(fits, self, f"a rotation of length {self.hadamard} on {x.axes}")
        return (x,)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Round every vector of the last axis."""
        (x,) = arrays
        (region,) = context.regions
        return (region.rounded(x.reshape(-1, x.shape[-1])).reshape(x.shape),)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Magnitude, maximum, scale, convert; log2 of the length additions for the rotation."""
        size = types.outputs[0].size
        stages = max(self.hadamard - 1, 0).bit_length()
        return Work(
            vector_ops=(4 + stages) * size,
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
        )


@dataclass(frozen=True, slots=True)
class WriteWindow(Op):
    """Put the last `window` rows of each request's chunk into its ring, after it has been read.

    `whole` writes all rows of the chunk, into a paged window and before it is read.
    """

    window: int
    whole: bool = False

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """No output."""
        require_arity(self, types, 1, 0)
        (kv,) = types.inputs
        require(kv.shape[0] == step.tokens, self, f"{step.tokens} tokens, {kv.axes}")
        return ()

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Write by position."""
        (kv,) = arrays
        (ring,) = context.regions
        for request, span, _ in context.batch.rows():
            first = span.start if self.whole else max(span.stop - self.window, span.start)
            kept = slice(first, span.stop)
            ring.write(request, context.batch.positions[kept], kv[kept])
        return ()

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """min(new, window) rows a request; all of a `whole` chunk."""
        rows = step.tokens if self.whole else step.window_written_rows(self.window)
        return Work(
            input_bytes=total_bytes(types.inputs),
            appends=(Append(region=0, entries=rows),),
        )


@dataclass(frozen=True, slots=True)
class AppendEntries(Op):
    """Append the completed entries [entries, dim] to their pool."""

    ratio: int

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """No output."""
        require_arity(self, types, 1, 0)
        (values,) = types.inputs
        emitted = step.emitted(self.ratio)
        require(values.shape[0] == emitted, self, f"{emitted} completed entries, {values.axes}")
        return ()

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Write by entry index."""
        (values,) = arrays
        (pool,) = context.regions
        for request, span, entries in context.batch.entry_rows(self.ratio):
            pool.write(request, np.arange(entries.start, entries.stop), values[span])
        return ()

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """One entry per `ratio` tokens."""
        return Work(
            input_bytes=total_bytes(types.inputs),
            appends=(Append(region=0, entries=step.emitted(self.ratio)),),
        )
