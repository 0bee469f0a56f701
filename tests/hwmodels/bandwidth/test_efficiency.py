"""The table of memory efficiency: what ships is what the model makes, between its entries even."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwmodels.bandwidth import efficiency, made_shares
from hwmodels.bandwidth.access import Access
from hwmodels.bandwidth.efficiency import (
    RUNS,
    WRITE_FRACTIONS,
    edited_stream_share,
    efficiency_table,
    memory_efficiency,
    preset_efficiency,
)
from hwmodels.bandwidth.made_shares import preset_memory
from hwmodels.bandwidth.measurement import measure
from hwmodels.bandwidth.mix import MixPart
from hwmodels.chip import ChipSpec, find_chip, list_chips
from hwmodels.chip_edits import edited_chip
from hwmodels.dram.chip_memory import chip_preset
from hwmodels.dram.preset import find_preset, list_presets
from simulator.kernels.warmth import memory_bytes_per_s
from tests.oracles.tile_model import mix_efficiency

H200 = find_chip("h200")


def test_every_preset_and_pattern_is_in_the_table() -> None:
    table = efficiency_table()
    assert table.write_fractions == WRITE_FRACTIONS
    assert sorted(table.presets) == list_presets()
    for found in table.presets.values():
        assert [int(size) for size in found.gather] == list(RUNS)
        assert all(
            len(row) == len(WRITE_FRACTIONS) for row in (found.stream, *found.gather.values())
        )


@pytest.mark.parametrize("preset", ["hbm3_5200", "hbm3e_7800", "hbm2e_3200"])
@pytest.mark.parametrize(
    ("kind", "run", "written"), [("stream", 4096, 0.0), ("gather", 584, 0.0), ("gather", 64, 0.5)]
)
def test_the_table_is_what_the_model_makes(
    preset: str, kind: str, run: int, written: float
) -> None:
    access = Access(kind=kind, granule_bytes=run, write_fraction=written)
    found = measure(preset_memory(find_preset(preset)), access).useful_fraction
    stored = preset_efficiency(preset, None if kind == "stream" else run, written)
    assert stored == pytest.approx(found, abs=1e-4)


@pytest.mark.parametrize("name", list_chips())
def test_every_chip_has_an_efficiency(name: str) -> None:
    chip = find_chip(name)
    for run in (None, 1, 32, 100, 584, 8448, 10**7):
        assert 0.2 < memory_efficiency(chip, run, 0.3) <= 1


def test_sizes_between_the_entries() -> None:
    low, high = memory_efficiency(H200, 256), memory_efficiency(H200, 512)
    middle = memory_efficiency(H200, 362)  # 256 times the root of two
    assert middle == pytest.approx((low + high) / 2, abs=1e-4)
    assert memory_efficiency(H200, 10**6) == memory_efficiency(H200)


def test_patterns_side_by_side_take_the_time_of_each() -> None:
    gather, stream = MixPart(64, 64, False, 1e6), MixPart(0, 0, False, 3e6)
    expected = 4 / (1 / memory_efficiency(H200, 64) + 3 / memory_efficiency(H200))
    assert mix_efficiency(H200, (stream, gather)) == pytest.approx(expected)


def with_timing(chip: ChipSpec, **nanoseconds: float) -> ChipSpec:
    return edited_chip(chip, [f"memory.{name}={ns}ns" for name, ns in nanoseconds.items()])


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for what is made, and nothing known in the process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(efficiency, "_shares", {})
    return tmp_path


def test_shares_of_an_edited_preset_are_what_the_model_makes(kept: Path) -> None:
    chip = with_timing(H200, RC=120)
    memory = preset_memory(chip_preset(chip))
    assert memory.preset.timing.in_clocks["RC"] == 188  # 120 / 0.64 = 187.5
    for run, written in ((584, 0.0), (64, 0.5), (None, 0.0)):
        kind = "stream" if run is None else "gather"
        access = Access(kind=kind, granule_bytes=run or 4096, write_fraction=written)
        found = measure(memory, access).useful_fraction
        assert memory_efficiency(chip, run, written) == min(1.0, found)
    assert memory_efficiency(chip, 64) < 0.9 * memory_efficiency(H200, 64)


def test_only_what_is_asked_for_is_made_and_once(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chip, made = with_timing(H200, RC=130), []
    real = made_shares.measure
    monkeypatch.setattr(made_shares, "measure", lambda *a: made.append(a[1]) or real(*a))
    first = memory_efficiency(chip, 512)
    assert [(one.granule_bytes, one.write_fraction) for one in made] == [(512, 0.0)]
    assert memory_efficiency(chip, 512) == first
    memory_efficiency(chip, 400, 0.05)  # two sizes, two shares of writes, one of them known
    assert len(made) == 4
    monkeypatch.setattr(efficiency, "_shares", {})  # as in another process
    assert memory_efficiency(chip, 512) == first
    assert len(made) == 4
    assert len(list(kept.rglob("*.json"))) == 4
    for path in kept.rglob("*.json"):
        path.write_text("7")  # no share: made anew
    monkeypatch.setattr(efficiency, "_shares", {})
    assert memory_efficiency(chip, 512) == first
    assert len(made) == 5


def test_a_preset_with_the_numbers_of_a_shipped_one_takes_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(made_shares, "measure", None)
    same = with_timing(H200, RC=45)  # 70.3 clocks, rounded up to the 71 that it has
    assert chip_preset(same) is not chip_preset(H200)
    for run in (None, 64, 600):
        assert memory_efficiency(same, run, 0.3) == memory_efficiency(H200, run, 0.3)


def test_streams_of_an_edited_preset_against_those_before() -> None:
    assert edited_stream_share(H200) is None
    slow = with_timing(H200, FAW=200)
    expected = memory_efficiency(slow) / memory_efficiency(H200)
    assert edited_stream_share(slow) == pytest.approx(expected)
    # Eight activates of a row's 1 KiB in 200 ns on the two pseudo-channels of 50 GB/s, at most.
    assert memory_efficiency(slow) < 8 * 1024 / 200e-9 / 50e9
    assert memory_bytes_per_s(slow) == pytest.approx(4.8e12 * expected)
    assert memory_bytes_per_s(H200) == 4.8e12


def test_many_shares_at_once_are_those_asked_for_one_by_one() -> None:
    chip = with_timing(H200, RC=130)
    shares = efficiency.chip_shares(chip)
    sizes, writes = np.array([0, 6, 6, len(RUNS)]), np.array([0, 0, 1, 0])
    one_by_one = [shares.share(*pair) for pair in zip(sizes, writes, strict=True)]
    assert shares.shares(sizes, writes).tolist() == one_by_one
