"""Which preset a chip's memory has: named, by type and rate, by type alone, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwmodels.chip import ChipSpec, find_chip, list_chips
from hwmodels.dram.chip_memory import chip_memory, chip_preset, preset_name
from hwmodels.dram.preset import find_preset
from simulator.basis.errors import FileFormatError, InputError, UnsupportedError
from tests.own_files import copied

CHIPS = Path(__file__).parents[3] / "hwmodels" / "chips"
PRESETS = CHIPS.parent / "dram" / "presets"
H200_RATE = "pin_rate: {value: 6.25,"


def h200(folder: Path, *changes: tuple[str, str]) -> ChipSpec:
    copied(folder, CHIPS / "h200.yaml", "mine.yaml", *changes)
    return find_chip(folder / "mine.yaml")


def h200_with(folder: Path, text: str) -> ChipSpec:
    """With lines beside the preset in the section of the memory."""
    return h200(folder, ("  preset: hbm3e_6250\n", f"  preset: hbm3e_6250\n{text}"))


def line(key: str, value: float, unit: str) -> str:
    return f"  {key}: {{value: {value}, unit: {unit}, kind: guessed, note: made up}}\n"


def unnamed(folder: Path, kind: str, rate: float) -> ChipSpec:
    return h200(
        folder,
        ("  preset: hbm3e_6250\n", ""),
        ("type: HBM3e", f"type: {kind}"),
        (H200_RATE, f"pin_rate: {{value: {rate},"),
    )


# Chips whose memory has no preset of its own: shares of the peak are those of the nearest one,
# whose pins are faster by as much.
STANDS_IN = {"mi325x": 0.07, "rtx-4090": 0.34}


@pytest.mark.parametrize("name", list_chips())
def test_shipped_chips_name_their_preset(name: str) -> None:
    chip = find_chip(name)
    assert chip.memory.preset is not None
    assert not chip.memory.replaced
    preset = chip_preset(chip)
    assert preset is find_preset(chip.memory.preset)
    assert chip_memory(chip).preset is preset
    near = STANDS_IN.get(name, 0.01)
    assert preset.pin_rate.si == pytest.approx(chip.memory.pin_rate.si, rel=near)


@pytest.mark.parametrize(
    ("kind", "rate", "preset"),
    [
        ("HBM3e", 6.25, "hbm3e_6250"),
        ("hbm3E", 8.0, "hbm3_8000"),
        ("HBM3", 5.2, "hbm3_5200"),
        ("GDDR7", 7.8, "gddr7_28000"),
        ("LPDDR5X", 9.6, "lpddr5x_8533"),
        ("HBM4", 11.0, "hbm4_8000"),
    ],
)
def test_a_file_without_a_preset_goes_by_type_and_rate_or_by_a_type_with_one_preset(
    tmp_path: Path, kind: str, rate: float, preset: str
) -> None:
    assert preset_name(unnamed(tmp_path, kind, rate)) == preset


@pytest.mark.parametrize(("kind", "rate"), [("HBM3e", 9.2), ("HBM9", 6.25)])
def test_an_unknown_memory_says_what_to_write(tmp_path: Path, kind: str, rate: float) -> None:
    chip = unnamed(tmp_path, kind, rate)
    with pytest.raises(UnsupportedError) as caught:
        chip_memory(chip)
    said = caught.value.message
    assert said.startswith(
        f"chip 'h200 (mine.yaml)': memory type '{kind}' at {rate:g} Gb/s has no DRAM preset of its "
        "own; write memory: {preset: "
    )
    assert "with one of gddr7_28000, hbm2_2400, " in said
    assert "\n" not in said


def test_a_named_preset_wins_over_type_and_rate(tmp_path: Path) -> None:
    chip = h200(tmp_path, ("preset: hbm3e_6250", "preset: hbm2_2400"))
    assert chip_preset(chip) is find_preset("hbm2_2400")


def test_a_preset_of_a_file_is_found_beside_the_chip(tmp_path: Path) -> None:
    copied(tmp_path, PRESETS / "hbm3_6400.yaml", "own/timing.yaml")
    chip = h200(tmp_path, ("preset: hbm3e_6250", "preset: own/timing.yaml"))
    preset = chip_preset(chip)
    assert preset.name == "hbm3_6400 (timing.yaml)"
    assert preset.numbers == find_preset("hbm3_6400").numbers


def test_an_edited_preset_file_is_read_again(tmp_path: Path) -> None:
    import os

    source = PRESETS / "hbm3_6400.yaml"
    copied(tmp_path, source, "timing.yaml")
    chip = h200(tmp_path, ("preset: hbm3e_6250", "preset: timing.yaml"))
    assert chip_preset(chip).timing.in_clocks["CL"] == 20
    copied(tmp_path, source, "timing.yaml", ("CL: {value: 20", "CL: {value: 22"))
    os.utime(tmp_path / "timing.yaml", ns=(1, 1))
    assert chip_preset(chip).timing.in_clocks["CL"] == 22


def test_numbers_of_the_preset_stand_in_the_chips_file(tmp_path: Path) -> None:
    chip = h200_with(tmp_path, line("RC", 60, "ns") + line("rows", 1024, '"1"'))
    memory = chip_memory(chip)
    assert memory.preset.timing.in_clocks["RC"] == 94  # 60 ns / 0.64 ns = 93.75
    assert memory.preset.organisation.rows.whole == 1024
    assert memory.preset.name == "hbm3e_6250 with RC 60 ns, rows 1024"


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        (line("RC", 20, "ns"), "memory.RC", r"tRC is 32 clocks, expected at least tRAS \+ tRP"),
        (line("RC", 60, "GB"), "memory.RC", "unit 'GB' measures B, expected a unit of clk or s: "),
        (line("RC", 88.5, "clk"), "memory.RC", "value is 88.5 clk, expected a whole number"),
        (line("RC", 0, "ns"), "memory.RC", "value is 0, expected more than 0"),
        (line("rows", 1.5, '"1"'), "memory.rows", "value is 1.5, expected a whole number$"),
    ],
)
def test_a_fault_is_said_at_its_line(tmp_path: Path, text: str, key: str, words: str) -> None:
    with pytest.raises(FileFormatError, match=rf"mine\.yaml:11: '{key}': {words}"):
        h200_with(tmp_path, text)


def test_unknown_keys_and_presets(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"unknown key 'memory.RCX': did you mean 'RC"):
        h200_with(tmp_path, line("RCX", 60, "ns"))
    with pytest.raises(
        InputError, match=r"mine\.yaml:10: 'memory.preset': unknown DRAM preset 'hbm3e_6251'"
    ):
        h200(tmp_path, ("preset: hbm3e_6250", "preset: hbm3e_6251"))
    with pytest.raises(InputError, match=r"'memory.preset': .*no\.yaml: no such DRAM preset file"):
        h200(tmp_path, ("preset: hbm3e_6250", "preset: no.yaml"))


def test_numbers_without_a_preset_to_put_them_into(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"write memory: \{preset: "):
        h200(
            tmp_path,
            ("  preset: hbm3e_6250\n", line("RC", 60, "ns")),
            ("type: HBM3e", "type: HBM9"),
        )


@pytest.mark.parametrize(
    ("key", "old"),
    [("memory.stacks", "stacks: {value: 6"), ("cores.count", "count: {value: 132"),
     ("memory.channels_per_stack", "channels_per_stack: {value: 16"),
     ("memory.channel_width", "channel_width: {value: 64"),
     ("llc.capacity", "capacity: {value: 50"), ("llc.partitions", "partitions: {value: 2")],
)  # fmt: skip
def test_counts_of_zero_are_refused(tmp_path: Path, key: str, old: str) -> None:
    zero = old.partition("value: ")[0] + "value: 0"
    with pytest.raises(FileFormatError, match=f"'{key}': value is 0, expected more than 0"):
        h200(tmp_path, (old, zero))
