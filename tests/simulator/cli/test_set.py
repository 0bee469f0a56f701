"""`--set`: a chip is edited before it is used, and every answer says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.cli.main import main

STEP = ("step", "--model", "v4-flash", "--engine", "sglang-0.5", "--count", "8")
EDIT = ("--set", "memory.RC=60ns", "--set", "cores.count=120")
NAME = "(memory.RC=60 ns, cores.count=120)"
COMMANDS = {
    "step": "step --model v4-flash --count 8 --chip h200 --engine sglang-0.5",
    "capacity": "capacity --model v4-flash --count 8 --chip h200",
    "layout": "layout --pages 128,256 --padding engine --grouping separate",
    "indexer": "indexer --chip h200 --context 8192 --entries 1024",
    "offload": "offload --count 8 --chip h200",
    "bandwidth": "bandwidth --chip h200 --pattern gather --granule 584",
    "crossover": "prefix crossover --node h200-x8 --engine sglang-0.5",
}


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return " ".join(captured.out.split())


def fault(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    return captured.err


def milliseconds(capsys: pytest.CaptureFixture[str], path: Path, *arguments: object) -> float:
    answer(capsys, *arguments, "--json", path)
    return json.loads(path.read_text())["total_ps"] * 1e-9


@pytest.mark.parametrize("command", COMMANDS)
def test_every_answer_names_the_edits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    said = answer(capsys, *COMMANDS[command].split(), *EDIT, "--json", tmp_path / "a.json")
    assert f"h200 {NAME}" in (tmp_path / "a.json").read_text()
    if command != "crossover":  # whose first line names the node
        assert f"h200 {NAME}" in said


def test_compare_names_the_edits_and_does_not_use_them_without_a_machine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace, path = tmp_path / "t.jsonl", tmp_path / "a.json"
    answer(capsys, "trace", "synth", "--out", trace, "--sessions", 2, "--seed", 3)
    compare = ("prefix", "compare", "--trace", trace, "--policies", "boundary")
    said = answer(capsys, *compare, "--engine", "sglang-0.5", *EDIT, "--json", path)
    assert f"h200 {NAME}" in said
    assert f"h200 {NAME}" in path.read_text()
    said = answer(capsys, *compare, "--reference", "--set", "cores.count=3")
    assert "not used with --reference: --set" in said


def test_an_edit_moves_the_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    step = (*STEP, "--chip", "h200", "--batch", 64, "--context", 65536)
    before = milliseconds(capsys, path, *step)
    assert milliseconds(capsys, path, *step, "--set", "memory.FAW=60ns") > 1.05 * before
    assert milliseconds(capsys, path, *step, "--set", "memory.RC=200ns") > 1.02 * before
    assert milliseconds(capsys, path, *step, "--set", "memory.bandwidth=9600") < before
    assert milliseconds(capsys, path, *step, "--set", "cores.count=132") == before
    assert milliseconds(capsys, path, *step, "--set", "memory.RC=71") == before


def test_assumptions_of_an_edited_memory_are_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    for edits, said in (((), False), (("--set", "memory.RC=60ns"), True)):
        answer(capsys, *STEP, "--chip", "h200", *edits, "--json", path)
        lines = json.loads(path.read_text())["assumptions"]
        assert any("takes the next whole clock of the preset" in line for line in lines) == said
        assert any("as that of a stream does" in line for line in lines) == said


def test_edited_links_reach_the_collectives(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    step = ("step", "--model", "v4-flash", "--chip", "mi300x", "--count", "8", "--engine", "ascend")
    before = milliseconds(capsys, path, *step, "--batch", 64)
    slower = milliseconds(capsys, path, *step, "--batch", 64, "--set", "scale_up.bandwidth=20")
    assert slower > before


def test_faults_are_one_line_and_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    said = fault(capsys, *STEP, "--chip", "b200", "--set", "memory.rc=60ns", "--set", "cores.count")
    assert said.count("\n") == 1
    assert said.startswith("error: --set memory.rc=60ns: unknown key 'memory.rc': near it are ")
    assert "; --set cores.count: no value is given, expected KEY=VALUE" in said
    said = fault(capsys, "bandwidth", "--chip", "b200", "--set", "memory.RC=1ns")
    assert "tRC is 2 clocks, expected at least tRAS + tRP = 55 + 32 = 87" in said
