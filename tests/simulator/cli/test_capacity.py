"""`v4sim capacity`: exit codes, what it prints, and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.cli.options import console

BASE = ["capacity", "--model", "v4-flash", "--chip", "b200", "--count", "8"]


@pytest.mark.parametrize(
    ("options", "exit_code", "start"),
    [
        (["--context", "1048576"], 0, "fits: "),
        (["--context", "1048576", "--requests", "30"], 3, "does not fit: 30 requests of 1,048,576"),
        (["--engine", "vllm-0.33", "--index-dtype", "bf16"], 0, "vllm-0.33 stores no index keys"),
        (["--engine", "trtllm-1.3", "--cp", "2"], 4, "unsupported: trtllm-1.3 keeps"),
    ],
)
def test_exit_codes(
    capsys: pytest.CaptureFixture[str], options: list[str], exit_code: int, start: str
) -> None:
    assert main([*BASE, *options]) == exit_code
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(start) for line in lines[:2])


@pytest.mark.parametrize(
    "options", [["--context", "2000000"], ["--tp", "3"], ["--engine", "vlm-0.33"]]
)
def test_bad_input_is_one_sentence(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert main([*BASE, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1


def test_json_holds_every_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "capacity.json"
    assert main([*BASE, "--context", "8192:3,131072:1", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert sum(found["memory_bytes"].values()) == found["hbm_capacity_bytes"]
    assert [part["share"] for part in found["contexts"]] == [0.75, 0.25]
    for part in found["contexts"]:
        assert sum(pool["bytes"] for pool in part["pools"]) == part["request_bytes"]
    assert found["requests"] == min(found["limits"].values())
    assert f"{found['requests']:,.2f} requests" in capsys.readouterr().out


def test_narrow_terminal_names_the_columns_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    console.cache_clear()
    assert main([*BASE, "--engine", "sglang-0.5"]) == 0
    console.cache_clear()
    out = capsys.readouterr().out
    assert "No room at 60 columns for: grows with." in out
    assert "No room at 60 columns for: what it is." in out
