"""Reads over the host link, by hand arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwmodels.node import load_node
from simulator.offload.host_gather import host_gather


def test_a_row_over_pcie() -> None:
    gather = host_gather(load_node("b200-x8"), 584)
    # 576 + 32 B of sectors, 5 + 1 packets of 20 B each: 728 B on the wire.
    assert gather.packet_share == pytest.approx(584 / 728)
    assert gather.useful_bytes_per_s == pytest.approx(63e9 * 68.5 / 83.4 * 584 / 728)
    rows = 1000
    assert gather.seconds(rows) == pytest.approx(1e-6 + rows * 584 / gather.useful_bytes_per_s)
    assert gather.seconds(0) == 0


def test_links_without_packets_carry_sectors() -> None:
    gather = host_gather(load_node("gb200-nvl72"), 584)
    assert gather.packet_share == pytest.approx(584 / 608)
    assert gather.useful_bytes_per_s == pytest.approx(450e9 * 68.5 / 83.4 * 584 / 608)


def test_reads_in_flight_bound_a_link_of_long_latency() -> None:
    gather = replace(host_gather(load_node("b200-x8"), 584), latency_s=4e-6)
    # 768 reads of which a row takes six, each 4 us: 128 rows at a time.
    assert gather.useful_bytes_per_s == pytest.approx(128 * 584 / 4e-6)


def test_a_stated_share_replaces_the_derived_one() -> None:
    assert host_gather(load_node("b200-x8"), 584, 0.5).useful_bytes_per_s == pytest.approx(31.5e9)
