"""The count interpreter: demand of every node of a graph, and sums by operation, layer and kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from simulator.count.tally import Tally, total
from workloads.graph import Graph, Node
from workloads.run_stats import RunStats


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCount:
    """One node: its path, its layer (`scope`), the layer's kind, and what it asks for."""

    path: str
    local_path: str
    scope: str
    kind: str
    op: str
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCount:
    """All nodes of a step, in execution order; `tokens` are the rows of the step."""

    nodes: tuple[NodeCount, ...]
    tokens: int

    @property
    def total(self) -> Tally:
        """The whole step."""
        return total(node.tally for node in self.nodes)

    def by_operation(self) -> dict[str, Tally]:
        """Sums by path without the layer."""
        return self._grouped(lambda node: node.local_path)

    def by_layer(self) -> dict[str, Tally]:
        """Sums by layer, in order."""
        return self._grouped(lambda node: node.scope)

    def by_kind(self) -> dict[str, Tally]:
        """Sums by kind of layer: embed, swa, csa, hca, mtp, head."""
        return self._grouped(lambda node: node.kind)

    def with_scopes(self, other: StepCount, scopes: Collection[str], name: str) -> StepCount:
        """This count and some layers of another graph, which are named after `name`."""
        own = (
            replace(node, path=f"{name}:{node.path}", scope=f"{name}:{node.scope}")
            for node in other.nodes
            if node.scope in scopes
        )
        return replace(self, nodes=(*self.nodes, *own))

    def _grouped(self, key: Callable[[NodeCount], str]) -> dict[str, Tally]:
        groups: dict[str, list[Tally]] = {}
        for node in self.nodes:
            groups.setdefault(key(node), []).append(node.tally)
        return {name: total(tallies) for name, tallies in groups.items()}


def count_graph(graph: Graph, stats: RunStats | None = None) -> StepCount:
    """Count every node; a parameter or region counts with the first node that names it."""
    counter = _Counter(graph, stats or RunStats())
    return StepCount(nodes=tuple(map(counter.count, graph.nodes)), tokens=graph.step.tokens)


class _Counter:
    """Works of nodes met so far, by operation and types; parameters and regions not yet counted."""

    def __init__(self, graph: Graph, stats: RunStats) -> None:
        self.graph = graph
        self.stats = stats
        self.contexts = Counter(new + past for new, past in graph.step.requests)
        self.counted: set[str] = set()
        self.known: dict[object, Tally] = {}

    def count(self, node: Node) -> NodeCount:
        """Row of one node."""
        fresh = [name for name in (*node.params, *node.regions) if name not in self.counted]
        self.counted.update(fresh)
        formats = tuple(self.graph.regions[name].format for name in node.regions)
        growths = tuple(self.graph.regions[name].growth for name in node.regions)
        held = tuple(name in fresh for name in (*node.params, *node.regions))
        key = (node.op, node.types, formats, growths, held)
        if key not in self.known:
            self.known[key] = self._tally(node, set(fresh))
        return NodeCount(
            path=node.path,
            local_path=node.local_path,
            scope=node.scope,
            kind=self.graph.kinds.get(node.scope, node.scope),
            op=type(node.op).__name__,
            tally=self.known[key],
        )

    def _tally(self, node: Node, fresh: set[str]) -> Tally:
        work = self.graph.work(node, self.stats)
        sizes = [self.graph.regions[name].format.nbytes for name in node.regions]
        params = [self.graph.params[name] for name in node.params if name in fresh]
        return Tally(
            flops={math: 2 * macs for math, macs in work.macs.items()},
            vector_ops=work.vector_ops,
            special_ops=work.special_ops,
            weight_bytes=sum(work.param_bytes),
            activation_bytes=sum(work.input_bytes) + sum(work.output_bytes),
            cache_read_bytes=sum(round(r.distinct * sizes[r.region]) for r in work.reads),
            cache_write_bytes=sum(a.entries * sizes[a.region] for a in work.appends),
            link_bytes=work.link_bytes,
            parameters=sum(param.size for param in params),
            parameter_bytes=sum(param.nbytes for param in params),
            state_bytes=sum(self._state(name) for name in node.regions if name in fresh),
        )

    def _state(self, region: str) -> int:
        resident = self.graph.regions[region].resident_bytes
        return sum(count * resident(context) for context, count in self.contexts.items())
