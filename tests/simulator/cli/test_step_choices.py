"""`v4sim step --choices`: recorded ids decide the step, and a bad file is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.cli.main import main
from simulator.evaluate.choices import ChoiceRecord, write_choices

STEP = [
    "step", "--model", "v4-flash", "--chip", "b200", "--count", "8", "--batch", "256",
    "--context", "8192",
]  # fmt: skip


def written(path: Path, model: str = "v4-flash", columns: int = 512) -> Path:
    random = np.random.default_rng(4)
    record = ChoiceRecord()
    near = random.integers(0, 1500, 32)[:, None] + np.arange(columns)
    record.taken["layer02/attn/indexer/top_k", "top-k"] = [near]
    few = np.stack([random.permutation(40)[:6] for _ in range(32)])
    record.taken["layer03/moe/route", "experts"] = [few]
    write_choices(path, model, record, [np.arange(32)])
    return path


def answer(tmp_path: Path, *options: object) -> dict[str, Any]:
    out = tmp_path / "answer.json"
    assert main([str(a) for a in (*STEP, "--exact-context", *options, "--json", out)]) == 0
    return json.loads(out.read_text())


@pytest.mark.parametrize("fidelity", ["tile", "cycle"])
def test_recorded_choices_decide_the_step(tmp_path: Path, fidelity: str) -> None:
    path = written(tmp_path / "run.npz")
    options = ("--engine", "ideal", "--fidelity", fidelity)
    stated = answer(tmp_path, *options)
    found = answer(tmp_path, *options, "--choices", path)
    assert found["total_ps"] < 0.8 * stated["total_ps"]  # 40 of 256 experts
    notes = " ".join(found["notes"])
    assert "those of run.npz" in notes
    assert "layers with picks: 1, with experts: 1" in notes
    # 512 entries one after the other share sectors and rows; the tile rung knows no addresses.
    core = [
        sum(k["busy_ps"]["memory"] for k in step["kernels"] if k["name"] == "core")
        for step in (stated, found)
    ]
    assert core[1] < core[0] if fidelity == "cycle" else core[1] == core[0]


def test_measured_kernels_that_recorded_choices_do_not_change_are_said(tmp_path: Path) -> None:
    path = written(tmp_path / "run.npz")
    tile, cycle = (
        (answer(tmp_path, *options), answer(tmp_path, *options, "--choices", path))
        for options in ((), ("--fidelity", "cycle"))
    )
    assert tile[0]["total_ps"] == tile[1]["total_ps"]
    said = "sglang-0.5 were measured without them and take the times of stated ids"
    assert said in " ".join(tile[1]["notes"])
    assert cycle[1]["total_ps"] < cycle[0]["total_ps"]
    assert said not in " ".join(cycle[1]["notes"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "there is no file of choices"),
        ({"model": "v4-pro"}, "record choices of that"),
        ({"columns": 100}, "expected whole numbers [32, 512]"),
    ],
)
def test_a_bad_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any] | None, words: str
) -> None:
    path = tmp_path / "run.npz"
    if change is not None:
        written(path, **change)
    assert main([*STEP, "--choices", str(path)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert words in lines[0]
    assert str(path) in lines[0]
