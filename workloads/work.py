"""Demand of one operation: neutral to hardware and to the cache layout.

Multiply-adds are counted by the number format in which they run (1 multiply-add = 2 FLOP).
Cache access is logical: `Read` and `Append` count entries of a region; an engine profile's
layout turns them into runs of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workloads.math_class import MATH_CLASSES
from workloads.tensor_type import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Entries of a cache region that an operation reads.

    `region` indexes the regions that the node declares. `entries` counts every touch by every
    query; `distinct` counts each entry once. `pattern` is `scan` (all visible entries in order),
    `gather` (picked ids) or `window` (the last rows of a ring).
    """

    region: int
    entries: int
    distinct: float
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Entries that an operation writes into a cache region."""

    region: int
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What an operation asks of any machine.

    `macs` by math class; `vector_ops` are elementwise operations, `special_ops` exponentials,
    roots, reciprocals and logarithms; the bytes are of dense operands in the node's order.
    `link_bytes` is what a collective sends from one rank, in `link_phases` dependent rounds.
    """

    macs: Mapping[str, int] = field(default_factory=dict)
    vector_ops: int = 0
    special_ops: int = 0
    input_bytes: tuple[int, ...] = ()
    param_bytes: tuple[int, ...] = ()
    output_bytes: tuple[int, ...] = ()
    reads: tuple[Read, ...] = ()
    appends: tuple[Append, ...] = ()
    link_bytes: int = 0
    link_phases: int = 0

    @property
    def flops(self) -> int:
        """Matrix FLOP: two a multiply-add."""
        return 2 * sum(self.macs.values())


def total_bytes(types: tuple[TensorType, ...]) -> tuple[int, ...]:
    """Packed bytes of each operand."""
    return tuple(t.nbytes for t in types)


# FP8-equivalent weights of one FLOP, by math class.
FLOP_WEIGHTS: dict[str, float] = {name: own.flop_weight for name, own in MATH_CLASSES.items()}
