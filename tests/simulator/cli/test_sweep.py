"""`v4sim sweep`: table, files and JSON, sentences for bad input, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from simulator.cli.main import main
from tests.interrupts import hears_interrupts
from tests.simulator.sweep.scenarios import TEXT, scenario_file

SLOW = TEXT.replace("output_tokens: 4", "output_tokens: 64").replace("512", "2048")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["sweep", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    (line,) = err.strip().splitlines()
    return line.removeprefix("error: ")


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Example: v4sim sweep" in out


def test_table_files_and_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, out = tmp_path / "sweep.json", tmp_path / "out"
    grid = ["--grid", "parallel.tp=1,4", "traffic.made.concurrency=1,4"]
    given = [scenario_file(tmp_path), *grid, "--out", out, "--workers", 1, "--json", path]
    code, text, err = run(capsys, *given)
    assert code == 0
    assert "2 points refused: v4-flash on 1 x h200" in " ".join(text.split())
    assert "4 points: 4 computed" in text
    assert "kept" not in err
    rows = json.loads(path.read_text())["points"]
    assert [(r["parallel.tp"], r["traffic.made.concurrency"]) for r in rows] == [
        (1, 1),
        (1, 4),
        (4, 1),
        (4, 4),
    ]
    assert rows[2]["span_s"] > rows[3]["span_s"]
    table = pq.read_table(out / "sweep.parquet")
    assert table.to_pylist() == rows
    assert {p.stem for p in (out / "parts").iterdir()} == set(table["part"].to_pylist())
    code, again, err = run(capsys, *given)
    assert code == 0
    assert "kept 4 points of" in err
    assert again == text.replace("4 computed", "4 kept")


def test_fields_may_stand_before_or_after_the_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    scenario, shared = scenario_file(tmp_path), ["--workers", 1, "--out", tmp_path / "out"]
    forms = (
        ["--grid", "seed=1,2", "--grid", "replicas=1", *shared],
        ["seed=1,2", "replicas=1", *shared],
        [*shared, "--grid", "seed=1,2", "replicas=1"],
    )
    tables = []
    for form in forms:
        assert run(capsys, scenario, *form)[0] == 0
        tables.append((tmp_path / "out" / "sweep.parquet").read_bytes())
    assert tables[0] == tables[1] == tables[2]


def test_a_shipped_scenario_by_its_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sentence = refused(capsys, "chatt", "--grid", "seed=1", "--out", tmp_path)
    assert "unknown scenario 'chatt': did you mean 'chat'?" in sentence


def test_all_points_failed_is_an_error_after_the_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(
        capsys, scenario_file(tmp_path), "--grid", "parallel.tp=1,2", "--chip", "h100"
    )
    assert code == 2
    assert "No such option" in err
    code, out, err = run(
        capsys,
        scenario_file(tmp_path),
        *("--grid", "parallel.tp=1", "chip=h100,h20", "--out", tmp_path / "out"),
    )
    assert code == 2
    assert "2 points: 2 computed" in out
    assert "error: none of the 2 points could be run: v4-flash on 1 x h100" in err
    assert (tmp_path / "out" / "sweep.parquet").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "needs a grid"),
        (["--grid", "paralel.tp=4"], "did you mean 'parallel'?"),
        (["--grid", "parallel.tp=four"], "--grid parallel.tp=four: 'parallel.tp' is 'four'"),
        (["--grid", "seed=1", "--workers", "0"], "greater than or equal to 1"),
        (["--grid", "seed=1", "--workers", "2", "--scheduler", "tcp://h:1"], "give one of both"),
        (["--grid", "seed=1", "--scheduler", "nowhere"], "missing port number"),
    ],
)
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    sentence = refused(capsys, scenario_file(tmp_path), *arguments, "--out", tmp_path / "out")
    assert words in sentence


def test_a_missing_file_and_a_folder_that_cannot_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "no such scenario file" in refused(capsys, tmp_path / "no.yaml", "--grid", "seed=1")
    sentence = refused(
        capsys, scenario_file(tmp_path), "--grid", "seed=1", "--out", tmp_path / "tiny.yaml"
    )
    assert "cannot make folder" in sentence


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_leaves_what_has_finished(tmp_path: Path, workers: int) -> None:
    parts = tmp_path / "out" / "parts"
    seeds = ",".join(map(str, range(200)))
    command = [sys.executable, "-m", "simulator.cli.main", "sweep", scenario_file(tmp_path, SLOW)]
    command += ["--grid", f"seed={seeds}", "--out", tmp_path / "out", "--workers", str(workers)]
    # A terminal sends the interrupt to the whole group, so the workers get it as well.
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hears_interrupts,
    )
    while running.poll() is None and len(list(parts.glob("*.parquet"))) < 3:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate()
    assert running.returncode == 130, err
    assert out == ""
    kept = len(list(parts.iterdir()))
    assert 3 <= kept < 200
    assert all(path.suffix == ".parquet" for path in parts.iterdir())
    lines = [line for line in err.splitlines() if line.strip()]
    assert lines[-1].startswith(f"error: interrupted; {kept} of 200 points are kept in {parts}")
    assert "Traceback" not in err
