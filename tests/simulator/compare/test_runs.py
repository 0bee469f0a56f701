"""Runs of serve, plan and capacity side by side: their differences by part add up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.cli.main import main

SERVE = ("serve", "chat", "--set", "fidelity=roofline", "--set", "traffic.made.requests=30")
CAPACITY = ("capacity", "--model", "v4-flash", "--count", "8", "--context", "128K", "--chip")
QUESTION = """
name: small
scenario:
  name: small
  model: v4-flash
  chip: h200
  fidelity: roofline
  traffic: {made: {input_tokens: 6000, output_tokens: 60, requests: 40, rate_per_s: 20}}
  service_levels: {ttft_s: 1, tpot_ms: 30, percentile: 90}
chips: [{chip: CHIP, most_chips: 8}]
engines: [ideal]
layouts: [[4, 1]]
max_requests: [16]
"""


def made(kind: str, folder: Path) -> tuple[Path, Path]:
    """Two runs of a command, which differ in the chip."""
    runs = []
    for chip in ("h200", "b200"):
        out = folder / chip
        if kind == "serve":
            code = main([*SERVE, "--set", f"chip={chip}", "--out", str(out)])
        elif kind == "capacity":
            code = main([*CAPACITY, chip, "--out", str(out)])
        else:
            path = folder / f"{chip}.yaml"
            path.write_text(QUESTION.replace("CHIP", chip))
            code = main(["plan", str(path), "--no-sensitivity", "--out", str(out)])
        assert code == 0
        runs.append(out)
    return runs[0], runs[1]


@pytest.mark.parametrize("kind", ["serve", "capacity", "plan"])
def test_differences_by_part_add_up_to_those_of_the_totals(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    one, other = made(kind, tmp_path)
    answer = tmp_path / "c.json"
    page = tmp_path / "c.html"
    assert main(["compare", str(one), str(other), "--json", str(answer), "--page", str(page)]) == 0
    found = json.loads(answer.read_text())
    assert found["totals"]
    for total in found["totals"]:
        for side in (0, 1):
            parts = total["parts"]
            assert sum(part["values"][side] for part in parts) == total["values"][side]
            assert sum(part["changes"][side] for part in parts) == total["changes"][side]
        assert total["changes"][1] == total["values"][1] - total["values"][0]
    asked = {own["field"]: own["values"] for own in found["input"]}
    assert asked["chip"] == ["h200", "b200"]
    if kind == "serve":
        said = [json.loads((run / "summary.json").read_text()) for run in (one, other)]
        times, dollars = found["totals"]
        for side, data in enumerate(said):
            mean_s = data["latencies"]["latency_s"]["mean"]
            taken_s = data["answer_time_ns"]["taken in"] / 1e9 / data["counts"]["finished"]
            assert times["values"][side] / 1e12 == pytest.approx(mean_s + taken_s)
            bearing = data["money"]["usd_per_million_output_bearing_all"]
            assert dollars["values"][side] / 1e9 == pytest.approx(bearing, rel=1e-6)
    assert "figure-1" in page.read_text()


@pytest.mark.parametrize("kind", ["serve", "capacity", "plan"])
def test_a_run_against_itself_shows_no_difference(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    one = made(kind, tmp_path)[0]
    answer = tmp_path / "c.json"
    assert main(["compare", str(one), str(one), "--json", str(answer)]) == 0
    found = json.loads(answer.read_text())
    assert found["input"] == []
    for total in found["totals"]:
        assert all(part["changes"] == [0, 0] for part in total["parts"])


def test_runs_of_different_kinds_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "c").mkdir()
    served = made("serve", tmp_path / "s")[0]
    fits = made("capacity", tmp_path / "c")[0]
    capsys.readouterr()
    assert main(["compare", str(served), str(fits)]) == 2
    assert "runs of different kinds (capacity, serve)" in capsys.readouterr().err
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert main(["compare", str(other), str(other)]) == 2
    assert "is no answer that can be compared" in capsys.readouterr().err
