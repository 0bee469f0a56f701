"""The same question has the same answer: as JSON and in print, by plan and by serve, anywhere."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import v4sim
from simulator.basis.units import format_time_ps
from simulator.cli.main import main
from tests.fuzz.samples import write_samples
from tests.metamorphic.questions import drawn
from tests.metamorphic.test_steps import SEED
from tests.sampling import WHOLE

SCRIPT = """
import hashlib, json, sys
sys.path[:0] = json.loads(sys.argv[1])
import v4sim
from tests.metamorphic.questions import drawn
data = [drawn(77, n, ("tiny",))[1].to_dict() for n in range(int(sys.argv[2]))]
data.append(v4sim.serve("chat", traffic__made__requests=10).to_dict())
print(hashlib.sha256(json.dumps(data).encode()).hexdigest())
"""
PLACES = {
    "hash seed": {"PYTHONHASHSEED": "1"},
    "locale": {"LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8", "PYTHONHASHSEED": "2"},
    "time zone": {"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "3"},
    "folder": {"TZ": "UTC", "PYTHONHASHSEED": "4", "COLUMNS": "40"},
}


def _run(*words: str) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(list(words))
    return code, out.getvalue()


def test_answers_do_not_hang_on_the_place(tmp_path: Path) -> None:
    """Hash seed, locale, time zone and working folder."""
    paths = json.dumps([str(Path(path or ".").resolve()) for path in sys.path])
    wanted = dict(PLACES) if WHOLE else {name: PLACES[name] for name in ("hash seed", "locale")}
    found = {}
    for name, changes in wanted.items():
        folder = tmp_path / name
        folder.mkdir()
        found[name] = subprocess.run(
            [sys.executable, "-c", SCRIPT, paths, "50" if WHOLE else "5"],
            cwd=folder,
            env=os.environ | changes,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("number", range(50 if WHOLE else 5))
def test_what_is_printed_is_what_is_written(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printed sentence and rows are those of `--json`, and of the same question in Python."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    question, answer = drawn(SEED, number, ("tiny",))
    words = ["step", "--json", "o.json", "--exact-context"]
    for name, value in {**question.deployment, **question.step}.items():
        if name != "exact_context" and value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    code, out = _run(*words)
    assert code == 0
    data = json.loads(Path("o.json").read_text())
    assert data == json.loads(json.dumps(answer.to_dict()))
    text = " ".join(out.split())
    assert f"takes {format_time_ps(data['total_ps'])}" in text
    told = format_time_ps(data["total_ps"])
    assert re.search(rf"^step .*{re.escape(told)} .*100.0 %", out, re.MULTILINE), out


def test_the_plan_is_what_serve_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenario that a plan writes is served to the plan's figures."""
    monkeypatch.chdir(tmp_path)
    write_samples(tmp_path)
    code, _ = _run("plan", "plan.yaml", "--no-sensitivity", "--out", "out")
    assert code == 0
    best = v4sim.plan("plan.yaml").result.best
    assert best is not None
    scenarios = [
        path
        for path in sorted(Path("out").glob("*.yaml"))
        if "traffic" in (yaml.safe_load(path.read_text()) or {})
    ]
    served = [v4sim.serve(str(path)) for path in scenarios]
    rates = [one.served.summary.rates.output_tokens_per_s for one in served]
    assert best.output_tokens_per_s in rates


def test_workers_do_not_change_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not WHOLE:
        pytest.skip("a part of make test-all")
    monkeypatch.chdir(tmp_path)
    write_samples(tmp_path)
    tables = []
    for workers in ("1", "2", "3"):
        code, _ = _run(
            "sweep", "chat.yaml", "--workers", workers, "--out", f"out{workers}",
            "--grid", "scheduler.max_requests=2,4,8",
        )  # fmt: skip
        assert code == 0
        tables.append(Path(f"out{workers}/sweep.parquet").read_bytes())
    assert len(set(tables)) == 1


def _hits(lines: list[str], folder: Path, name: str) -> v4sim.PrefixAnswer:
    path = folder / name
    path.write_text("".join(lines))
    return v4sim.prefix(path, "full,zero")


@pytest.mark.parametrize("seed", range(10 if WHOLE else 1))
def test_traces_cut_and_joined(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input tokens of parts add up; parts compute no less, since each begins with no cache."""
    monkeypatch.chdir(tmp_path)
    code, _ = _run(
        "trace", "synth", "--out", "t.jsonl", "--sessions", "3", "--turns-mean", "3",
        "--input-mean", "2000", "--last-input-mean", "3000", "--system-tokens", "100",
        "--seed", str(seed),
    )  # fmt: skip
    assert code == 0
    lines = Path("t.jsonl").read_text().splitlines(keepends=True)
    cut = max(1, len(lines) // 2)
    whole = _hits(lines, tmp_path, "whole.jsonl")
    joined = _hits([*lines[:cut], *lines[cut:]], tmp_path, "joined.jsonl")
    parts = [
        _hits(part, tmp_path, f"part{i}.jsonl")
        for i, part in enumerate((lines[:cut], lines[cut:]))
        if part
    ]
    again = [{**row, "policies": None} for row in (whole.to_dict(), joined.to_dict())]
    assert again[0].keys() == again[1].keys()
    for i, row in enumerate(whole.rows):
        assert joined.rows[i].totals.computed_tokens == row.totals.computed_tokens
        own = [part.rows[i].totals for part in parts]
        assert sum(one.input_tokens for one in own) == row.totals.input_tokens
        assert sum(one.computed_tokens for one in own) >= row.totals.computed_tokens
