"""An operation: a value, a shape rule and a demand. One without all three cannot be built.

An operation knows no device, no neighbour and no order. Its operands arrive in the order in which
the node names them: inputs, then parameters; cache regions come through the context.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workloads.run_stats import RunStats
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work

if TYPE_CHECKING:
    from workloads.batch import Batch

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Types:
    """Types of a node's operands; `outputs` is empty while they are being inferred."""

    inputs: tuple[TensorType, ...]
    params: tuple[TensorType, ...] = ()
    outputs: tuple[TensorType, ...] = ()


class CacheRegion(Protocol):
    """A cache region as an operation sees it: entries of one request by logical index."""

    def read(self, request: int, entries: Array) -> Array:
        """Values [len(entries), dim] of the entries at logical indices (positions in a ring)."""
        ...

    def write(self, request: int, entries: Array, values: Array) -> None:
        """Store values [len(entries), dim] at logical indices."""
        ...

    def rounded(self, values: Array) -> Array:
        """Values as they would read back after a write."""
        ...


class Choices(Protocol):
    """Discrete choices of a run: recorded, or taken over from an earlier run."""

    def choose(self, path: str, kind: str, own: Array, scores: Sequence[Array]) -> Array:
        """Ids to use where the operation chose `own` on `scores`."""
        ...


@dataclass(frozen=True, slots=True)
class EvalContext:
    """What evaluation needs beside arrays: the packed batch, this node's regions, the choices.

    `shard` maps a sharded axis to this rank's part of it. `peers` is set when the ranks of a
    sharded graph run side by side: peers[r] are the operands of this node on rank r,
    peer_batches[d] the batch of data rank d.
    """

    batch: Batch
    regions: tuple[CacheRegion, ...]
    choices: Choices
    path: str
    dtype: np.dtype[Any]
    shard: Mapping[str, int] = field(default_factory=dict)
    peers: tuple[tuple[Array, ...], ...] = ()
    peer_batches: tuple[Batch, ...] = ()
    rank: int = 0

    def rank_index(self, axis: str) -> int:
        """Index of this rank's part of a sharded axis; 0 when it is not sharded."""
        return self.shard.get(axis, 0)


class Op(ABC):
    """Base of all operations; subclasses are frozen dataclasses of their attributes."""

    __slots__ = ()

    @abstractmethod
    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        """Output types; raises `ValueError` naming the axes when the operands do not fit."""

    @abstractmethod
    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        """Output values of input and parameter values."""

    @abstractmethod
    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        """Demand, with `types.outputs` filled in."""

    def contracted_axes(self, types: Types) -> frozenset[str]:
        """Named axes summed over: when one is sharded, the output is a partial sum."""
        return frozenset()


def require(condition: bool, op: Op, message: str) -> None:
    """Raise `ValueError` with the operation's name unless the operands fit."""
    if not condition:
        raise ValueError(f"{type(op).__name__}: {message}")


def require_arity(op: Op, types: Types, inputs: int, params: int) -> None:
    """Check the number of operands."""
    require(
        len(types.inputs) == inputs and len(types.params) == params,
        op,
        f"needs {inputs} inputs and {params} parameters, "
        f"got {len(types.inputs)} and {len(types.params)}",
    )
