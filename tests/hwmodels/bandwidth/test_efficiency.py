"""The table of memory efficiency: what ships is what the model makes, between its entries even."""

from __future__ import annotations

import pytest

from hwmodels.bandwidth.access import Access
from hwmodels.bandwidth.efficiency import (
    efficiency_table,
    memory_efficiency,
    preset_efficiency,
)
from hwmodels.bandwidth.efficiency_table import RUNS, WRITE_FRACTIONS, preset_memory
from hwmodels.bandwidth.measurement import measure
from hwmodels.bandwidth.mix import MixPart
from hwmodels.chip import find_chip, list_chips
from hwmodels.dram.preset import list_presets
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
    found = measure(preset_memory(preset), access).useful_fraction
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
