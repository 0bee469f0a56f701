"""NCCL inside a node: rings (all-gather, reduce-scatter, all-reduce) and all-to-all.

Time is the least of three protocols. Low latency: each word carries a flag, so no hand-shake but
half of the rate. Lines of 128 bytes with one flag each: nearly the full rate after a part of the
hand-shake. Simple: the full rate after all of it. Small messages use only some of the channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

import numpy as np

from hwmodels.chip import ChipSpec
from hwmodels.node import NodeSpec, load_node
from simulator.kernels.constant import Constant
from simulator.kernels.family import Columns, Family
from simulator.kernels.link_traffic import gathered, ring_reduced, switch_reduced
from simulator.kernels.parts import Floats, Parts

MICRO, TERA = 1e-6, 1e12
# Half of a low-latency line is flags; of 128 bytes the other protocol spends 8.
LOW_LATENCY_SLOWDOWN = 2.0
LINE_SLOWDOWN = 128 / 120
# Hand-shake of that protocol as a share of the full-rate protocol's: NCCL's tuning table gives a
# step of a ring over NVLink 0.6, 1.9 and 3.4 us (NCCL, src/graph/tuning.cc).
LINE_HANDSHAKE = (1.9 - 0.6) / (3.4 - 0.6)
# What starting all channels takes longer than starting none.
CHANNELS_START_US = 2.0
# Multicast and in-switch reads run at this share of plain ones; seen where only they differ.
SWITCH_SHARE = 0.75
# NCCL adds up in the switch where a full node takes part; it cannot add integers there.
SWITCH_MIN_RANKS = 8

START = Constant(
    name="start_us",
    unit="us",
    meaning="launch of the collective kernel and its first hand-shake",
    start=6.0,
    low=1.0,
    high=20.0,
)
HOP = Constant(
    name="hop_us",
    unit="us",
    meaning="one dependent step from rank to rank: store, flag, poll",
    start=1.0,
    low=0.02,
    high=5.0,
)
LINK_SHARE = Constant(
    name="link_share",
    unit="1",
    meaning="share of the one-way link bandwidth that payload reaches",
    start=0.75,
    low=0.3,
    high=1.0,
)
COPY_RATE = Constant(
    name="copy_tb_per_s",
    unit="TB/s",
    meaning="rate at which the collective's cores copy or add up the rank's own part",
    start=1.0,
    low=0.1,
    high=20.0,
)
HANDSHAKE = Constant(
    name="simple_us",
    unit="us",
    meaning="hand-shakes and pipeline fill of the full-rate protocol",
    start=14.0,
    low=1.0,
    high=60.0,
)


@lru_cache(maxsize=32)
def node_of(name: str) -> NodeSpec:
    """Node by the name that a chip's file gives; read once."""
    return load_node(name)


def rank_bytes_per_s(chip: ChipSpec, ranks: Floats) -> Floats:
    """What a rank can send at once to the others of its group, one way.

    Assumes: a group lies within one scale-up domain, and each rank has its links to itself; in a
        mesh it uses its links to the ranks that take part, an even share of them all.
    """
    node = node_of(chip.node)
    links = np.full_like(ranks, chip.scale_up_bytes_per_s)
    if node.scale_up.topology == "switch":
        return links
    return links * np.minimum((ranks - 1) / (node.chip_count - 1), 1.0)


def sizes_of(calls: Columns) -> tuple[Floats, Floats]:
    """Bytes of the message, and ranks, of each call."""
    size, ranks = (np.asarray(calls[n], dtype=np.float64) for n in ("message_bytes", "ranks"))
    return size, ranks


def channel_seconds(transfer: Floats) -> Floats:
    """What a transfer, given in seconds at the rate of all channels, loses to their number.

    A share c of the channels starts in c times `CHANNELS_START_US` and takes 1 / c of the time; the
    share that ends first is the root of their ratio, and all of them once the transfer is longer.

    Assumes: the library's tuning takes as many channels as pay.
    """
    start = CHANNELS_START_US * MICRO
    return np.where(transfer < start, 2.0 * np.sqrt(transfer * start) - transfer, start)


