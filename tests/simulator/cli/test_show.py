"""A run folder holds its command, version and inputs, and prints itself again."""

import json
import sys

import pytest

from simulator.cli.main import main


def run(capsys, monkeypatch, *arguments):
    words = [str(a) for a in arguments]
    monkeypatch.setattr(sys, "argv", ["v4sim", *words])
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_run_is_printed_again_with_its_inputs(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    run(capsys, monkeypatch, "init", "scenario")
    run(capsys, monkeypatch, "init", "prices")
    arguments = ["serve", "my-scenario.yaml", "--set", "traffic.made.requests=20"]
    arguments += ["--set", "prices=my-prices.yaml", "--out", "run"]
    code, first, err = run(capsys, monkeypatch, *arguments)
    assert code == 0, err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["command"] == ["v4sim", *arguments]
    kept = {entry["given"]: tmp_path / "run" / entry["copy"] for entry in record["inputs"]}
    assert set(kept) == {"my-scenario.yaml", "my-prices.yaml"}
    for name, path in kept.items():
        assert path.read_text() == (tmp_path / name).read_text()
    code, again, _ = run(capsys, monkeypatch, "show", "run")
    assert code == 0
    assert first.rstrip() in again
    assert again.startswith("command: v4sim serve my-scenario.yaml --set traffic.made.requests=20")
    kept["my-prices.yaml"].write_text("other")
    assert "changed since" in run(capsys, monkeypatch, "show", "run")[1]


def test_a_question_that_ships_is_kept_too(capsys, monkeypatch, tmp_path) -> None:
    out = tmp_path / "run"
    run(capsys, monkeypatch, "serve", "chat", "--set", "traffic.made.requests=20", "--out", out)
    (entry,) = json.loads((out / "run.json").read_text())["inputs"]
    assert entry["given"] == "chat"
    assert "name: chat" in (out / entry["copy"]).read_text()


@pytest.mark.parametrize("made", [False, True])
def test_another_folder_is_refused(capsys, monkeypatch, tmp_path, made) -> None:
    folder = tmp_path / "other"
    if made:
        folder.mkdir()
        (folder / "run.json").write_text("{}")
    code, _, err = run(capsys, monkeypatch, "show", folder)
    assert code == 2
    assert ("is no record of a run" if made else "no such folder") in err


def test_a_folder_keeps_its_question(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / "copy.yaml"
    run(capsys, monkeypatch, "init", "chip", "--from", "h200")
    copy.write_text((tmp_path / "my-chip.yaml").read_text())
    asked = ["step", "--model", "tiny", "--chip", "my-chip.yaml", "--out", "run"]
    assert run(capsys, monkeypatch, *asked)[0] == 0
    first = (tmp_path / "run/run.json").read_text()
    # The same question goes on, also where its results go elsewhere as well.
    assert run(capsys, monkeypatch, *asked, "--json", "o.json")[0] == 0
    code, out, err = run(capsys, monkeypatch, *asked, "--batch", 2)
    assert (code, out) == (2, "")
    assert err.startswith("error: --out run: holds the results of another question: v4sim step")
    assert (
        json.loads(first)["printed"]
        == json.loads((tmp_path / "run/run.json").read_text())["printed"]
    )
    # Another content of a file is another question.
    (tmp_path / "my-chip.yaml").write_text(copy.read_text().replace("value: 132", "value: 130"))
    assert run(capsys, monkeypatch, *asked)[0] == 2
    assert run(capsys, monkeypatch, *asked, "--force")[0] == 0
    assert run(capsys, monkeypatch, *asked)[0] == 0


@pytest.mark.parametrize("out", ["file", "file/run"])
def test_a_folder_that_cannot_be_is_refused_before_the_work(
    capsys, monkeypatch, tmp_path, out
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("simulator.cost.question.ask", None)
    code, _, err = run(
        capsys, monkeypatch, "step", "--model", "tiny", "--chip", "h200", "--out", out
    )
    assert code == 2
    assert f"--out {out}: cannot make folder {out}" in err
