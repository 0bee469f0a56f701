"""What a test needs to run one operation by hand: types, a batch, a cache region, choices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from workloads.batch import Batch, pack
from workloads.dtype import BF16, FP32, INT32, DType
from workloads.op import Array, CacheRegion, EvalContext, Op, Types
from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import Axis, TensorType
from workloads.work import Work

# 6 tokens from nothing, 3 after 3, 1 after 130: 10 rows, at positions 0..5, 3..5 and 130.
RAGGED = StepShape(((6, 0), (3, 3), (1, 130)))
RAGGED_POSITIONS = (0, 1, 2, 3, 4, 5, 3, 4, 5, 130)
# Two requests that each decode position 130: 2 rows.
UNIFORM = StepShape.uniform(2, 1, 130)


def bf16(*axes: Axis) -> TensorType:
    return TensorType(axes, BF16)


def fp32(*axes: Axis) -> TensorType:
    return TensorType(axes, FP32)


def int32(*axes: Axis) -> TensorType:
    return TensorType(axes, INT32)


def matrix(dtype: DType, *axes: Axis, inner: int = 1, lead: int = 0) -> TensorType:
    return TensorType(axes, dtype, inner, lead)


def infer(
    op: Op, inputs: Sequence[TensorType], params: Sequence[TensorType] = (), step=RAGGED
) -> tuple[TensorType, ...]:
    return op.infer(Types(tuple(inputs), tuple(params)), step)


def demand(
    op: Op,
    inputs: Sequence[TensorType],
    params: Sequence[TensorType] = (),
    step: StepShape = RAGGED,
    stats: RunStats | None = None,
) -> Work:
    outputs = infer(op, inputs, params, step)
    return op.work(Types(tuple(inputs), tuple(params), outputs), step, stats or RunStats())


def refuses(
    op: Op,
    inputs: Sequence[TensorType],
    params: Sequence[TensorType] = (),
    *,
    step: StepShape = RAGGED,
    naming: Sequence[str] = (),
) -> None:
    """The operands are refused in a sentence with the operation's name and the given words."""
    with pytest.raises(ValueError) as caught:
        infer(op, inputs, params, step)
    for word in (type(op).__name__, *naming):
        assert word in str(caught.value)


class Cells:
    """A cache region of plain numbers: (request, entry) to vector; `rounded` halves the values."""

    def __init__(
        self, values: dict[tuple[int, int], Sequence[float]] | None = None, dim: int = 1
    ) -> None:
        self.dim = dim
        self.values = {key: np.array(v, dtype=float) for key, v in (values or {}).items()}

    def read(self, request: int, entries: Array) -> Array:
        if not len(entries):
            return np.zeros((0, self.dim))
        return np.stack([self.values[request, int(entry)] for entry in entries])

    def write(self, request: int, entries: Array, values: Array) -> None:
        for entry, value in zip(entries, values, strict=True):
            self.values[request, int(entry)] = np.array(value, dtype=float)

    def rounded(self, values: Array) -> Array:
        return values / 2


class OwnChoices:
    """Takes every operation's own choice, and remembers that it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def choose(self, path: str, kind: str, own: Array, scores: Sequence[Array]) -> Array:
        self.asked.append((path, kind))
        return own


def batch_of(step: StepShape, first_id: int = 0) -> Batch:
    """A batch of that step whose token ids count up."""
    requests, at = [], first_id
    for new, past in step.requests:
        requests.append((list(range(at, at + new)), past))
        at += new
    return pack(requests)


def run(
    op: Op,
    arrays: Sequence[Array],
    step: StepShape = RAGGED,
    regions: Sequence[CacheRegion] = (),
    choices: OwnChoices | None = None,
    **more,
) -> tuple[Array, ...]:
    """Evaluate on a batch of that step."""
    batch = more.pop("batch", None) or batch_of(step)
    context = EvalContext(
        batch, tuple(regions), choices or OwnChoices(), "path", np.dtype(np.float64), **more
    )
    return op.evaluate([np.asarray(a) for a in arrays], context)
