"""Presets: what ships, and timing sets that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

import hwmodels.dram.preset as preset_module
from hwmodels.dram.preset import clocks, find_preset, list_presets
from simulator.basis.errors import FileFormatError, InputError

_SHIPPED = Path(preset_module.__file__).parent / "presets"


def edited(tmp_path: Path, name: str, old: str, new: str) -> Path:
    text = (_SHIPPED / f"{name}.yaml").read_text()
    assert old in text
    path = tmp_path / "edited.yaml"
    path.write_text(text.replace(old, new, 1))
    return path


def test_presets_that_ship() -> None:
    assert list_presets() == [
        "gddr7_28000", "hbm2_2400", "hbm2e_3200", "hbm3_5200", "hbm3_6400", "hbm3_8000",
        "hbm3e_6250", "hbm3e_7800", "hbm4_8000", "lpddr5x_8533",
    ]  # fmt: skip
    peaks = {name: find_preset(name).channel_bytes_per_s / 1e9 for name in list_presets()}
    assert peaks["hbm3_5200"] == 41.6
    assert peaks["hbm2_2400"] == 38.4
    assert peaks["hbm3e_6250"] * 96 == pytest.approx(4800)
    assert peaks["gddr7_28000"] == 28  # 28 Gb/s x 8 bits / 8
    assert peaks["lpddr5x_8533"] == pytest.approx(8.533 * 16 / 8, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "gigabytes", "nanoseconds"),
    [("gddr7_28000", 0.5, 51.4), ("lpddr5x_8533", 2, 61.9)],
)
def test_guessed_presets_by_hand(name: str, gigabytes: float, nanoseconds: float) -> None:
    preset = find_preset(name)
    assert preset.organisation.banks_a_pc == 16
    assert preset.organisation.channel_bytes == gigabytes * 2**30
    assert preset.timing.in_clocks["RC"] * preset.clock.si * 1e9 == pytest.approx(
        nanoseconds, abs=0.1
    )
    for number in (preset.timing.RC, preset.timing.CL, preset.organisation.burst):
        assert number.kind == "guessed"
        assert number.note


def test_a_preset_of_a_users_file_is_named_after_it(tmp_path: Path) -> None:
    path = edited(tmp_path, "hbm2_2400", "FAW: {value: 19", "FAW: {value: 20")
    assert find_preset(path).name == "hbm2_2400 (edited.yaml)"
    assert find_preset(path).numbers != find_preset("hbm2_2400").numbers


@pytest.mark.parametrize("name", ["hbm3_5200", "hbm3_8000", "hbm3e_6250", "hbm3e_7800"])
def test_scaled_presets_keep_nanoseconds(name: str) -> None:
    scaled, base = find_preset(name), find_preset("hbm3_6400")
    for key in ("RCDRD", "RP", "RAS", "RC", "FAW", "WR", "CL"):
        number = getattr(scaled.timing, key)
        assert number.kind == "derived"
        ns = clocks(number) * scaled.clock.si
        base_ns = clocks(getattr(base.timing, key)) * base.clock.si
        assert 0 <= ns / scaled.clock.si - base_ns / scaled.clock.si < 1.0001
    assert clocks(scaled.timing.CCDL) == clocks(base.timing.CCDL)


def test_row_cycle_shorter_than_its_parts(tmp_path: Path) -> None:
    path = edited(tmp_path, "hbm2_2400", "RC: {value: 57", "RC: {value: 56")
    with pytest.raises(
        FileFormatError, match=r"tRC is 56 clocks, expected at least tRAS \+ tRP = 40 \+ 17 = 57"
    ):
        find_preset(path)


def test_long_column_delay_below_the_short_one(tmp_path: Path) -> None:
    path = edited(tmp_path, "hbm2_2400", "CCDL: {value: 4", "CCDL: {value: 1")
    with pytest.raises(FileFormatError, match="tCCDL is 1 clocks, expected at least tCCDS = 2"):
        find_preset(path)


def test_missing_number(tmp_path: Path) -> None:
    text = (_SHIPPED / "hbm2_2400.yaml").read_text()
    path = tmp_path / "edited.yaml"
    path.write_text("\n".join(line for line in text.splitlines() if not line.startswith("  FAW")))
    with pytest.raises(FileFormatError, match=r"missing key 'timing\.FAW'"):
        find_preset(path)


def test_bandwidth_that_the_clock_does_not_give(tmp_path: Path) -> None:
    path = edited(tmp_path, "hbm2_2400", "value: 38.4", "value: 48.4")
    with pytest.raises(FileFormatError, match=r"moves 48\.4 GB/s, but .* allow 38\.4"):
        find_preset(path)


def test_too_many_banks(tmp_path: Path) -> None:
    path = edited(tmp_path, "hbm2_2400", "stack_ids: {value: 1", "stack_ids: {value: 8")
    with pytest.raises(FileFormatError, match="has 128 banks, expected at most 64"):
        find_preset(path)


def test_unknown_name() -> None:
    with pytest.raises(InputError, match=r"unknown DRAM preset 'hbm3_520'.*did you mean"):
        find_preset("hbm3_520")
