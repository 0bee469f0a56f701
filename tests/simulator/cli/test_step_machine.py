"""`v4sim step --fidelity cycle` shows what the machine saw: terminal, JSON and page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.cli.main import main
from tests.laws.models import RAW_CONFIG


def test_the_step_shows_what_the_machine_saw(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    model = tmp_path / "tiny.json"
    model.write_text(json.dumps(RAW_CONFIG))
    shape = ("--context", "256", "--engine", "sglang-0.5", "--exact-context")
    out = tmp_path / "out"
    command = ("step", "--model", str(model), "--chip", "h200", *shape, "--fidelity", "cycle")
    assert main([*command, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "occupied" in text
    assert "Queued: requests between a core and memory's answer" in " ".join(text.split())
    data = json.loads((out / "decode.json").read_text())
    for kernel in data["kernels"]:
        if kernel["machine"] is not None:
            assert sum(kernel["machine"]["states_ps"].values()) == kernel["duration_ps"]
    seen = {line["name"]: line for line in data["machine"]}
    assert 0 < seen["experts"]["machine"]["occupancy_share"] <= 1
    assert len(seen["experts"]["stall_shares"]) == 2
    assert 'id="step1-machine"' in (out / "report.html").read_text()
