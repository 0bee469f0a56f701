"""Demand of a kernel from the work of its nodes: here logical entries become bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulator.engine.cache_runs import (
    CacheRuns,
    append_runs,
    joined_runs,
    moved_row_bytes,
    read_runs,
)
from simulator.engine.kernel import Demand, ProgramCall
from simulator.engine.phase import Phase
from simulator.engine.physical_layout import PhysicalLayout, PoolGeometry
from simulator.engine.products import products_of
from simulator.engine.profile import EngineProfile, FusedKernel
from simulator.engine.sizes import SIZES, Members
from workloads.graph import Graph, Node
from workloads.ops import AllGather, AllReduce, ExpertCombine, ExpertDispatch, ReduceScatter
from workloads.work import Read, Work


@dataclass(frozen=True, slots=True)
class DemandBuilder:
    """Adds up the works of fused nodes.

    Assumes: where all queries read the same entries in order, a block of queries of the engine's
        size shares one fetch, or all do where its profile gives none, since attention has programs;
        picked entries are fetched for each query.
    """

    graph: Graph
    profile: EngineProfile
    rows: PhysicalLayout
    phase: Phase

    def demand(
        self, kernel: FusedKernel, nodes: Sequence[tuple[Node, Work]], layer: Sequence[Node]
    ) -> Demand:
        """Demand of one kernel of a layer, without its dense operands."""
        reads = [
            (node, moved_row_bytes(self._row(node, r.region), r), r)
            for node, work in nodes
            for r in work.reads
        ]
        ranks, span = _link_group([node for node, _ in nodes])
        operands = list(dict.fromkeys(name for node, _ in nodes for name in node.inputs[:1]))
        return Demand(
            family=kernel.family,
            priced_as=self._priced_as(kernel, nodes, layer),
            products=tuple(
                replace(product, math=self._math(kernel, product.math))
                for node, work in nodes
                for product in products_of(
                    node, work, self.graph.step, self._fetched(work), _operand(node, operands)
                )
            ),
            vector_ops=sum(work.vector_ops for _, work in nodes),
            special_ops=sum(work.special_ops for _, work in nodes),
            weight_bytes=sum(sum(work.param_bytes) for _, work in nodes),
            cache_read_bytes=sum(round(size * read.distinct) for _, size, read in reads),
            cache_touch_bytes=sum(round(size * self._touches(read)) for _, size, read in reads),
            cache_write_bytes=sum(
                self._row(node, append.region).row_bytes * append.entries
                for node, work in nodes
                for append in work.appends
            ),
            cache_runs=self._cache_runs(nodes),
            row_padding_bytes=sum(
                round((size - self._row(node, read.region).row_bytes) * read.distinct)
                for node, size, read in reads
                if size != self._row(node, read.region).row_bytes
            ),
            link_bytes=sum(work.link_bytes for _, work in nodes),
            link_phases=sum(work.link_phases for _, work in nodes),
            link_ranks=ranks,
            link_span=span,
        )

    def _math(self, kernel: FusedKernel, own: str) -> str:
        """Class that a kernel multiplies in."""
        if own == "fp8":
            own = kernel.fp8_as.get(self.profile.architecture, own)
        return kernel.math or own

    def _priced_as(
        self, kernel: FusedKernel, nodes: Sequence[tuple[Node, Work]], layer: Sequence[Node]
    ) -> ProgramCall | None:
        if kernel.program == "tile" and not kernel.families:
            return None
        sizes = SIZES.get(kernel.program)
        members = Members(kernel, nodes, self.graph, self.rows, self.phase, layer)
        return ProgramCall(
            kernel=kernel.name,
            program=kernel.program,
            rows=sizes(members) if sizes else (),
            decode=self.phase.decode,
            tokens=self.graph.step.tokens,
            requests=self.graph.step.batch,
        )

    def _cache_runs(self, members: Sequence[tuple[Node, Work]]) -> tuple[CacheRuns, ...]:
        runs = []
        for node, work in members:
            runs += [
                read_runs(self.rows, self._row(node, r.region), r, self._touches(r))
                for r in work.reads
            ]
            runs += [append_runs(self._row(node, a.region), a.entries) for a in work.appends]
        return joined_runs(runs)

    def _row(self, node: Node, region: int) -> PoolGeometry:
        return self.rows.of(self.graph.regions[node.regions[region]])

    def _fetched(self, work: Work) -> float:
        """Entries that blocks of queries fetch, each as often as it is fetched."""
        return sum(self._touches(read) for read in work.reads)

    def _touches(self, read: Read) -> float:
        if read.pattern == "gather":
            return max(read.entries, read.distinct)
        tiles = self.profile.attention_tiles
        if tiles is None:
            return read.distinct
        return max(read.entries / tiles.scan_queries, read.distinct)


def _operand(node: Node, operands: Sequence[str]) -> int:
    return operands.index(node.inputs[0]) if node.inputs else 0


def _link_group(nodes: Sequence[Node]) -> tuple[int, int]:
    """(ranks that exchange, consecutive ranks that they are spread over) of a collective."""
    ranks = span = 1
    for node in nodes:
        op = node.op
        if isinstance(op, AllReduce | AllGather):
            ranks, span = op.layout.tensor, op.layout.tensor
        elif isinstance(op, ReduceScatter):
            ranks, span = op.layout.data, op.layout.ranks
        elif isinstance(op, ExpertDispatch | ExpertCombine):
            grouped = op.layout.expert > 1
            ranks, span = op.layout.ranks if grouped else op.layout.data, op.layout.ranks
    return ranks, span
