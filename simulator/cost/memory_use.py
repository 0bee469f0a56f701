"""Bytes that one rank holds: weights, resident cache state and workspace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from simulator.cost.result import MemoryUse
from workloads.graph import Graph


def memory_use(graph: Graph, capacity_bytes: int) -> MemoryUse:
    """Bytes that one rank holds for a (sharded) graph and the requests of its step.

    Assumes: an engine reserves no memory for itself, and pages and buffers are not padded.
    """
    return MemoryUse(
        weight_bytes=graph.weight_bytes,
        state_bytes_by_pool=state_bytes_by_pool(graph),
        workspace_bytes=workspace_bytes(graph),
        capacity_bytes=capacity_bytes,
    )


def state_bytes_by_pool(graph: Graph) -> dict[str, int]:
    """Cache state of the step's requests after the step, by pool."""
    pools: dict[str, int] = {}
    for context, requests in Counter(new + past for new, past in graph.step.requests).items():
        for pool, nbytes in graph.state_layout.by_pool(context).items():
            pools[pool] = pools.get(pool, 0) + requests * nbytes
    return pools


def workspace_bytes(graph: Graph, most: Mapping[str, int] | None = None) -> int:
    """Most bytes of values that are alive at once; `most` caps values that are made in chunks.

    Assumes: every value of the graph is stored from its node to its last reader's.
    """
    last_use = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    last_use.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
    sizes = {name: value.nbytes for name, value in graph.values.items()}
    for name, limit in (most or {}).items():
        sizes[name] = min(sizes[name], limit)
    produced = {name for node in graph.nodes for name in node.outputs}
    live = sum(size for name, size in sizes.items() if name not in produced)
    peak = live
    for i, node in enumerate(graph.nodes):
        live += sum(sizes[name] for name in node.outputs)
        peak = max(peak, live)
        for name in {*node.inputs, *node.outputs}:
            if last_use.get(name, i) == i:
                live -= sizes[name]
    return peak
