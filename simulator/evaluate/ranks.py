"""Runs every rank of a sharded graph side by side: the proof that sharding changes no value.

Each rank has its slice of the weights and its own pools; collectives see the operands of all ranks.
Data ranks serve their own requests from their own request tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simulator.evaluate.choices import ChoiceRecord
from simulator.evaluate.graph_weights import graph_weights
from simulator.evaluate.metadata import StepMetadata, TokenIds, build_metadata
from simulator.evaluate.pools import BoundRegion, allocate_pools
from simulator.evaluate.request_table import RequestTable
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.graph import build_graph
from workloads.entry_format import PlainEntry
from workloads.graph import Graph, Node
from workloads.op import Array, EvalContext
from workloads.parallel import ParallelLayout
from workloads.sharding import shard
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType

FLOAT = np.dtype(np.float64)


class RankedEvaluator:
    """All ranks of a parallel layout, in float64 without quantisers."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Array],
        tables: Sequence[RequestTable],
        layout: ParallelLayout,
    ) -> None:
        assert len(tables) == layout.data, "one request table a data rank"
        self.config = config
        self.layout = layout
        self.tables = tables
        graph = build_graph(config, StepShape.uniform(1, 1, 0), all_logits=True)
        whole = graph_weights(config, graph, weights)
        self.params = [
            {
                name: _part(whole[name], param_type, layout, rank)
                for name, param_type in graph.params.items()
            }
            for rank in range(layout.ranks)
        ]
        self.pools = [
            allocate_pools(
                graph.regions, tables[data], lambda r: PlainEntry(r.format.dim, FLOAT.name)
            )
            for data in (rank // layout.tensor for rank in range(layout.ranks))
        ]

    def step(self, additions: Sequence[Sequence[tuple[int, TokenIds]]]) -> list[Array]:
        """Logits of all rows on every rank; `additions[d]` are the requests of data rank d."""
        metadata = [build_metadata(t, a) for t, a in zip(self.tables, additions, strict=True)]
        total = sum(len(m.positions) for m in metadata)
        graphs = [self._graph(m, total) for m in metadata]
        data_of = [rank // self.layout.tensor for rank in range(self.layout.ranks)]
        values: list[dict[str, Array]] = [
            {"token_ids": metadata[data].batch.token_ids} for data in data_of
        ]
        for nodes in zip(*(graphs[data].nodes for data in data_of), strict=True):
            operands = tuple(
                (*(values[r][n] for n in node.inputs), *(self.params[r][n] for n in node.params))
                for r, node in enumerate(nodes)
            )
            for rank, node in enumerate(nodes):
                context = self._context(rank, node, metadata, operands)
                outputs = node.op.evaluate(operands[rank], context)
                values[rank].update(zip(node.outputs, outputs, strict=True))
        return [values[r][graphs[data].outputs[0]] for r, data in enumerate(data_of)]

    def _graph(self, metadata: StepMetadata, total_tokens: int) -> Graph:
        graph = build_graph(self.config, metadata.batch.step, all_logits=True)
        return shard(graph, self.layout, total_tokens)

    def _context(
        self,
        rank: int,
        node: Node,
        metadata: Sequence[StepMetadata],
        operands: tuple[tuple[Array, ...], ...],
    ) -> EvalContext:
        own = metadata[rank // self.layout.tensor]
        regions = tuple(
            BoundRegion(self.pools[rank][name], own.request_rows, node.path, None)
            for name in node.regions
        )
        return EvalContext(
            own.batch,
            regions,
            ChoiceRecord(),
            node.path,
            FLOAT,
            shard=self.layout.rank_parts(rank),
            peers=operands,
            peer_batches=tuple(m.batch for m in metadata),
            rank=rank,
        )


def _part(whole: Array, param_type: TensorType, layout: ParallelLayout, rank: int) -> Array:
    """The rank's slice along every sharded axis."""
    divisors, parts = layout.divisors(), layout.rank_parts(rank)
    index = []
    for axis, size in param_type.axes:
        length = size // divisors.get(axis, 1)
        start = parts.get(axis, 0) * length
        index.append(slice(start, start + length))
    value = whole[tuple(index)]
    return value.astype(FLOAT) if value.dtype.kind == "f" else value
