"""Engines' own all-reduce kernels, replayed from a graph: ranks read each other's memory.

One-shot: every rank reads all operands. Two-shot: every rank adds up its part and reads the others'
sums. Beyond the size that an engine's kernel takes, its all-reduce is NCCL's ring, priced with the
constants of that family.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constant import Constant
from simulator.kernels.constants_file import constants_for
from simulator.kernels.family import Columns, Family
from simulator.kernels.link_traffic import LinkTraffic, one_shot, switch_reduced, two_shot
from simulator.kernels.nccl import (
    COPY_RATE,
    HOP,
    LINK_SHARE,
    MICRO,
    START,
    SWITCH_SHARE,
    TERA,
    NcclRing,
    node_of,
    rank_bytes_per_s,
    ring_parts,
    sizes_of,
)
from simulator.kernels.parts import Floats, Parts

_Algorithm = Callable[[Floats, Floats], LinkTraffic]
KIB, MIB = 2**10, 2**20
# vLLM and SGLang's common kernel: one-shot below these sizes, by ranks (two: always); buffers of
# 8 MiB bound it. On Blackwell both leave larger sizes to NCCL instead of two-shot.
ONE_SHOT_FOUR, ONE_SHOT_EIGHT = 512 * KIB, 256 * KIB
LARGEST_PEER = 8 * MIB
# vLLM adds up in the switch for groups of more than four, up to its symmetric buffers' size.
SWITCH_MORE_THAN, LARGEST_SWITCH = 4, 64 * MIB
# Older TensorRT-LLM (and SGLang before 0.6, which calls it) uses two-shot from this size on Hopper.
TENSORRT_WITHOUT_TWO_SHOT, TENSORRT_TWO_SHOT = (1, 3), 128 * KIB


class GraphAllReduce(Family):
    """Of each exchange a start and a barrier hop a peer; then sent bytes at link rate and the own
    part at copy rate. A two-shot or in-switch reduction is two exchanges.
    """

    constants: ClassVar[tuple[Constant, ...]] = (START, HOP, LINK_SHARE, COPY_RATE)

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """The engine's kernel or NCCL's, as the engine chooses for each call."""
        group = _Group(calls, chip, constants)
        own, takes = self.own(group, calls)
        nccl = group.nccl()
        chosen = {
            cause: np.where(takes, own.seconds.get(cause, 0.0), nccl.seconds.get(cause, 0.0))
            for cause in {*own.seconds, *nccl.seconds}
        }
        return Parts(chosen)

    def own(self, group: _Group, calls: Columns) -> tuple[Parts, np.ndarray]:
        """The engine's own kernel for each call, and which calls it takes.

        Assumes: the engine's tuning takes the faster of one-shot and NCCL.
        """
        one = group.direct(one_shot)
        return one, one.total <= group.nccl().total


class PeerAllReduce(GraphAllReduce):
    """vLLM and older SGLang: copy to a registered buffer, then one- or two-shot by size."""

    name: ClassVar[str] = "graph_all_reduce_peer"

    def own(self, group: _Group, calls: Columns) -> tuple[Parts, np.ndarray]:
        """One-shot while small, then two-shot, or the switch where the engine uses it."""
        size, ranks = group.size, group.ranks
        limit = np.where(ranks <= 4, ONE_SHOT_FOUR, ONE_SHOT_EIGHT)
        small = (ranks <= 2) | (size < limit)
        takes = size <= LARGEST_PEER
        if core_architecture(group.chip) == "blackwell":
            takes &= small
        own = _chosen(small, group.direct(one_shot), group.direct(two_shot))
        if node_of(group.chip.node).in_switch_reduction:
            vllm = np.char.startswith(np.asarray(calls["engine"], dtype=str), "vllm")
            switch = vllm & (ranks > SWITCH_MORE_THAN) & ~small & (size <= LARGEST_SWITCH)
            own = _chosen(switch, group.direct(switch_reduced, SWITCH_SHARE), own)
            takes |= switch
        return own, takes


class SglangAllReduce(GraphAllReduce):
    """Newer SGLang: one kernel that takes the faster of one- and two-shot."""

    name: ClassVar[str] = "graph_all_reduce_sglang"

    def own(self, group: _Group, calls: Columns) -> tuple[Parts, np.ndarray]:
        """The faster of one-shot, two-shot and NCCL.

        Assumes: the engine's tuning takes the fastest.
        """
        one, two = group.direct(one_shot), group.direct(two_shot)
        own = _chosen(one.total <= two.total, one, two)
        return own, own.total <= group.nccl().total


class TensorRtAllReduce(GraphAllReduce):
    """TensorRT-LLM: one-shot, or NCCL where that is faster; before 1.3 two-shot in between.

    Its one-shot kernel writes to all peers and waits for data, not flags, so that a peer adds next
    to nothing; its two-shot kernel has one barrier between its exchanges, of NCCL's hop a peer.
    """

    name: ClassVar[str] = "graph_all_reduce_trtllm"

    def own(self, group: _Group, calls: Columns) -> tuple[Parts, np.ndarray]:
        """One-shot, or two-shot where an older version on Hopper uses it.

        Assumes: the engine's tuning takes the faster of its kernel and NCCL.
        """
        older = {
            str(engine): _version(str(engine)) < TENSORRT_WITHOUT_TWO_SHOT
            for engine in np.unique(calls["engine"])
        }
        own = group.direct(one_shot)
        if core_architecture(group.chip) == "hopper":
            large = (group.ranks > 2) & (group.size >= TENSORRT_TWO_SHOT)
            two = large & np.array([older[str(engine)] for engine in calls["engine"]])
            own = _chosen(two, group.direct(two_shot, hop_us=group.nccl_hop_us / 2), own)
        return own, own.total <= group.nccl().total


class _Group:
    """Calls with their sizes, links and fallback."""

    def __init__(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> None:
        self.chip, self.constants = chip, constants
        self.size, self.ranks = sizes_of(calls)

    @property
    def nccl_hop_us(self) -> float:
        """NCCL's step from rank to rank on this chip."""
        return constants_for(NcclRing.name, self.chip).values["hop_us"]

    def direct(
        self, algorithm: _Algorithm, share: float = 1.0, hop_us: float | None = None
    ) -> Parts:
        """A kernel of the engine that moves the bytes of an algorithm at a share of the link."""
        hop = self.constants["hop_us"] if hop_us is None else hop_us
        traffic = algorithm(self.size, self.ranks)
        link = rank_bytes_per_s(self.chip, self.ranks) * self.constants["link_share"] * share
        return Parts(
            {
                "launch": traffic.steps * self.constants["start_us"] * MICRO,
                "serial": traffic.steps * (self.ranks - 1) * hop * MICRO,
                "communication": traffic.seconds(link, self.constants["copy_tb_per_s"] * TERA),
            }
        )

    def nccl(self) -> Parts:
        """NCCL's all-reduce of the same calls, with that family's constants."""
        reduces = np.ones(len(self.size), dtype=bool)
        stored = constants_for(NcclRing.name, self.chip)
        return ring_parts(self.size, self.ranks, reduces, reduces, self.chip, stored.values)


def _chosen(first: np.ndarray, one: Parts, other: Parts) -> Parts:
    """`one` where `first`, else `other`; both split by the same causes."""
    return Parts(
        {cause: np.where(first, one.seconds[cause], other.seconds[cause]) for cause in one.seconds}
    )


def _version(engine: str) -> tuple[int, ...]:
    """Version numbers of an engine name, `sglang-0.5.10` -> (0, 5, 10)."""
    return tuple(int(digits) for digits in re.findall(r"\d+", engine.partition("-")[2]))


FAMILIES: dict[str, Family] = {
    family.name: family for family in (PeerAllReduce(), SglangAllReduce(), TensorRtAllReduce())
}
