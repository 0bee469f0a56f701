"""Windows with known addresses: what a stack sees, bytes, seeds, and what locality is worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwmodels.bandwidth.mix import MixPart
from hwmodels.bandwidth.window import WINDOW_BYTES, missed_runs
from hwmodels.chip import find_chip
from hwmodels.dram.chip_memory import chip_memory
from hwmodels.llc.accesses import access_list
from hwmodels.llc.spec import CacheSpec, chip_cache
from simulator.cost.cycle_addresses import (
    Chosen,
    Picked,
    again_share,
    first_picks,
    turns_of,
)
from simulator.cost.cycle_window import (
    Window,
    addressed_runs,
    joined_windows,
    stack_pieces,
    window_curve,
)
from workloads.run_stats import RecordedChoices, RunStats

B200 = find_chip("b200")
MEMORY = chip_memory(B200)
ENTRIES = MixPart(584, 584, False, 30.0)
STREAM = MixPart(0, 0, False, 30.0)
DECODE = ((1, 32_768),) * 64
STATED = Picked(584, 64, 1024, DECODE, RunStats())


def recorded(picks: np.ndarray, requests: np.ndarray | None = None) -> RunStats:
    owners = np.arange(len(picks)) if requests is None else requests
    return RunStats.of(
        RecordedChoices(
            digest=str(hash(picks.tobytes())), picks={"a": picks}, experts={}, requests=owners
        )
    )


def in_groups(group: int, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    firsts = [random.permutation(32_768 // group)[: 1024 // group] * group for _ in range(64)]
    return np.stack([np.sort((f[:, None] + np.arange(group)).reshape(-1)) for f in firsts])


def share(picked: Picked | Chosen, part: MixPart = ENTRIES) -> float:
    curve = window_curve(B200, Window((part,), {picked.pattern: picked}))
    return curve.full_bytes_per_s / B200.hbm_bandwidth_bytes_per_s


def test_a_stack_sees_its_share_of_every_access_in_order() -> None:
    random = np.random.default_rng(3)
    whole = access_list(random.integers(0, 1 << 36, 20_000), 584)
    seen = stack_pieces(whole, MEMORY)
    stacks = MEMORY.channels // MEMORY.simulated_channels
    assert seen.nbytes * stacks == pytest.approx(whole.nbytes, rel=0.03)
    assert seen.sizes.max() == 584
    assert (seen.starts // 4096 == (seen.starts + seen.sizes - 1) // 4096).all()
    one = replace(MEMORY, channels=MEMORY.simulated_channels)
    alone = stack_pieces(whole, one)
    assert alone.nbytes == whole.nbytes
    assert set(whole.starts) <= set(alone.starts)
    long = stack_pieces(access_list([1000], 10 * 32_768), MEMORY)
    assert long.nbytes == pytest.approx(10 * 4096, abs=4096)


def test_parts_keep_their_bytes_and_their_pace() -> None:
    mix = (STREAM, ENTRIES)
    runs = addressed_runs(mix, {STATED.pattern: STATED}, MEMORY)
    place = MEMORY.preset.organisation.channel_bytes * 16 // 2 // 4096 * 4096
    entries = runs.starts >= place
    assert runs.sizes[entries].sum() == pytest.approx(WINDOW_BYTES / 2, rel=0.01)
    assert runs.sizes[~entries].sum() == pytest.approx(WINDOW_BYTES / 2, rel=0.01)
    half = runs.count // 2
    assert runs.sizes[:half][entries[:half]].sum() == pytest.approx(WINDOW_BYTES / 4, rel=0.03)


def test_bytes_of_the_trace_are_those_of_the_sectors_asked_for() -> None:
    runs = addressed_runs((ENTRIES,), {STATED.pattern: STATED}, MEMORY)
    cache = chip_cache(B200, 16 / 128)
    sectors: set[int] = set()
    for start, size in zip(runs.starts, runs.sizes, strict=True):
        sectors.update(range(start // 32, (start + size - 1) // 32 + 1))
    assert missed_runs(runs, cache).sizes.sum() == 32 * len(sectors)


def test_equal_questions_have_equal_windows_and_are_simulated_once() -> None:
    window = Window((ENTRIES,), {STATED.pattern: STATED})
    again = Window((ENTRIES,), {STATED.pattern: replace(STATED)})
    assert window_curve(B200, window) is window_curve(B200, again)
    first, second = (addressed_runs((ENTRIES,), window.known, MEMORY) for _ in range(2))
    assert (first.starts == second.starts).all()


def test_scattered_picks_are_as_a_gather_and_neighbours_are_faster() -> None:
    drawn = window_curve(B200, Window((ENTRIES,), {})).full_bytes_per_s
    scattered = share(Picked(584, 64, 1024, DECODE, recorded(in_groups(1))))
    assert share(STATED) == pytest.approx(drawn / B200.hbm_bandwidth_bytes_per_s, rel=0.02)
    assert scattered == pytest.approx(share(STATED), rel=0.02)
    assert share(Picked(584, 64, 1024, DECODE, recorded(in_groups(16)))) > 1.03 * scattered


def test_chosen_experts_stream() -> None:
    ids = np.random.default_rng(2).integers(0, 384, (64, 6))
    choices = RecordedChoices(digest="e", picks={}, experts={"a": ids}, requests=np.arange(64))
    chosen = Chosen(2_000_000, 384, RunStats.of(choices))
    stream = window_curve(B200, Window((STREAM,), {})).full_bytes_per_s
    assert share(chosen, STREAM) == pytest.approx(stream / B200.hbm_bandwidth_bytes_per_s, rel=0.05)
    runs = chosen.runs(10**6, 10**10, 148)
    assert set(runs.starts // 2_000_000) <= set(ids.reshape(-1).tolist())


def test_a_request_of_many_queries_fetches_an_entry_once() -> None:
    picks = np.array([[4, 1, -1], [1, 9, 4], [9, 2, 1]])
    assert list(first_picks(picks)) == [4, 1, 9, 2]
    assert list(turns_of(np.arange(8), 2, 2)) == [0, 1, 4, 5, 2, 3, 6, 7]
    prefill = Picked(584, 64, 1024, ((200, 32_768),), RunStats())
    assert again_share(prefill, chip_cache(B200)) == 0
    assert again_share(prefill, CacheSpec(capacity_bytes=64 * 1024)) > 5
    assert again_share(STATED, CacheSpec(capacity_bytes=64 * 1024)) == 0
    runs = prefill.runs(10**7, 10**10, 148)
    assert runs.nbytes >= 10**7  # requests come again where one is too short


def test_windows_side_by_side_keep_patterns_and_addresses() -> None:
    both = joined_windows(
        [Window((STREAM,), {}), Window((ENTRIES, STREAM), {STATED.pattern: STATED})]
    )
    assert both.mix == (replace(STREAM, nbytes=60.0), ENTRIES)
    assert both.known == {STATED.pattern: STATED}
    assert both.rated(1.0).nbytes == pytest.approx(1.0)
