"""`v4sim validate --fidelity cycle`, samples, interrupts, and what does not go together."""

from __future__ import annotations

import json

import pytest

from simulator.calibration import machine_rows
from tests.simulator.cli.test_validate import SIZES, refused, row, run, table, validated

CYCLE = ("--fidelity", "cycle")
FIGURES = {"tile_median_abs_error", "median_abs_change", "p90_abs_change"}


def test_the_machine_stands_beside_the_closed_forms(capsys, tmp_path):
    table(tmp_path, *(row(size=s, factor=1.25) for s in SIZES[:3]), row(operation="broadcast"))
    data, text = validated(capsys, tmp_path, *CYCLE)
    assert data["fidelity"] == "cycle"
    for line in (data["all"], data["files"][0], data["families"][0], data["groups"][0]):
        assert set(line) >= FIGURES
        assert line["n"] == 3
        assert line["tile_median_abs_error"] == pytest.approx(0.2, abs=1e-6)
        assert line["median_abs_error"] == pytest.approx(0.2, abs=0.01)
        assert line["p90_abs_change"] < 0.01
    assert data["worst"][0]["tile_us"] == pytest.approx(data["worst"][0]["predicted_us"], rel=0.01)
    assert data["not_run"] == []
    assert data["not_covered"][0]["n"] == 1
    assert "|c/t-1|" in text
    plain, said = validated(capsys, tmp_path)
    assert not set(plain["all"]) & FIGURES
    assert "|c/t-1|" not in said


@pytest.mark.parametrize("options", [(), CYCLE])
def test_a_sample_is_of_each_file_and_seeded(capsys, tmp_path, options):
    table(tmp_path, *(row(size=s) for s in SIZES))
    table(tmp_path, *(row("b200", size=s) for s in SIZES[:3]), name="other.csv")
    data, text = validated(capsys, tmp_path, *options, "--sample", 4)
    assert "A sample of 7 of 13 rows: at most 4 a file" in text
    assert [(line["file"], line["n"]) for line in data["files"]] == [
        ("collective.csv", 4),
        ("other.csv", 3),
    ]
    assert (data["sample_rows_a_file"], data["seed"]) == (4, 0)
    again, _ = validated(capsys, tmp_path, *options, "--sample", 4, "--seed", 0)
    assert again == data
    other, _ = validated(capsys, tmp_path, *options, "--sample", 4, "--seed", 3)
    assert {w["line"] for w in other["worst"]} != {w["line"] for w in data["worst"]}


def test_an_interrupt_leaves_what_was_predicted(capsys, tmp_path, monkeypatch):
    table(tmp_path, *(row(size=s) for s in SIZES))
    real, calls = machine_rows.machine_row, []

    def interrupted(measured):
        calls.append(measured)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return real(measured)

    monkeypatch.setattr(machine_rows, "machine_row", interrupted)
    out = tmp_path / "a.json"
    code, text, err = run(capsys, "validate", tmp_path, *CYCLE, "--json", out)
    assert code == 130
    line = next(line for line in text.splitlines() if line.startswith("all rows"))
    assert line.split()[2] == "3"
    assert "interrupted after 3 of 10 rows" in " ".join(err.split())
    assert not out.exists()


def test_rows_that_the_machine_cannot_run_are_said(capsys, tmp_path, monkeypatch):
    table(tmp_path, row())
    monkeypatch.setattr(
        machine_rows, "machine_row", lambda row: machine_rows.MachineRow(fault="too large a tile")
    )
    data, text = validated(capsys, tmp_path, *CYCLE)
    assert data["not_run"] == [
        {"file": "collective.csv", "chip": "h200", "reason": "too large a tile", "n": 1}
    ]
    assert "Not run: 1 of collective.csv on h200: too large a tile" in text
    assert data["all"] is None
    assert json.dumps(data)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((*CYCLE, "--cv"), "give --cv alone, or cycle without it"),
        (("--fidelity", "roofline"), "is a bound and predicts no time"),
        (("--fidelity", "cycel"), "did you mean 'cycle'"),
        (("--seed", "3"), "give --sample N"),
        (("--sample", "0"), "--sample 0 takes no row"),
        (("--sample", "5", "--seed", "-1"), "--seed is -1"),
        (("--published", *CYCLE), "--published has its own rows"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(capsys, tmp_path, options, words):
    table(tmp_path, row())
    folder = () if "--published" in options else (tmp_path,)
    assert words in refused(capsys, "validate", *folder, *options)
