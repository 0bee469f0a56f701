"""Edits of a chip beside its file: what they change, the name that they give, their faults."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hwmodels.chip import find_chip, list_chips
from hwmodels.chip_edits import PRESET, edited_chip, number_keys
from hwmodels.dram.chip_memory import chip_preset
from hwmodels.node import find_node, load_node
from simulator.basis.errors import InputError
from simulator.basis.sourced import Sourced

SHIPPED = Path(__file__).parents[2] / "hwmodels" / "chips"
B200 = find_chip("b200")


def test_no_edits_leave_the_chip_itself() -> None:
    assert edited_chip(B200, []) is B200


@pytest.mark.parametrize(
    ("edit", "name", "path", "si"),
    [
        ("cores.count=120", "cores.count=120", "cores.count", 120),
        ("llc.capacity=64MiB", "llc.capacity=64 MiB", "llc.capacity", 64 * 2**20),
        ("llc.capacity = 64", "llc.capacity=64 MiB", "llc.capacity", 64 * 2**20),
        ("memory.bandwidth=8 TB/s", "memory.bandwidth=8 TB/s", "memory.bandwidth", 8e12),
        ("memory.bandwidth=8e3", "memory.bandwidth=8000 GB/s", "memory.bandwidth", 8e12),
        ("memory.RC=60ns", "memory.RC=60 ns", "memory.RC", 60e-9),
        ("memory.RC=120", "memory.RC=120 clk", "memory.RC", 120),
        ("memory.rows=1024", "memory.rows=1024", "memory.rows", 1024),
        ("launch.graph_gap=900ns", "launch.graph_gap=900 ns", "launch.graph_gap", 9e-7),
        ("matrix.fp8=2e16FLOP/s", "matrix.fp8=2e+16 FLOP/s", "matrix.fp8", 2e16),
        ("dies_per_package=1", "dies_per_package=1", "dies_per_package", 1),
    ],
)
def test_one_number(edit: str, name: str, path: str, si: float) -> None:
    chip = edited_chip(B200, [edit])
    assert chip.name == f"b200 ({name})"
    number = chip
    for part in path.split("."):
        number = getattr(number, part)
    assert isinstance(number, Sourced)
    assert number.si == pytest.approx(si)
    assert number.kind == "guessed"


def test_several_edits_and_a_users_file(tmp_path: Path) -> None:
    edits = ["memory.RC=60ns", "cores.count=120"]
    assert edited_chip(B200, edits).name == "b200 (memory.RC=60 ns, cores.count=120)"
    shutil.copy(SHIPPED / "b200.yaml", tmp_path / "mine.yaml")
    own = find_chip(tmp_path / "mine.yaml")
    assert edited_chip(own, edits[:1]).name == "b200 (mine.yaml, memory.RC=60 ns)"


def test_timings_and_the_preset_itself() -> None:
    assert chip_preset(edited_chip(B200, ["memory.RC=60ns"])).timing.in_clocks["RC"] == 117
    slower = edited_chip(B200, [f"{PRESET}=hbm3_6400"])
    assert chip_preset(slower).name == "hbm3_6400"
    assert slower.name == "b200 (memory.preset=hbm3_6400)"
    # Together: 60 ns are 96 clocks of 625 ps.
    both = edited_chip(B200, [f"{PRESET}=hbm3_6400", "memory.RC=60ns"])
    assert chip_preset(both).timing.in_clocks["RC"] == 96
    with pytest.raises(InputError, match=r"--set memory.preset=no: unknown DRAM preset 'no'"):
        edited_chip(B200, [f"{PRESET}=no"])


def test_every_number_that_a_chip_has_can_be_edited() -> None:
    for name in list_chips():
        chip = find_chip(name)
        for key in number_keys():
            section, _, last = key.rpartition(".")
            place = getattr(chip, section) if section else chip
            number = getattr(place, last, None)
            if number is None:
                continue
            edited = edited_chip(chip, [f"{key}={number.value}"])
            found = getattr(getattr(edited, section) if section else edited, last)
            assert (found.value, found.unit) == (number.value, number.unit), key


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ("cors.count=3", r"unknown key 'cors.count': near it are cores\.count, "),
        ("RC=60ns", r"unknown key 'RC': near it are memory\.RC$"),
        ("memory.rc=60ns", r"unknown key 'memory.rc': near it are memory\.RC, "),
        ("launch=3us", r"near it are launch\.graph_gap, launch\.stream_gap"),
        ("name=3", "unknown key 'name': "),
        ("zzz=3", r"unknown key 'zzz': keys begin with dies_per_package, memory, llc, "),
        ("cores.count", "no value is given, expected KEY=VALUE"),
        ("cores.count=", "'' is no number with a unit"),
        ("cores.count=many", "'many' is no number with a unit, expected a form such as 60ns"),
        ("memory.bandwidth=nan", "'nan' is no number"),
        ("memory.bandwidth=8ns", "unit 'ns' measures s, expected a unit of B/s: B/s, kB/s"),
        ("memory.bandwidth=8TBps", r"unknown unit 'TBps'; did you mean 'TB/s'\?"),
        ("memory.RC=60MHz", "unit 'MHz' measures Hz, expected a unit of clk or s"),
        ("cores.count=0", "value is 0, expected more than 0"),
        ("memory.RC=-60ns", "value is -60, expected more than 0"),
        ("cores.count=1.5", "value is 1.5, expected a whole number$"),
        ("memory.RC=1.5clk", "value is 1.5 clk, expected a whole number of clk"),
        ("cores.count=1e7", r"value is 1e\+07, expected 1 to 1\.04858e\+06"),
        ("cores.count=1e999", "'1e999' is beyond any machine, expected at most 1e"),
        ("cores.count=" + 5000 * "9", "is beyond any machine"),
        ("memory.preset=", "unknown DRAM preset ''"),
        ("memory.latency=1h", "value is 3600 s, expected 1e-12 to 1 s"),
        ("cores.l0a=64", "64 has no unit, and b200 gives no cores.l0a .*; try cores.l0a=64B"),
        ("near_cache.capacity=4MiB", "b200 has no near_cache"),
        ("memory.RC=10ns", r"tRC is 20 clocks, expected at least tRAS \+ tRP = 55 \+ 32 = 87"),
        ("memory.rows=1e9", "rows is 1000000000, expected at most 16777216"),
    ],
)
def test_a_fault_is_one_sentence(edit: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        edited_chip(B200, [edit])
    assert caught.value.message.startswith(f"--set {edit}: ")
    assert "\n" not in caught.value.message


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        edited_chip(B200, ["cors.count=3", "cores.count=0", "memory.RC=60ns", "llc.capacity=1s"])
    said = caught.value.message
    assert said.count("--set ") == 3
    assert "--set cores.count=0: value is 0" in said
    assert "--set llc.capacity=1s: unit 's' measures s" in said
    with pytest.raises(
        InputError, match=r"^--set cores.count=0: .*; --set memory.RC=1ns: tRC is 2 "
    ):
        edited_chip(B200, ["memory.RC=1ns", "cores.count=0"])


def test_a_key_given_twice() -> None:
    with pytest.raises(InputError, match=r"cores.count is set already, by 'cores.count=3'"):
        edited_chip(B200, ["cores.count=3", "cores.count=4"])


def test_numbers_that_contradict_each_other_together() -> None:
    good = ["memory.RAS=80", "memory.RC=112"]
    assert chip_preset(edited_chip(B200, good)).timing.in_clocks["RC"] == 112
    with pytest.raises(InputError, match=r"^--set memory.RC=111: tRC is 111 clocks, .* 112"):
        edited_chip(B200, ["memory.RAS=80", "memory.RC=111"])


def test_edited_links_are_those_of_the_node() -> None:
    node = find_node("mi300x", 8)
    chip = edited_chip(find_chip("mi300x"), ["scale_up.bandwidth=700"])
    edited = node.with_links_of(chip)
    assert edited.link_bytes_per_s == 700e9
    assert edited.peer_bytes_per_s == 100e9
    assert node.with_links_of(find_chip("mi300x")) is node
    assert load_node("mi300x-x8").link_bytes_per_s == 448e9
