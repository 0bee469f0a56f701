"""One rank's graph: parameters divided, collectives inserted where a partial sum is consumed.

The pass rebuilds the graph node by node, so types are inferred and checked again. A node that
contracts a sharded axis yields a partial sum; `Add` of two such sums stays partial, any other
consumer gets the sum over the ranks first, from an `AllReduce` named `<value>_all_reduce`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workloads.graph import Graph, GraphBuilder, Node
from workloads.op import Op
from workloads.ops import (
    Add,
    AllGather,
    AllReduce,
    ExpertCombine,
    ExpertDispatch,
    ReduceScatter,
)
from workloads.parallel import ParallelLayout

TENSOR = "tensor"
ALL = "all"
# Axes split over the ranks of one tensor group; experts and their inner axis go over all ranks.
TENSOR_AXES = frozenset({"heads", "groups", "shared_ffn", "vocab"})


def shard(graph: Graph, layout: ParallelLayout, total_tokens: int) -> Graph:
    """Graph of one rank: `graph` holds the rank's own requests, unsharded.

    `total_tokens` counts the tokens of all data ranks. Value names stay; collectives are added.
    Raises `ValueError` when a degree does not divide an axis (see `check_layout`).
    """
    if layout.ranks == 1:
        return graph
    return _Sharder(graph, layout, total_tokens).run()


class _Sharder:
    """State of one pass: the new graph, and which values are partial sums over which ranks."""

    def __init__(self, graph: Graph, layout: ParallelLayout, total_tokens: int) -> None:
        self.graph = graph
        self.layout = layout
        self.total_tokens = total_tokens
        self.divisors = {axis: parts for axis, parts in layout.divisors().items() if parts > 1}
        self.builder = GraphBuilder(graph.step, kinds=dict(graph.kinds))
        self.partial: dict[str, str] = {}
        self.complete: dict[str, str] = {}

    def run(self) -> Graph:
        produced = {output for node in self.graph.nodes for output in node.outputs}
        for name, value_type in self.graph.values.items():
            if name not in produced:
                self.builder.input(name, value_type)
        for name, param_type in self.graph.params.items():
            self.builder.param(name, param_type.divided(self.divisors))
        for name, region in self.graph.regions.items():
            self.builder.region(name, region)
        for node in self.graph.nodes:
            self._add(node)
        return self.builder.build([self._completed(name) for name in self.graph.outputs])

    def _add(self, node: Node) -> None:
        op, inputs, group = self._localised(node)
        outputs = self.builder.add(node.path, op, inputs, node.params, node.reads, node.updates)
        if group is not None:
            self.partial.update(dict.fromkeys(outputs, group))
        for output in outputs:
            if self._is_sharded_logits(output):
                gathered = self.builder.add1(
                    f"{output}_all_gather", AllGather(self.layout), [output]
                )
                self.complete[output] = gathered

    def _localised(self, node: Node) -> tuple[Op, Sequence[str], str | None]:
        """(operation, inputs, group over which the output is partial) of a node on this rank."""
        if isinstance(node.op, ExpertCombine):
            return self._combine(node)
        groups = {self.partial.get(name) for name in node.inputs}
        if isinstance(node.op, Add) and len(groups) == 1 and None not in groups:
            return node.op, node.inputs, groups.pop()
        inputs = [self._completed(name) for name in node.inputs]
        if isinstance(node.op, ExpertDispatch):
            return ExpertDispatch(self.layout, self.total_tokens), inputs, None
        return node.op, inputs, self._group(node)

    def _combine(self, node: Node) -> tuple[Op, Sequence[str], str | None]:
        """The exchange after the experts, whose outputs are sums over all ranks."""
        layout, op = self.layout, node.op
        assert isinstance(op, ExpertCombine)
        if layout.data == 1:
            return replace(op, layout=layout), node.inputs, TENSOR
        if layout.expert == 1:
            return ReduceScatter(layout), node.inputs, TENSOR if layout.tensor > 1 else None
        return replace(op, layout=layout), node.inputs, None

    def _group(self, node: Node) -> str | None:
        """Ranks over which the node's own contraction is split."""
        sharded = {
            axis for axis in node.op.contracted_axes(node.types) if axis in self.divisors
        } & {name for param in node.types.params for name, _ in param.axes}
        if not sharded:
            return None
        return TENSOR if sharded <= TENSOR_AXES else ALL

    def _completed(self, name: str) -> str:
        """Name of the value summed over its group (or gathered); the value itself if whole."""
        if name in self.complete:
            return self.complete[name]
        if name not in self.partial:
            return name
        assert self.partial[name] == TENSOR, f"{name}: partial over all ranks, needs a combine"
        path = f"{name.replace(':', '_')}_all_reduce"
        self.complete[name] = self.builder.add1(path, AllReduce(self.layout), [name])
        return self.complete[name]

    def _is_sharded_logits(self, output: str) -> bool:
        axes = self.builder.values[output].axes
        whole = self.graph.values[output].axes
        return bool(axes) and axes[-1][0] == "vocab" and axes != whole
