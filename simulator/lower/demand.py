"""Demand of a kernel from the work of its nodes: here logical entries become bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulator.lower.cache_runs import CacheRuns, append_runs, joined_runs, read_runs
from simulator.lower.calls import AttentionCall, call_of
from simulator.lower.kernel import Demand, ProgramCall
from simulator.lower.products import products_of
from simulator.lower.profile import EngineProfile, FusedKernel
from workloads.graph import Graph, Node
from workloads.ops import AllGather, AllReduce, ExpertCombine, ExpertDispatch, ReduceScatter
from workloads.work import Read, Work


@dataclass(frozen=True, slots=True)
class DemandBuilder:
    """Adds up the works of fused nodes.

    Assumes: where all queries read the same entries in order, a block of queries of the engine's
        size shares one fetch; picked entries are fetched for each query.
    """

    graph: Graph
    profile: EngineProfile

    def demand(
        self,
        kernel: FusedKernel,
        members: Sequence[tuple[Node, Work]],
        attention: AttentionCall | None,
    ) -> Demand:
        """Demand of one kernel, without its dense operands; `attention` is its layer's module."""
        reads = [
            (self._entry_bytes(node, r.region), r) for node, work in members for r in work.reads
        ]
        ranks, span = _link_group([node for node, _ in members])
        return Demand(
            family=kernel.family,
            priced_as=self._priced_as(kernel, members, attention),
            products=tuple(
                replace(product, math=kernel.math or product.math)
                for node, work in members
                for product in products_of(node, work, self.graph.step, self._fetched(work))
            ),
            vector_ops=sum(work.vector_ops for _, work in members),
            special_ops=sum(work.special_ops for _, work in members),
            weight_bytes=sum(sum(work.param_bytes) for _, work in members),
            cache_read_bytes=sum(round(size * read.distinct) for size, read in reads),
            cache_touch_bytes=sum(round(size * self._touches(read)) for size, read in reads),
            cache_write_bytes=sum(
                self._entry_bytes(node, append.region) * append.entries
                for node, work in members
                for append in work.appends
            ),
            cache_runs=self._cache_runs(members),
            link_bytes=sum(work.link_bytes for _, work in members),
            link_phases=sum(work.link_phases for _, work in members),
            link_ranks=ranks,
            link_span=span,
        )

    def _priced_as(
        self,
        kernel: FusedKernel,
        members: Sequence[tuple[Node, Work]],
        attention: AttentionCall | None,
    ) -> ProgramCall | None:
        if kernel.program == "tile":
            return None
        nodes = [node for node, _ in members]
        sent = sum(work.link_bytes for _, work in members)
        call = attention if kernel.part else call_of(kernel, nodes, self.graph, sent)
        return ProgramCall(kernel=kernel.name, program=kernel.program, part=kernel.part, call=call)

    def _cache_runs(self, members: Sequence[tuple[Node, Work]]) -> tuple[CacheRuns, ...]:
        runs = []
        for node, work in members:
            regions = [self.graph.regions[name] for name in node.regions]
            runs += [read_runs(regions[r.region], r, self._touches(r)) for r in work.reads]
            runs += [append_runs(regions[a.region], a.entries) for a in work.appends]
        return joined_runs(runs)

    def _entry_bytes(self, node: Node, region: int) -> int:
        return self.graph.regions[node.regions[region]].format.nbytes

    def _fetched(self, work: Work) -> float:
        """Entries that blocks of queries fetch, each as often as it is fetched."""
        return sum(self._touches(read) for read in work.reads)

    def _touches(self, read: Read) -> float:
        if read.pattern == "gather":
            return max(read.entries, read.distinct)
        shared = self.profile.attention_tiles.scan_queries
        return max(read.entries / shared, read.distinct)


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