def protocol_seconds(steps: Floats, transfer: Floats, constants: Mapping[str, float]) -> Parts:
    """The fastest protocol: transfer slowed down by its flags, or after its hand-shake.

    Assumes: the library's tuning picks the fastest protocol at every size.
    """
    handshake = constants["simple_us"] * MICRO
    lines = (LINE_SLOWDOWN - 1) * transfer + LINE_HANDSHAKE * handshake
    extra = np.minimum((LOW_LATENCY_SLOWDOWN - 1) * transfer, lines)
    extra = np.minimum(extra, np.full_like(transfer, handshake)) + channel_seconds(transfer)
    hops = steps * constants["hop_us"] * MICRO
    return Parts(
        {
            "launch": np.full_like(transfer, constants["start_us"] * MICRO),
            "serial": hops + extra,
            "communication": transfer,
        }
    )


class NcclRing(Family):
    """All-gather, reduce-scatter and all-reduce: start + steps x hop + the transfer.

    The transfer is the sent bytes at link rate and the rank's own part at copy rate. An all-reduce
    of floating-point values over 8 ranks or more is added up in the switch where that is faster.
    """

    name: ClassVar[str] = "nccl_ring"
    constants: ClassVar[tuple[Constant, ...]] = (START, HOP, LINK_SHARE, COPY_RATE, HANDSHAKE)

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """All protocols over the traffic of each call's operation."""
        size, ranks = sizes_of(calls)
        reduces = np.asarray(calls["operation"]).astype(str) == "all_reduce"
        floating = reduces & (np.asarray(calls["floating"], dtype=np.float64) > 0)
        return ring_parts(size, ranks, reduces, floating, chip, constants)


def ring_parts(
    size: Floats,
    ranks: Floats,
    reduces: np.ndarray,
    floating: np.ndarray,
    chip: ChipSpec,
    constants: Mapping[str, float],
) -> Parts:
    """Ring collectives; `reduces` marks all-reduces, `floating` those the switch can add up."""
    link = rank_bytes_per_s(chip, ranks) * constants["link_share"]
    copy = constants["copy_tb_per_s"] * TERA
    gather, reduce = gathered(size, ranks), ring_reduced(size, ranks)
    transfer = np.where(reduces, reduce.seconds(link, copy), gather.seconds(link, copy))
    if node_of(chip.node).in_switch_reduction:
        in_switch = switch_reduced(size, ranks).seconds(link * SWITCH_SHARE, copy)
        able = floating & (ranks >= SWITCH_MIN_RANKS)
        transfer = np.where(able, np.minimum(transfer, in_switch), transfer)
    steps = np.where(reduces, reduce.steps, gather.steps)
    return protocol_seconds(steps, transfer, constants)


class NcclAllToAll(Family):
    """All-to-all: every rank sends n - 1 parts to its peers at once and copies its own.

    A hop a peer stands for posting and awaiting its part.
    """

    name: ClassVar[str] = "nccl_alltoall"
    constants: ClassVar[tuple[Constant, ...]] = (START, HOP, LINK_SHARE, COPY_RATE, HANDSHAKE)

    def parts(self, calls: Columns, chip: ChipSpec, constants: Mapping[str, float]) -> Parts:
        """All protocols over the traffic of n - 1 parts."""
        size, ranks = sizes_of(calls)
        traffic = gathered(size, ranks)
        link = rank_bytes_per_s(chip, ranks) * constants["link_share"]
        transfer = traffic.seconds(link, constants["copy_tb_per_s"] * TERA)
        return protocol_seconds(traffic.steps, transfer, constants)


FAMILIES: dict[str, Family] = {family.name: family for family in (NcclRing(), NcclAllToAll())}
