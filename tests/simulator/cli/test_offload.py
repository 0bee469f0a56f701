"""`v4sim offload`: what it prints, its JSON and page, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.offload import recording

BASE = ["offload", "--dp", "2", "--contexts", "32768,131072"]


def test_answer_tables_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "offload.json"
    assert main([*BASE, "--json", str(path), "--out", str(tmp_path / "page")]) == 0
    text = capsys.readouterr().out
    found = json.loads(path.read_text())
    one = found["asked"]
    assert one["gain"] == pytest.approx(
        one["offloaded"]["tokens_per_s"] / one["plain"]["tokens_per_s"]
    )
    assert f"a gain, {one['gain']:.2f} times." in " ".join(text.split())
    assert "It loses at 32,768 tokens a request" in " ".join(text.split())
    assert [c["context_tokens"] for c in found["contexts"]] == [32768, 131072]
    assert found["contexts"][0]["gain"] < 1 < found["contexts"][1]["gain"]
    assert found["ceiling"] == pytest.approx(3850.25 / 784.25)
    assert len(found["published"]["cases"]) == 6
    assert all(f"Assumes: {text[:20]}" for text in found["assumptions"])
    page = (tmp_path / "page" / "offload.html").read_text()
    assert one["gain"] > 1
    assert "make room for" in page


def test_recorded_picks_replace_the_stated_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "PROMPT_TOKENS", 192)
    monkeypatch.setattr(recording, "STEPS", 16)
    picks, path = tmp_path / "picks.npz", tmp_path / "offload.json"
    small = ["offload", "--model", "tiny", "--count", "1", "--prompt", "512", "--output", "64"]
    small += ["--engine", "ideal"]
    small += ["--contexts", "", "--json", str(path)]
    assert main([*small, "--measure", "tiny", "--record", str(picks)]) == 0
    stated = json.loads(path.read_text())
    assert [one["model"] for one in stated["reuse"]] == ["tiny"] * 3
    assert main([*small, "--choices", str(picks), "--choices-context", "208"]) == 0
    recorded = json.loads(path.read_text())
    replayed = next(p for p in recorded["reuse"][0]["points"] if p["buffer_entries"] == 32)
    assert recorded["asked"]["offloaded"]["misses"] == pytest.approx(16 * replayed["missed"])
    assert recorded["asked"]["offloaded"]["misses"] > stated["asked"]["offloaded"]["misses"]
    assert "Picks of tiny, picks.npz" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--buffer", "100"], "412 too few, the 512 picks of a query must be in it"),
        (["--overlap", "95"], "overlap is 95, expected a share from 0 to 1"),
        (["--contexts", "8k"], "--contexts has '8k'"),
        (["--contexts", "9999999"], "one of the contexts is 9,999,999 tokens"),
        (["--engine", "vllm-0.33"], "nearest: --engine sglang-0.5"),
        (["--model", "v3.2"], "counted reference only"),
        (["--choices", "none.npz"], "there is no file of choices none.npz"),
        (["--choices-context", "100"], "--choices-context is given without --choices"),
        (["--record", "x.npz"], "--record is given without --measure"),
        (["--measure", "v4-flash"], "parameters"),
        (["--measure", "tinny"], "did you mean 'tiny'"),
        (["--chip", "h200"], "not one request of 220,000 tokens"),
        (["--json", "no/such/folder.json"], "there is no folder"),
        (["--fidelity", "tiles"], "did you mean 'tile'"),
    ],
)
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert main([*BASE, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert len(captured.err.strip().splitlines()) == 1


def test_a_file_in_place_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main([*BASE, "--out", str(blocked)]) == 2
    assert "cannot make folder" in capsys.readouterr().err
