"""Windows of a kernel's traffic: bytes add up, seeds repeat, long runs agree with the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hwmodels.bandwidth import curve as curve_module
from hwmodels.bandwidth.curve import rate_curve
from hwmodels.bandwidth.mix import MixPart, joined_parts, normalised, write_fraction
from hwmodels.bandwidth.reuse import fetched_again_bytes, matrix_again_bytes, picked_again_share
from hwmodels.bandwidth.window import missed_runs, simulate_window, window_runs
from hwmodels.chip import find_chip, list_chips
from hwmodels.dram.chip_memory import chip_memory
from hwmodels.llc.accesses import access_list
from hwmodels.llc.spec import CacheSpec, chip_cache
from simulator.basis.errors import InputError
from tests.oracles.tile_model import mix_efficiency

B200 = find_chip("b200")
MEMORY = chip_memory(B200)
SLICE = chip_cache(B200, 16 / 128)
STREAM = MixPart(0, 0, False, 60.0)
ENTRIES = MixPart(584, 584, False, 30.0)
APPENDS = MixPart(584, 584, True, 10.0)
MIX = (STREAM, ENTRIES, APPENDS)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(curve_module, "_known", {})


def test_runs_have_the_shares_and_sizes_of_the_mix() -> None:
    runs = window_runs(MIX, MEMORY, 1 << 22, seed=1)
    total = runs.sizes.sum()
    assert total == pytest.approx(1 << 22, rel=0.01)
    assert runs.sizes[runs.writes == 1].sum() / total == pytest.approx(0.1, abs=0.01)
    entries = (runs.sizes == 584) & (runs.writes == 0)
    assert runs.sizes[entries].sum() / total == pytest.approx(0.3, abs=0.01)
    place = MEMORY.preset.organisation.channel_bytes * 16 // 3 // 4096 * 4096
    assert ((runs.starts[entries] - place) % 584 == 0).all()
    # The parts advance together: each half of the window has its share of each.
    first_half = runs.sizes[: len(runs.sizes) // 2][entries[: len(runs.sizes) // 2]].sum()
    assert first_half == pytest.approx(runs.sizes[entries].sum() / 2, rel=0.02)


def test_bytes_of_the_trace_are_the_bytes_counted() -> None:
    runs = window_runs(MIX, MEMORY, 1 << 20, seed=1)
    missed = missed_runs(runs, SLICE)
    asked, partial = set(), set()
    for start, size, write in zip(runs.starts, runs.sizes, runs.writes, strict=True):
        end = start + size
        if write:  # a sector that is written in part is fetched before
            partial |= {edge // 32 for edge in (start, end) if edge % 32}
        else:
            asked |= set(range(start // 32, (end - 1) // 32 + 1))
    assert missed.sizes[missed.writes == 0].sum() == 32 * len(asked | partial)
    found = simulate_window((STREAM, ENTRIES), MEMORY, SLICE, 16 * 32_768, window_bytes=1 << 20)
    assert found.moved_bytes == found.fetched_bytes  # every burst of it, once
    assert found.fetched_bytes / found.asked_bytes == pytest.approx(1 + 1 / 3 * 24 / 584, abs=0.01)


def test_the_same_seed_gives_the_same_trace_to_the_picosecond() -> None:
    one, two, other = (
        simulate_window(MIX, MEMORY, SLICE, 16 * 32_768, window_bytes=1 << 20, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one == two
    assert one.duration_ps != other.duration_ps


@pytest.mark.parametrize("seed", [2, 3])
def test_windows_are_steady_across_seeds(seed: int) -> None:
    base = simulate_window(MIX, MEMORY, SLICE, 16 * 32_768, seed=1).useful_share
    assert simulate_window(MIX, MEMORY, SLICE, 16 * 32_768, seed=seed).useful_share == (
        pytest.approx(base, abs=0.02)
    )


@pytest.mark.parametrize("name", list_chips())
@pytest.mark.parametrize("run", [0, 4096, 8448, 65_536])
def test_table_and_window_agree_for_long_runs(name: str, run: int) -> None:
    chip = find_chip(name)
    mix = (MixPart(run, run, False, 1.0),)
    simulated = rate_curve(chip, mix).full_bytes_per_s / chip.hbm_bandwidth_bytes_per_s
    assert simulated == pytest.approx(mix_efficiency(chip, mix), rel=0.05)


def test_few_bytes_in_flight_take_the_latency_of_the_chip() -> None:
    found = rate_curve(B200, (STREAM,))
    flight, rate = found.in_flight_bytes[1], found.bytes_per_s[1]
    # 2 KiB in each channel's DRAM: whole turns of 4 KiB wait for one another there.
    assert B200.dram_latency_s < flight / rate < 1.3 * B200.dram_latency_s
    assert list(found.bytes_per_s) == sorted(found.bytes_per_s)


def test_alike_mixes_are_simulated_once_and_kept(tmp_path: Path) -> None:
    first = rate_curve(B200, (STREAM, ENTRIES))
    scaled = tuple(replace(part, nbytes=part.nbytes * 1e6) for part in (STREAM, ENTRIES))
    assert rate_curve(B200, scaled) is first
    files = list((tmp_path / "v4sim" / "cycle").iterdir())
    assert len(files) == 1
    curve_module._known.clear()
    assert rate_curve(B200, (STREAM, ENTRIES)) == first
    files[0].write_text("[1")  # cut off
    curve_module._known.clear()
    assert rate_curve(B200, (STREAM, ENTRIES)) == first


def test_without_a_place_for_files_curves_are_kept_in_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert rate_curve(B200, (STREAM,)) is rate_curve(B200, (STREAM,))


def test_mixes() -> None:
    assert joined_parts([STREAM, STREAM, replace(STREAM, nbytes=0.0)]) == (
        replace(STREAM, nbytes=120.0),
    )
    assert write_fraction(MIX) == pytest.approx(0.1)
    assert [part.nbytes for part in normalised(MIX)] == [38, 19, 6]
    with pytest.raises(InputError, match="at least one pattern"):
        simulate_window((), MEMORY, SLICE, 1000)


def test_tiles_fetch_again_what_a_small_cache_lost() -> None:
    """1024 x 1024 of 4096 deep in FP8: 8 MiB of operands, 64 tiles of two times 512 KiB."""
    large = CacheSpec(capacity_bytes=32 << 20)
    small = CacheSpec(capacity_bytes=1 << 20)
    arguments = (1024, 1024, 4096, 1.0, 1.0)
    assert matrix_again_bytes(large, 8, *arguments) == 0
    # A wave of 8 row tiles reads all activations and one column tile of weights: 8 waves.
    assert matrix_again_bytes(small, 8, *arguments) == pytest.approx(7 * (4 << 20), rel=0.01)
    assert matrix_again_bytes(small, 8, 100, *arguments[1:]) == 0  # one row tile


def test_picks_that_stay_cost_nothing_again() -> None:
    cache = chip_cache(B200)
    assert picked_again_share(cache, 584, 200, 1024, 51.2) == 0
    tiny = CacheSpec(capacity_bytes=64 * 1024)
    assert picked_again_share(tiny, 584, 200, 1024, 51.2) > 5
    assert picked_again_share(tiny, 584, 1, 1024, 0) == 0


def test_fetched_again_counts_whole_lines() -> None:
    order = access_list(np.array([0, 1, 2, 0, 1, 2]) * 1000, 1000)
    assert fetched_again_bytes(CacheSpec(capacity_bytes=16_000, ways=16), order, 1000) == 0
    assert fetched_again_bytes(CacheSpec(capacity_bytes=2000, ways=2), order, 1000) == 3000
