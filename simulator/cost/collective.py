"""Time of a collective on the links of a node: one closed formula."""

from __future__ import annotations

from hwmodels.node import NodeSpec
from simulator.engine.kernel import Demand


def link_seconds(demand: Demand, node: NodeSpec | None, *, bound: bool = False) -> float:
    """phases x latency + sent bytes / bandwidth; 0 for a kernel that sends nothing.

    As a `bound` it counts one phase, since ranks may read all of each other's operands at once, and
    between nodes only the bytes for ranks outside of the own one.

    Assumes: a collective takes its rounds' latency plus the bytes that one rank sends at the full
        one-way bandwidth; no reduction in the switch.
    Assumes: a collective over more chips than a node holds runs at the pace of the links between
        nodes.
    Assumes: in a mesh, a rank uses its links to the ranks that take part, and no others.
    """
    if not demand.link_bytes and not demand.link_phases:
        return 0.0
    assert node is not None, "a collective needs a node"
    if demand.link_span > node.chip_count:
        latency, bandwidth = node.scale_out_latency_s, node.scale_out_bytes_per_s
    else:
        latency, bandwidth = node.link_latency_s, _bandwidth(node, demand.link_ranks)
    if bound and demand.link_span > node.chip_count:
        bandwidth /= outside_share(demand, node)
    phases = min(demand.link_phases, 1) if bound else demand.link_phases
    return phases * latency + demand.link_bytes / bandwidth


def outside_share(demand: Demand, node: NodeSpec) -> float:
    """Share of the peers in a collective's span that are in other nodes."""
    inside = min(demand.link_span, node.chip_count)
    return (demand.link_span - inside) / max(demand.link_span - 1, 1)


def _bandwidth(node: NodeSpec, ranks: int) -> float:
    if node.scale_up.topology == "switch":
        return node.link_bytes_per_s
    return min(node.link_bytes_per_s, (ranks - 1) * node.peer_bytes_per_s)
