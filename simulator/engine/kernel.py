"""A kernel: what an engine launches for a group of fused nodes, as demands on a machine's parts.

`Demand` holds everything that decides the cost and nothing else, so equal kernels of different
layers compare equal and are priced once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from simulator.engine.cache_runs import CacheRuns
from simulator.engine.sizes import Row


class Shape(Enum):
    """How a product's work is cut into tiles."""

    MATRIX = "matrix"
    ATTENTION = "attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One matrix product of a kernel: `count` products of [rows, depth] by [depth, columns].

    MATRIX: rows are activations, columns and depth those of the weight; `count` groups or experts.
    ATTENTION: `count` queries; rows are heads, columns the average visible keys of a query, depth
    the multiply-adds a (head, key) pair. `macs` is exact, the dimensions may be averages.
    `weight_elements` are the values of weights, or of fetched index keys, that a chip without
    units for their format converts.
    `partial_columns` are the values a row that parts of a split product leave to be added up.
    `weight_bytes` are stored ones; products with the same `operand` multiply the same activations.
    """

    shape: Shape
    math: str
    count: float
    rows: float
    columns: float
    depth: float
    macs: int
    weight_elements: float = 0.0
    partial_columns: float = 0.0
    weight_bytes: float = 0.0
    operand: int = 0


@dataclass(frozen=True, slots=True)
class Operand:
    """A dense value that crosses the kernel's border.

    `reuse_bytes` is the footprint between its write and its (last) use: its own bytes and what the
    kernels in between move. None: it comes from, or stays for, outside of the step.
    """

    nbytes: int
    reuse_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCall:
    """How an engine's kernel is priced: its name in the profile, its program, sizes of its calls.

    `rows` has the named sizes that the program reads off nodes, one row a call; programs that go
    by products and bytes alone have none. `decode` is the phase of the step, `tokens` and
    `requests` are those that it has on the rank.
    """

    kernel: str
    program: str
    rows: tuple[Row, ...] = ()
    decode: bool = True
    tokens: int = 1
    requests: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a kernel asks of a machine; hashable.

    Without `priced_as` tiles price it at the peak of every unit. `cache_read_bytes` counts distinct
    entries, `cache_touch_bytes` every fetch by a block of queries; `cache_runs` divide reads and
    writes by pattern (none: all in long runs); `row_padding_bytes` of the reads are no rows but lie
    between or around them. A collective joins `link_ranks` ranks out of `link_span` consecutive
    ones.
    """

    family: str
    priced_as: ProgramCall | None = None
    products: tuple[Product, ...] = ()
    vector_ops: int = 0
    special_ops: int = 0
    inputs: tuple[Operand, ...] = ()
    outputs: tuple[Operand, ...] = ()
    weight_bytes: int = 0
    cache_read_bytes: int = 0
    cache_touch_bytes: int = 0
    cache_write_bytes: int = 0
    cache_runs: tuple[CacheRuns, ...] = ()
    row_padding_bytes: int = 0
    link_bytes: int = 0
    link_phases: int = 0
    link_ranks: int = 1
    link_span: int = 1

    @property
    def activation_bytes(self) -> int:
        """Dense inputs and outputs."""
        return sum(o.nbytes for o in self.inputs) + sum(o.nbytes for o in self.outputs)

    @property
    def flops(self) -> dict[str, int]:
        """Matrix FLOP by math class: two a multiply-add."""
        flops: dict[str, int] = {}
        for product in self.products:
            flops[product.math] = flops.get(product.math, 0) + 2 * product.macs
        return flops

    @property
    def moved_bytes(self) -> int:
        """Bytes that pass through the memory system, each counted once."""
        return (
            self.activation_bytes
            + self.weight_bytes
            + self.cache_read_bytes
            + self.cache_write_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One launch. `after` are positions, within the kernels of its scope, that it waits for.

    Kernels with a `stage` belong to an attention module.
    """

    name: str
    scope: str
    kind: str
    stream: int
    after: tuple[int, ...]
    nodes: tuple[str, ...]
    demand: Demand
    stage: int = 0

    @property
    def path(self) -> str:
        """scope/name."""
        return f"{self.scope}/{self.name}"

    @property
    def signature(self) -> tuple[Demand, int, tuple[int, ...]]:
        """Everything that decides cost and overlap; no path."""
        return (self.demand, self.stream, self.after)
