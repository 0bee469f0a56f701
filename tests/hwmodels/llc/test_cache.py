"""The last-level cache: hand-checked runs, its twin, and laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.chip import find_chip, list_chips
from hwmodels.llc.accesses import (
    access_list,
    expert_accesses,
    matrix_accesses,
    pick_accesses,
    stated_picks,
)
from hwmodels.llc.cache import run_cache
from hwmodels.llc.spec import POLICIES, CacheSpec, chip_cache
from simulator.basis.errors import InputError
from tests.oracles.llc_twin import TwinCache

# Two lines of four sectors, in one set.
TWO = CacheSpec(capacity_bytes=256, ways=2)


def counts(result):
    return (result.accesses, result.hits, result.fills, result.write_backs, result.evictions)


def test_sectors_of_a_line_are_fetched_one_by_one() -> None:
    found = run_cache(TWO, access_list([0, 32, 0, 96, 64], [32, 32, 64, 32, 32]))
    # 0 misses; 32 misses in the same line; 0..64 hits both; 96 and 64 miss.
    assert counts(found) == (6, 2, 4, 0, 0)
    assert found.memory.tolist() == [[0, 32, 0], [32, 32, 0], [96, 32, 0], [64, 32, 0]]


def test_an_unaligned_run_touches_whole_sectors_of_both_lines() -> None:
    found = run_cache(TWO, access_list([100], [60]))
    # Bytes 100..160 are sector 3 of line 0 and sector 0 of line 1.
    assert counts(found) == (2, 0, 2, 0, 0)
    assert found.memory.tolist() == [[96, 32, 0], [128, 32, 0]]


def test_the_least_recently_used_line_goes() -> None:
    found = run_cache(TWO, access_list([0, 128, 0, 256, 0, 128], 32))
    # 256 takes the place of 128, which was used before 0.
    assert counts(found) == (6, 2, 4, 0, 2)
    first_in = run_cache(replace(TWO, policy="fifo"), access_list([0, 128, 0, 256, 0, 128], 32))
    # Here 256 takes the place of 0, then 0 that of 128, then 128 that of 256.
    assert counts(first_in) == (6, 1, 5, 0, 3)


def test_whole_sectors_are_written_without_a_fetch_and_leave_dirty() -> None:
    found = run_cache(TWO, access_list([0, 128, 256], [48, 32, 32], [True, False, False]))
    # Sector 1 of line 0 is written by half: fetched. Both sectors go to memory with the line.
    assert counts(found) == (4, 0, 3, 2, 1)
    assert found.memory.tolist() == [[32, 32, 0], [128, 32, 0], [0, 64, 1], [256, 32, 0]]
    flushed = run_cache(TWO, access_list([0], [64], True), flush=True)
    assert counts(flushed) == (2, 0, 0, 2, 0)


def test_near_and_far_lines_have_their_latencies() -> None:
    spec = CacheSpec(capacity_bytes=1 << 20, partitions=2, near_latency_s=1e-7, far_latency_s=2e-7)
    starts = np.arange(4096) * 128
    found = run_cache(spec, access_list(starts, 128, cores=0))
    assert found.near + found.far == 4 * 4096
    assert found.near / (found.near + found.far) == pytest.approx(0.5, abs=0.03)
    assert found.latency_s == pytest.approx(1.5e-7, rel=0.03)
    assert run_cache(spec, access_list(starts, 128, cores=1)).far == found.near


def test_hit_rates_are_of_each_list() -> None:
    spec = CacheSpec(capacity_bytes=1 << 20)
    weights = access_list(np.arange(100) * 4096, 4096)
    found = run_cache(spec, [weights, weights])
    assert found.hit_rates[0] == 0.0
    assert found.hit_rates[1] > 0.99


runs = st.lists(
    st.tuples(st.integers(0, 6000), st.integers(1, 700), st.booleans(), st.integers(0, 1)),
    min_size=1,
    max_size=200,
)


@given(runs, st.sampled_from(POLICIES), st.sampled_from([1, 2]), st.sampled_from([2, 4, 16]))
@settings(max_examples=60)
def test_the_twin_agrees_access_for_access(given_runs, policy, partitions, ways) -> None:
    spec = CacheSpec(capacity_bytes=8192, ways=ways, partitions=partitions, policy=policy)
    accesses = access_list(*zip(*given_runs, strict=True))
    found, twin = run_cache(spec, accesses), TwinCache(spec)
    twin.run(accesses)
    assert counts(found) == (
        twin.hits + twin.misses, twin.hits, twin.fills, twin.write_backs, twin.evictions
    )  # fmt: skip
    assert (found.near, found.far) == (twin.near, twin.far)
    assert [tuple(row) for row in found.memory.tolist()] == twin.memory


@given(runs, st.integers(1, 30))
@settings(max_examples=60)
def test_a_larger_fully_associative_lru_cache_never_hits_less(given_runs, lines) -> None:
    accesses = access_list(*zip(*given_runs, strict=True))
    hits = [
        run_cache(CacheSpec(capacity_bytes=128 * n, ways=n), accesses).hits
        for n in (lines, lines + 1, 2 * lines + 1)
    ]
    assert hits == sorted(hits)


@given(runs, st.sampled_from(POLICIES))
@settings(max_examples=60)
def test_counts_and_bytes_add_up(given_runs, policy) -> None:
    spec = CacheSpec(capacity_bytes=4096, ways=4, policy=policy)
    accesses = access_list(*zip(*given_runs, strict=True))
    found = run_cache(spec, accesses, flush=True)
    assert found.hits + found.misses == found.accesses
    assert found.fills <= found.misses
    read = found.memory[found.memory[:, 2] == 0][:, 1].sum()
    written = found.memory[found.memory[:, 2] == 1][:, 1].sum()
    assert (read, written) == (found.fill_bytes, found.write_back_bytes)
    reads_only = access_list(accesses.starts, accesses.sizes)
    plain = run_cache(spec, reads_only)
    assert plain.fills == plain.misses
    assert plain.write_backs == 0


def test_neighbouring_queries_find_what_they_share() -> None:
    picks = stated_picks(visible=32_768, count=1024, queries=40, overlap=0.95, seed=3)
    found = run_cache(chip_cache(find_chip("h200")), pick_accesses(picks, 584))
    distinct = len(np.unique(picks))
    # All of it fits, so that each entry comes once; neighbours share a sector now and then.
    assert found.fill_bytes == pytest.approx(distinct * 608, rel=0.03)
    assert found.hit_rate == pytest.approx(1 - distinct / picks.size, abs=0.01)


def test_a_cache_too_small_for_what_queries_share_fetches_again() -> None:
    picks = stated_picks(visible=32_768, count=1024, queries=40, overlap=0.95, seed=3)
    small = CacheSpec(capacity_bytes=256 * 1024)
    assert run_cache(small, pick_accesses(picks, 584)).hit_rate < 0.1


def test_recorded_picks_below_zero_are_none() -> None:
    accesses = pick_accesses(np.array([[3, -1], [5, 3]]), 584, base=1000, slot_bytes=640)
    assert accesses.starts.tolist() == [1000 + 3 * 640, 1000 + 5 * 640, 1000 + 3 * 640]


def test_tiles_of_a_product_find_operands_that_others_fetched() -> None:
    accesses = matrix_accesses(512, 1024, 2048, 128, 128, 128, cores=8)
    operands = (512 + 1024) * 2048
    assert accesses.nbytes == operands * 32 * 256 // (512 + 1024)  # 32 tiles of 128 + 128 rows
    found = run_cache(CacheSpec(capacity_bytes=8 << 20), accesses)
    assert found.fill_bytes == operands


def test_experts_that_come_again_are_still_there() -> None:
    order = np.array([1, 2, 1, 3, 2])
    found = run_cache(CacheSpec(capacity_bytes=4 << 20), expert_accesses(order, 100_000))
    assert found.fill_bytes == pytest.approx(300_000, abs=200)
    assert found.hit_rate == pytest.approx(0.4, abs=0.001)


@pytest.mark.parametrize("name", list_chips())
def test_every_chip_has_a_cache(name: str) -> None:
    chip = find_chip(name)
    spec = chip_cache(chip)
    assert spec.sets * spec.ways * spec.partitions * spec.line_bytes == pytest.approx(
        chip.llc_bytes, rel=0.001
    )
    assert spec.far_latency_s >= spec.near_latency_s > 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"policy": "plru"}, "unknown replacement policy 'plru'"),
        ({"sector_bytes": 48}, "a line of 128 bytes in sectors of 48"),
        ({"capacity_bytes": 100}, "hold no set of 2 lines"),
        ({"ways": 0}, "ways is 0, expected at least 1"),
    ],
)
def test_bad_caches(fault: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(TWO, **fault)  # type: ignore[arg-type]


def test_bad_lists() -> None:
    with pytest.raises(InputError, match="begins below 0"):
        access_list([-1], 32)
    with pytest.raises(InputError, match="no more picks than entries"):
        stated_picks(10, 11, 2, 0.5, 1)
