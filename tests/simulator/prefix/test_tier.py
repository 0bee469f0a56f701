"""Tier files: what ships, times of moves, endurance, and one sentence for what is wrong."""

import pytest

from simulator.basis.errors import InputError
from simulator.prefix.tier import list_tiers, load_tiers


def test_what_ships_loads():
    assert "node" in list_tiers()
    names = [tier.name for tier in load_tiers("node")]
    assert names == ["hbm", "dram", "nvme", "remote"]


def test_a_move_takes_latency_and_bandwidth():
    nvme = load_tiers("node")[2]
    # 64 objects, 32 at once: two latencies of 100 us; 14 GB at 14 GB/s: 1 s.
    assert nvme.read_ns(14_000_000_000, 64) == 1_000_200_000
    assert nvme.write_ns(10_000_000_000, 1) == 1_000_100_000
    assert nvme.read_ns(0, 0) == 0
    assert load_tiers("node")[0].read_ns(10**9, 10) == 0


def test_endurance():
    """One drive write a day for five years: at a write a day it lasts the five years."""
    nvme = load_tiers("node")[2]
    a_day = nvme.capacity_bytes
    assert nvme.device_years(a_day, 86_400) == pytest.approx(5)
    assert nvme.device_years(10 * a_day, 86_400) == pytest.approx(0.5)
    assert nvme.device_years(0, 86_400) is None


GB = "{value: 1, unit: GB, kind: guessed, note: test}"
RATE = "{value: 1, unit: GB/s, kind: guessed, note: test}"
LATE = "{value: 1, unit: us, kind: guessed, note: test}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"tiers: [{{name: a, capacity: {GB}, read: {RATE}}}]", "both read and write"),
        (
            f"tiers: [{{name: a, capacity: {GB}, read: {RATE}, write: {RATE}, latency: {LATE}}}]",
            "is the device itself",
        ),
        (f"tiers: [{{name: a, capacity: {GB}}}, {{name: b, capacity: {GB}}}]", "expected 'read'"),
        (
            f"tiers: [{{name: a, capacity: {GB}}}, {{name: a, capacity: {GB}, read: {RATE}, "
            f"write: {RATE}, latency: {LATE}}}]",
            "named twice",
        ),
        (
            "tiers: [{name: a, capacity: {value: 0, unit: GB, kind: guessed, note: t}}]",
            "expected more than 0",
        ),
        (f"tiers: [{{name: a, capacity: {RATE}}}]", "expected a unit of B"),
        ("tiers: []", "no tier is named"),
        (
            "tiers:\n  - {name: a, capacity: {value: 0, unit: GB, kind: guessed, note: t}}",
            "'tiers[0].capacity': value is 0",
        ),
    ],
)
def test_a_wrong_file_is_a_sentence(tmp_path, text, says):
    path = tmp_path / "tiers.yaml"
    path.write_text(text + "\n")
    with pytest.raises(InputError) as caught:
        load_tiers(path)
    assert says in caught.value.message
    assert str(path) in caught.value.message


def test_price_of_what_is_stored():
    """DRAM at 10 USD/GB over 5 years; a drive of 7,680 GB at 0.365 over 5 years or its wear."""
    _, dram, nvme, remote = load_tiers("node")
    hours = 5 * 365.25 * 24
    assert dram.usd_per_hour(10**12, None) == pytest.approx(10 * 1_000 / hours)
    assert nvme.usd_per_hour(10**12, None) == pytest.approx(0.365 * 1_000 / hours)
    assert nvme.usd_per_hour(10**12, 0.5) == pytest.approx(0.365 * 7_680 / (0.5 * 365.25 * 24))
    assert remote.usd_per_hour(10**12, None) is None
