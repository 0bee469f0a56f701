"""`v4sim compare` and `v4sim explain` as they are typed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from simulator.cli.main import main
from tests.sampling import WHOLE

STEP = ("--model", "v4-flash", "--count", "8", "--batch", "16", "--context", "4096")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, " ".join(out.split()), " ".join(err.split())


def test_options_and_runs_say_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("c.json", "c.csv", "c.html")]
    code, out, _ = run(
        capsys, "compare", *STEP, "--chip", "h200,b200", "--json", files[0], "--csv", files[1],
        "--page", files[2],
    )  # fmt: skip
    assert code == 0
    data = json.loads(files[0].read_text())
    assert data["answer"] in out
    rows = list(csv.DictReader(files[1].open()))
    assert sum(int(row["change_2_ps"]) for row in rows) == data["sides"][1]["change_ps"]
    assert "By kind of layer" in files[2].read_text()
    for chip in ("h200", "b200"):
        assert run(capsys, "step", *STEP, "--chip", chip, "--out", tmp_path / chip)[0] == 0
    again = tmp_path / "again.json"
    runs = (tmp_path / "h200", tmp_path / "b200")
    code, _, _ = run(capsys, "compare", *runs, "--json", again)
    assert code == 0
    told = json.loads(again.read_text())
    assert [side["name"] for side in told["sides"]] == ["h200", "b200"]
    for key in ("causes", "operations", "layer_kinds"):
        assert told[key] == data[key]
    code, out, _ = run(capsys, "compare", runs[0], runs[0])
    assert code == 0
    assert "the same on h200 #2, part by part" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*STEP, "--chip", "h200"), "1 answer is given"),
        ((*STEP,), "--chip is missing"),
        ((*STEP, "--chip", "h200,b2000"), "unknown chip 'b2000'"),
        (("--model", "v4-flash", "--chip", "h200", "--batch", "1,x"), "'x' is not a whole number"),
        (("nowhere", "--chip", "h200"), "runs are given, and --chip as well"),
        (("nowhere", "there"), "nowhere: no such run"),
        ((*STEP, "--chip", "h200", "--dp", ",".join(map(str, range(1, 27)))), "at most 24"),
    ],
)
def test_faults_are_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = run(capsys, "compare", *arguments)
    assert code == 2
    assert said in err


def test_what_cannot_be_costed_is_said_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "compare", "--model", "v4-pro", "--count", "8", "--chip", "b200,h200",
        "--expert-dtype", "fp4,fp8", "--json", "/dev/null",
    )  # fmt: skip
    assert code == 0
    assert "not compared: h200 fp8: v4-pro on 8 x h200" in out


@pytest.mark.skipif(not WHOLE, reason="takes long: a part of make test-all")
def test_explain_takes_a_run_or_its_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import simulator.whatif.explain as explained

    few = ("memory.bandwidth", "launch.graph_gap")
    numbers = explained.step_numbers

    def some(*given: object) -> object:
        found, coarse = numbers(*given)  # type: ignore[arg-type]
        return [number for number in found if number.name in few], coarse

    monkeypatch.setattr(explained, "step_numbers", some)
    monkeypatch.setattr(explained, "FORMATS", {"index": ("fp4",)})
    edit = ("--set", "cores.clock=1900MHz", "--exact-context")
    assert run(capsys, "step", *STEP, "--chip", "b200", *edit, "--out", tmp_path / "run")[0] == 0
    told = tmp_path / "a.json"
    code, out, _ = run(capsys, "explain", tmp_path / "run", "--levers", "1", "--json", told)
    assert code == 0
    one = json.loads(told.read_text())
    assert one["answer"] in out
    assert {lever["number"]["name"] for lever in one["levers"]} < set(few)
    if WHOLE:
        options = (*STEP, "--chip", "b200", *edit, "--levers", "1")
        assert run(capsys, "explain", *options, "--json", tmp_path / "b.json")[0] == 0
        assert json.loads((tmp_path / "b.json").read_text()) == one
    step = tmp_path / "run" / "decode.json"
    step.write_text(step.read_text().replace(f'"total_ps": {one["total_ps"]}', '"total_ps": 7', 1))
    code, _, err = run(capsys, "explain", step)
    assert code == 2
    assert "its step took 7 ps, but asked again it takes" in err
    code, _, err = run(capsys, "explain", step, "--model", "v4-flash")
    assert code == 2
    assert "give one of both" in err


def test_contexts_are_read_as_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("compare", *STEP[:-2], "--chip", "b200", "--fidelity", "roofline")
    code, out, _ = run(capsys, *asked, "--context", "4K,1M")
    assert code == 0
    assert "4,096" in out or "4096" in out
    assert "1048576" in out.replace(",", "")
