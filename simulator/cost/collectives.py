"""Collectives of a step: an engine's all-reduce, NCCL's rings, and the exchange around experts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hwmodels.chip import ChipSpec
from hwmodels.node import NodeSpec
from simulator.cost.family_call import Columns, FamilyCall, borrowable, constants_of
from simulator.cost.price import Target
from simulator.engine.kernel import Demand
from simulator.engine.sizes import Row, row
from simulator.kernels.nccl import MICRO, TERA, NcclRing, rank_bytes_per_s
from simulator.kernels.parts import Parts
from simulator.kernels.registry import find_family


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


_RING = NcclRing()


def all_reduce(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """The engine's own kernel or NCCL's, as its family chooses by size and ranks."""
    constants = constants_of(demand, target)
    if constants is None or _spans_nodes(demand, target.node):
        return between_nodes(demand, target)
    family = find_family(constants.family)
    return [FamilyCall(family.parts, constants, _row(demand, engine=target.profile.measured_name))]


def gather_scatter(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """NCCL's ring: an all-gather or a reduce-scatter."""
    if _spans_nodes(demand, target.node):
        return between_nodes(demand, target)
    constants = borrowable(NcclRing.name, target.chip)
    return [FamilyCall(_RING.parts, constants, _row(demand))]


def exchange(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """Tokens to the ranks of their experts and back: an all-to-all, or a ring over the data ranks.

    Assumes: a decode step takes the low-latency form, any other the high-throughput form.
    Assumes: both forms reach the rates of an all-to-all of NCCL's, which alone were measured.
    Assumes: in the high-throughput form a row crosses once for each rank that holds picked experts,
        in the low-latency form once for each picked expert (DeepEP).
    """
    sizes = _row(demand)
    if dict(sizes)["operation"] != "all_to_all":
        return gather_scatter(demand, target)
    constants = constants_of(demand, target)
    if constants is None:
        return None
    near, far, latency = peer_links(demand, target)
    links = row(near_bytes_per_s=near, far_s_per_byte=far, latency_s=latency)
    return [FamilyCall(_exchange, constants, (*sizes, *links), derived=True)]


def _exchange(calls: Columns, chip: ChipSpec, c: Mapping[str, float]) -> Parts:
    """Low latency (decode): every rank writes its rows straight into its peers' buffers, so that
    the time is a launch, one hop and the transfer. High throughput (prefill): ranks first tell each
    other how much is coming, then send, then put the rows in the order of the experts.
    """
    sent, near, far, latency, decode = (
        np.asarray(calls[name], dtype=np.float64)
        for name in ("message_bytes", "near_bytes_per_s", "far_s_per_byte", "latency_s", "decode")
    )
    prompt = 1.0 - decode
    sent = sent * np.where(decode > 0, np.asarray(calls["by_expert"], dtype=np.float64), 1.0)
    share = c["link_share"]
    copied = sent / (c["copy_tb_per_s"] * TERA)
    return Parts(
        {
            # Layout and permute kernels around the transfer, and a hand-shake before it.
            "launch": c["start_us"] * MICRO + prompt * 2 * chip.launch_gap_s,
            "serial": c["hop_us"] * MICRO + latency + prompt * c["simple_us"] * MICRO,
            "communication": np.maximum(sent / near, sent * far) / share + prompt * copied,
        }
    )


def _row(demand: Demand, **more: str) -> Row:
    """Sizes of the collective, with the ranks that take part."""
    assert demand.priced_as is not None
    (own,) = demand.priced_as.rows
    return (*own, ("ranks", demand.link_ranks), *more.items())


def _spans_nodes(demand: Demand, node: NodeSpec | None) -> bool:
    return node is not None and demand.link_span > node.chip_count


def peer_links(demand: Demand, target: Target) -> tuple[float, float, float]:
    """Bytes a second to peers in the node, seconds a byte between nodes, and the latency.

    Assumes: peers are picked evenly, so that as many bytes leave the node as peers are outside.
    """
    node = target.node
    assert node is not None
    outside = outside_share(demand, node)
    ranks = np.array([float(min(demand.link_ranks, node.chip_count))])
    inside = float(rank_bytes_per_s(target.chip, ranks)[0])
    near = inside / (1 - outside) if outside < 1 else np.inf
    if not outside:
        return near, 0.0, node.link_latency_s
    return near, outside / node.scale_out_bytes_per_s, node.scale_out_latency_s


def between_nodes(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """A collective whose ranks are in several nodes: a start, and the closed formula.

    Assumes: a collective between nodes starts as NCCL's ring inside a node does.
    """
    if target.node is None:
        return None
    constants = borrowable(NcclRing.name, target.chip)
    sizes = row(link_seconds=link_seconds(demand, target.node))
    return [FamilyCall(_between, constants, sizes, derived=True)]


def _between(calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
    seconds = np.asarray(calls["link_seconds"], dtype=np.float64)
    launch = np.full_like(seconds, constants["start_us"] * MICRO)
    return Parts({"launch": launch, "communication": seconds})
