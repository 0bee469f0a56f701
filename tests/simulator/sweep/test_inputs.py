"""Inputs of a point hold the contents of the files that its chip names."""

from __future__ import annotations

from pathlib import Path

import hwmodels
from simulator.serve.scenario_file import open_scenario
from simulator.sweep.inputs import inputs_of
from tests.own_files import copied
from tests.simulator.sweep.scenarios import TEXT, scenario_file

_HARDWARE = Path(hwmodels.__file__).parent


def test_the_preset_of_a_chips_memory_is_an_input(tmp_path: Path) -> None:
    preset = _HARDWARE / "dram/presets/hbm3e_6250.yaml"
    copied(tmp_path, preset, "timing.yaml")
    change = ("preset: hbm3e_6250", "preset: timing.yaml")
    copied(tmp_path, _HARDWARE / "chips/h200.yaml", "mine.yaml", change)
    scenario = scenario_file(tmp_path, TEXT.replace("chip: h200", "chip: mine.yaml"))
    before = inputs_of(open_scenario(scenario))["chip"]
    assert before["preset"]["file"] == "timing.yaml"
    assert "node" not in before  # it names one that ships
    copied(tmp_path, preset, "timing.yaml", ("RC: {value: 71", "RC: {value: 80"))
    after = inputs_of(open_scenario(scenario))["chip"]
    assert after["sha256"] == before["sha256"]
    assert after["preset"]["sha256"] != before["preset"]["sha256"]
