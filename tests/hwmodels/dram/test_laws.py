"""What holds for every pattern: no more than the peak, nothing lost, parts that add up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hwmodels.dram.chunks import chunk_list
from hwmodels.dram.mersenne import mersenne_words
from hwmodels.dram.parameters import REFRESHES
from hwmodels.dram.pattern import Pattern, pattern_chunks, simulate
from hwmodels.dram.preset import find_preset, list_presets
from hwmodels.dram.simulation import run_chunks

PATTERNS = (
    Pattern("stream", 4096, chunks=1000),
    Pattern("stream", 4096, write_fraction=1 / 3, chunks=1000),
    Pattern("gather", 64, chunks=10_000),
    Pattern("gather", 584, 8, write_fraction=0.2, chunks=2000),
    Pattern("gather", 576, 64, chunks=2000, arrival_bytes_per_s=5e9),
)


@pytest.mark.parametrize("refresh", REFRESHES)
@pytest.mark.parametrize("name", list_presets())
def test_conservation(name: str, refresh: str) -> None:
    for pattern in PATTERNS:
        result = simulate(name, pattern, channels=2, refresh=refresh)  # type: ignore[arg-type]
        assert 0 < result.useful_fraction <= 1.002
        assert result.dram_fraction <= 1.002
        assert sum(result.time_parts.values()) == pytest.approx(1, abs=1e-9)
        assert min(result.time_parts.values()) >= 0
        assert result.time_parts["data"] == pytest.approx(result.dram_fraction, abs=0.03)
        assert result.latency_p50_ns <= result.latency_p99_ns
        assert 0 <= result.row_hit_rate <= 1
        reads = pattern_chunks(pattern, find_preset(name), 2)
        read_bursts = ((reads.starts + reads.sizes - 1) >> 5) - (reads.starts >> 5) + 1
        read_bursts = read_bursts[reads.writes == 0].sum()
        assert result.commands["read"] == read_bursts
        assert result.commands["write"] <= result.bursts - read_bursts


def test_more_outstanding_never_lowers_bandwidth_much() -> None:
    fractions = [
        simulate("hbm3_5200", Pattern("gather", 576, 64, n, chunks=4000)).useful_fraction
        for n in (1, 2, 4, 8, 16, 32, 64)
    ]
    assert all(after > before - 0.01 for before, after in pairwise(fractions))
    assert fractions[-1] > 5 * fractions[0]


def test_open_loop_follows_its_rate_and_its_latency_grows() -> None:
    slow = simulate("hbm3_5200", Pattern("gather", 576, 64, chunks=4000, arrival_bytes_per_s=4e9))
    fast = simulate("hbm3_5200", Pattern("gather", 576, 64, chunks=4000, arrival_bytes_per_s=2e10))
    assert slow.useful_bytes_per_s == pytest.approx(4e9, rel=0.05)
    assert fast.useful_bytes_per_s == pytest.approx(2e10, rel=0.05)
    assert slow.latency_mean_ns < fast.latency_mean_ns


def test_faw_limits_scattered_bursts() -> None:
    result = simulate("hbm3_8000", Pattern("gather", 32, chunks=20_000), refresh="none")
    # Four activates in 15 ns on each of two pseudo-channels: 17 GB/s of 64.
    assert 0.2 < result.useful_fraction < 0.27
    assert result.time_parts["activate_rate"] + result.time_parts["activate"] > 0.3


def test_refresh_costs_and_overlaps() -> None:
    pattern = Pattern("stream", 4096, chunks=2000)
    none, per_bank, all_bank = (
        simulate("hbm3_5200", pattern, refresh=refresh).useful_fraction
        for refresh in ("none", "per-bank", "all-bank")
    )
    assert none > 0.995
    assert all_bank < 0.9 < per_bank < none


def test_default_runs_do_not_depend_on_the_seed() -> None:
    fractions = [
        simulate("hbm4_8000", Pattern("gather", 4096, seed=seed)).useful_fraction
        for seed in (1, 2, 3)
    ]
    assert max(fractions) - min(fractions) < 0.01


def test_same_run_twice() -> None:
    pattern = Pattern("gather", 584, 8, write_fraction=0.3, chunks=2000)
    assert simulate("hbm3e_7800", pattern, channels=4) == simulate(
        "hbm3e_7800", pattern, channels=4
    )


def test_replay_of_addresses() -> None:
    preset = find_preset("hbm3_5200")
    starts = np.arange(512) * 576
    result = run_chunks(preset, chunk_list(starts, 576), channels=16, outstanding=128)
    assert result.bursts == 512 * 18
    assert result.commands["read"] == 512 * 18
    assert result.duration_ps > 512 * 576 / (16 * 41.6e9) * 1e12


def test_generator_is_the_standard_one() -> None:
    # The value that the C++ standard gives for the 10,000th output of mt19937_64.
    assert int(mersenne_words(5489, 10_000)[-1]) == 9981545732273789042
