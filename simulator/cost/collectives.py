"""Collectives of a step: an engine's all-reduce, NCCL's rings, and the exchange around experts."""

from __future__ import annotations

import numpy as np

from hwmodels.node import NodeSpec
from simulator.cost.collective import link_seconds, outside_share
from simulator.cost.family_call import FamilyCall, priced_calls
from simulator.cost.price import Target
from simulator.cost.priced import Borrowable, Priced, constants_of
from simulator.kernels.constants_file import constants_for
from simulator.kernels.nccl import MICRO, TERA, NcclRing, rank_bytes_per_s
from simulator.kernels.parts import Parts
from simulator.kernels.registry import find_family
from simulator.lower.calls import CollectiveCall
from simulator.lower.kernel import Demand

HALF_BYTES = 2
_RING = NcclRing()


def all_reduce(demand: Demand, target: Target) -> Priced | None:
    """The engine's own kernel or NCCL's, as its family chooses by size and ranks."""
    calls = all_reduce_calls(demand, target)
    return priced_calls(calls, target.chip) if calls else between_nodes(demand, target)


def all_reduce_calls(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """The call of the family; None between nodes, and where no family has the kernel."""
    constants = constants_of(demand, target)
    if constants is None or _spans_nodes(demand, target.node):
        return None
    row: dict[str, float | str] = {
        "engine": target.profile.measured_name,
        "num_gpus": float(demand.link_ranks),
        "message_size": _call(demand).message_bytes / HALF_BYTES,
        "allreduce_dtype": "half",
        "nccl_dtype": "half",
        "op_name": "all_reduce",
    }
    return [FamilyCall(find_family(constants.family).parts, constants, tuple(row.items()))]


def gather_scatter(demand: Demand, target: Target) -> Priced | None:
    """NCCL's ring: an all-gather or a reduce-scatter."""
    calls = gather_scatter_calls(demand, target)
    return priced_calls(calls, target.chip) if calls else between_nodes(demand, target)


def gather_scatter_calls(demand: Demand, target: Target) -> list[FamilyCall] | None:
    """The call of NCCL's family; None between nodes."""
    if _spans_nodes(demand, target.node):
        return None
    call = _call(demand)
    row: dict[str, float | str] = {
        "num_gpus": float(demand.link_ranks),
        "message_size": call.message_bytes / HALF_BYTES,
        "nccl_dtype": "half",
        "op_name": call.operation,
    }
    constants = Borrowable(NcclRing.name, constants_for(NcclRing.name, target.chip), False)
    return [FamilyCall(_RING.parts, constants, tuple(row.items()))]


def exchange(demand: Demand, target: Target) -> Priced | None:
    """Tokens to the ranks of their experts and back: an all-to-all, or a ring over the data ranks.

    Low latency (decode): every rank writes its rows straight into its peers' buffers, so that the
    time is a launch, one hop and the transfer. High throughput (prefill): ranks first tell each
    other how much is coming, then send, then put the rows in the order of the experts.

    Assumes: a decode step takes the low-latency form, any other the high-throughput form.
    Assumes: both forms reach the rates of an all-to-all of NCCL's, which alone were measured.
    Assumes: every row crosses the link once for each expert that its token picked elsewhere.
    """
    call = _call(demand)
    if call.operation != "all_to_all":
        return gather_scatter(demand, target)
    constants = constants_of(demand, target)
    if constants is None:
        return None
    c, sent = constants.values, float(call.message_bytes)
    near, far, latency = _rates(demand, target, c["link_share"])
    seconds = {
        "launch": c["start_us"] * MICRO,
        "serial": c["hop_us"] * MICRO + latency,
        "communication": max(sent * near, sent * far),
    }
    if not call.decode:
        # Layout and permute kernels around the transfer, and a hand-shake before it.
        seconds["launch"] += 2 * target.chip.launch_gap_s
        seconds["serial"] += c["simple_us"] * MICRO
        seconds["communication"] += sent / (c["copy_tb_per_s"] * TERA)
    parts = Parts({cause: np.array([value]) for cause, value in seconds.items()})
    return constants.priced(parts, derived=True)


def _call(demand: Demand) -> CollectiveCall:
    call = demand.priced_as.call if demand.priced_as else None
    assert isinstance(call, CollectiveCall)
    return call


def _spans_nodes(demand: Demand, node: NodeSpec | None) -> bool:
    return node is not None and demand.link_span > node.chip_count


def _rates(demand: Demand, target: Target, share: float) -> tuple[float, float, float]:
    """Seconds a sent byte on the links inside the node and between nodes, and the latency.

    Assumes: peers are picked evenly, so that as many bytes leave the node as peers are outside.
    """
    node = target.node
    assert node is not None
    outside = outside_share(demand, node)
    ranks = np.array([float(min(demand.link_ranks, node.chip_count))])
    near = (1 - outside) / (float(rank_bytes_per_s(target.chip, ranks)[0]) * share)
    if not outside:
        return near, 0.0, node.link_latency_s
    return near, outside / (node.scale_out_bytes_per_s * share), node.scale_out_latency_s


def between_nodes(demand: Demand, target: Target) -> Priced | None:
    """A collective whose ranks are in several nodes: a start, and the closed formula.

    Assumes: a collective between nodes starts as NCCL's ring inside a node does.
    """
    if target.node is None:
        return None
    constants = Borrowable(NcclRing.name, constants_for(NcclRing.name, target.chip), False)
    seconds = {
        "launch": np.array([constants.values["start_us"] * MICRO]),
        "communication": np.array([link_seconds(demand, target.node)]),
    }
    return constants.priced(Parts(seconds), derived=True)
