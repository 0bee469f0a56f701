"""The operator graph: typed nodes with path names, parameters, and declared cache regions.

Built once for a step's shapes; every interpreter (evaluate, count, lower, address) walks the same
nodes in order. Types are inferred and checked when a node is inserted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from workloads.op import Op, Types
from workloads.run_stats import RunStats
from workloads.state_layout import Region, StateLayout
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work


@dataclass(frozen=True, slots=True)
class Node:
    """One operation with the names of its operands.

    `reads` and `updates` name cache regions; an updated region may also be read. The context
    presents them in that order.
    """

    path: str
    op: Op
    inputs: tuple[str, ...]
    params: tuple[str, ...]
    reads: tuple[str, ...]
    updates: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Types

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions in the order of the context."""
        return self.reads + self.updates

    @property
    def scope(self) -> str:
        """First part of the path: the layer."""
        return self.path.partition("/")[0]

    @property
    def local_path(self) -> str:
        """Path without the layer."""
        return self.path.partition("/")[2] or self.path


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in execution order.

    `kinds` maps a scope (layer) to its kind: embed, swa, csa, hca, mtp, head; layers of one kind
    with equal operations have the same cost.
    """

    step: StepShape
    nodes: tuple[Node, ...]
    params: dict[str, TensorType]
    regions: dict[str, Region]
    values: dict[str, TensorType]
    outputs: tuple[str, ...]
    kinds: dict[str, str]

    @property
    def state_layout(self) -> StateLayout:
        """All cache regions."""
        return StateLayout(tuple(self.regions.values()))

    @property
    def weight_bytes(self) -> int:
        """Packed bytes of all parameters."""
        return sum(t.nbytes for t in self.params.values())

    def scopes(self) -> Iterator[tuple[str, tuple[Node, ...]]]:
        """Layers in order, with their nodes."""
        start = 0
        for i in range(1, len(self.nodes) + 1):
            if i == len(self.nodes) or self.nodes[i].scope != self.nodes[start].scope:
                yield self.nodes[start].scope, self.nodes[start:i]
                start = i

    def work(self, node: Node, stats: RunStats) -> Work:
        """Demand of a node."""
        return node.op.work(node.types, self.step, stats)


@dataclass(slots=True)
class GraphBuilder:
    """Adds nodes one after the other; refuses unknown and twice-bound names."""

    step: StepShape
    nodes: list[Node] = field(default_factory=list)
    params: dict[str, TensorType] = field(default_factory=dict)
    regions: dict[str, Region] = field(default_factory=dict)
    values: dict[str, TensorType] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    _prefix: str = ""
    _paths: set[str] = field(default_factory=set)

    @contextmanager
    def scope(self, name: str, kind: str | None = None) -> Iterator[None]:
        """Prefix names with `name/`; `kind` is stated for the outermost scope, the layer."""
        before, self._prefix = self._prefix, f"{self._prefix}{name}/"
        if kind is not None:
            self.kinds[name] = kind
        try:
            yield
        finally:
            self._prefix = before

    def name(self, local: str) -> str:
        """Full name of something in the current scope."""
        return self._prefix + local

    def input(self, name: str, value_type: TensorType) -> str:
        """A value that the step is given (no scope)."""
        self._bind(self.values, name, value_type)
        return name

    def param(self, local: str, param_type: TensorType) -> str:
        """A parameter of the current scope."""
        name = self.name(local)
        self._bind(self.params, name, param_type)
        return name

    def region(self, local: str, region: Region) -> str:
        """A cache region of the current scope."""
        name = self.name(local)
        self._bind(self.regions, name, region)
        return name

    def add(
        self,
        local: str,
        op: Op,
        inputs: Sequence[str],
        params: Sequence[str] = (),
        reads: Sequence[str] = (),
        updates: Sequence[str] = (),
    ) -> tuple[str, ...]:
        """Insert a node and return the names of its outputs (`path`, `path:1`, ...)."""
        path = self.name(local)
        self._check_names(path, inputs, params, (*reads, *updates))
        types = Types(
            tuple(self.values[name] for name in inputs), tuple(self.params[n] for n in params)
        )
        try:
            inferred = op.infer(types, self.step)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        outputs = tuple(path if i == 0 else f"{path}:{i}" for i in range(len(inferred)))
        for output, output_type in zip(outputs, inferred, strict=True):
            self._bind(self.values, output, output_type)
        self._paths.add(path)
        self.nodes.append(
            Node(
                path,
                op,
                tuple(inputs),
                tuple(params),
                tuple(reads),
                tuple(updates),
                outputs,
                Types(types.inputs, types.params, inferred),
            )
        )
        return outputs

    def add1(
        self,
        local: str,
        op: Op,
        inputs: Sequence[str],
        params: Sequence[str] = (),
        reads: Sequence[str] = (),
        updates: Sequence[str] = (),
    ) -> str:
        """Insert a node with one output and return its name."""
        (output,) = self.add(local, op, inputs, params, reads, updates)
        return output

    def _check_names(
        self, path: str, inputs: Sequence[str], params: Sequence[str], regions: Sequence[str]
    ) -> None:
        if path in self._paths:
            raise ValueError(f"{path!r} is bound twice")
        known: tuple[tuple[str, Sequence[str], Mapping[str, Any]], ...] = (
            ("value", inputs, self.values),
            ("parameter", params, self.params),
            ("cache region", regions, self.regions),
        )
        for what, names, table in known:
            for name in names:
                if name not in table:
                    raise KeyError(f"{path}: unknown {what} {name!r}")

    def build(self, outputs: Sequence[str]) -> Graph:
        """The finished graph."""
        self._check_names("outputs of the graph", outputs, (), ())
        return Graph(
            self.step,
            tuple(self.nodes),
            dict(self.params),
            dict(self.regions),
            dict(self.values),
            tuple(outputs),
            dict(self.kinds),
        )

    def _bind(self, table: dict[str, Any], name: str, value: Any) -> None:
        if name in table:
            raise ValueError(f"{name!r} is bound twice")
        table[name] = value
