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
