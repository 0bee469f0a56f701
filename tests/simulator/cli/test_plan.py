"""`v4sim plan`: what it prints, what `v4sim serve` makes of its files, and how it is stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.plan import search as search_module
from simulator.serve.run import run_scenario
from workloads.traffic.trace import Trace

QUESTION = """
name: small
scenario:
  name: small
  model: v4-flash
  chip: h200
  fidelity: roofline
  traffic:
    made: {input_tokens: 6000, output_tokens: 60, requests: 40, rate_per_s: 20,
           shared_prefix_tokens: 2048}
  service_levels: {ttft_s: TTFT, tpot_ms: 30, percentile: 90}
  prefix_cache: {tiers: node}
chips:
  - {chip: h200, most_chips: 12}
engines: [ideal]
layouts: [[4, 1], [16, 1]]
max_requests: [16]
prefill_shares: [1]
"""


def asked(folder: Path, ttft_s: float = 1.0) -> Path:
    path = folder / "question.yaml"
    path.write_text(QUESTION.replace("TTFT", str(ttft_s)))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_serve_gives_the_figures_of_a_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out, answer = tmp_path / "out", tmp_path / "plan.json"
    code, text, _ = run(capsys, "plan", asked(tmp_path), "--out", out, "--json", answer)
    assert code == 0
    assert "takes 16 chips, 12 are allowed" in text
    planned = json.loads(answer.read_text())
    for name, key in (("plan", "best"), ("runner-up", "runner_up")):
        served = tmp_path / f"{name}.json"
        assert run(capsys, "serve", out / f"{name}.yaml", "--json", served)[0] == 0
        found, said = json.loads(served.read_text()), planned[key]
        dollars = found["money"]["usd_per_million_output_bearing_all"]
        assert said["usd_per_million_output"] == dollars
        assert said["busy_share"] == pytest.approx(found["rates"]["busy_share"])
        assert said["output_tokens_per_s"] == pytest.approx(found["rates"]["output_tokens_per_s"])
        levels = found["goodput"]["levels"]
        assert [t["found"] for t in said["targets"]] == [level["found"] for level in levels]
        assert said["chips"] == found["chips"]


def test_a_plan_without_candidates_has_no_empty_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, text, _ = run(capsys, "plan", asked(tmp_path, ttft_s=0.001))
    assert code == 3
    said = " ".join(text.split())
    assert said.startswith("no plan: all 4 candidates are ruled out before simulation; for one,")
    assert "Simulated plans" not in text
    assert "Ruled out before simulation (4): 4 rows in the page and CSV." in said


def test_ctrl_c_keeps_what_was_simulated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = 0

    def stopped(*arguments: object, trace: Trace, **options: object) -> object:
        nonlocal runs
        runs += 1
        if runs > 1:
            raise KeyboardInterrupt
        return run_scenario(*arguments, trace=trace, **options)  # type: ignore[arg-type]

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(search_module, "run_scenario", stopped)
        code, text, err = run(capsys, "plan", asked(tmp_path), "--out", out)
    assert (code, text) == (130, "")
    assert f"interrupted; 1 outcomes are kept in {out / 'outcomes.jsonl'}, and the same" in err
    code, text, _ = run(capsys, "plan", asked(tmp_path), "--out", out, "--no-sensitivity")
    assert code == 0
    assert "1 outcome known from before" in text


def test_a_plan_is_told_in_all_its_units_with_the_best_of_each(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Dollars by token, request and month are one bill; each chip and engine has its best plan."""
    path = asked(tmp_path)
    text = path.read_text().replace("chips:\n", "chips:\n  - {chip: b200, most_chips: 8}\n")
    path.write_text(text.replace("[ideal]", "[ideal, sglang-0.5]"))
    page, table, answer = tmp_path / "p.html", tmp_path / "p.csv", tmp_path / "p.json"
    code, shown, _ = run(
        capsys, "plan", path, "--page", page, "--csv", table, "--json", answer,
        "--no-sensitivity",
    )  # fmt: skip
    assert code == 0
    assert "These answers do not rest on the same" not in shown  # both are calibrated
    found = json.loads(answer.read_text())
    best = found["best"]
    tokens = best["input_tokens"] + best["output_tokens"]
    assert best["usd_per_million_tokens"] * tokens == pytest.approx(best["usd"] * 1e6)
    assert best["usd_per_request"] * best["requests"] == pytest.approx(best["usd"])
    assert best["usd_per_month"] == pytest.approx(best["usd"] / best["span_s"] * 730.5 * 3600)
    each = {(own["chip"], own["engine"]): own["outcome"] for own in found["best_of_each"]}
    for key, outcome in each.items():
        same = [
            own["usd_per_million_output"]
            for own in found["tried"]
            if own["meets"] and (own["scenario"]["chip"], own["scenario"]["engine"]) == key
        ]
        assert outcome["usd_per_million_output"] == min(same)
    assert len(each) > 1
    assert found["best"]["label"] in {own["label"] for own in each.values()}
    assert table.read_text().startswith("plan,ttft_p90_s,tpot_p90_ms,meets,engine,")
    assert "pareto-rate" in page.read_text()
    assert "pareto-cost" in page.read_text()


def test_chips_of_other_standing_are_told_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = asked(tmp_path)
    path.write_text(path.read_text().replace("chip: h200, most", "chip: h100, most"))
    path.write_text(
        path.read_text().replace("chips:\n", "chips:\n  - {chip: h200, most_chips: 8}\n")
    )
    _, shown, _ = run(capsys, "plan", path, "--no-sensitivity")
    assert "These answers do not rest on the same" in " ".join(shown.split())


def test_a_fleet_carries_what_serve_confirms(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """At the printed load serve meets the targets, at 1.03 times it does not."""
    out, answer, served = tmp_path / "out", tmp_path / "f.json", tmp_path / "s.json"
    code, shown, _ = run(
        capsys, "plan", asked(tmp_path, 0.15), "--fleet", "8xh200", "--out", out, "--json", answer
    )
    assert code == 0
    assert "8 x h200 carry" in shown
    (fleet,) = json.loads(answer.read_text())["fleets"]
    scale = fleet["met"]["rate_scale"]
    assert f"traffic.rate_scale={scale!r}" in shown
    for factor, is_met in ((1.0, True), (1.03, False)):
        given = ("--set", f"traffic.rate_scale={factor * scale!r}")
        assert run(capsys, "serve", out / "fleet-1.yaml", *given, "--json", served)[0] == 0
        levels = json.loads(served.read_text())["goodput"]["levels"]
        assert all(level["found"] <= level["asked"] for level in levels) is is_met
    ladder = [own["met"]["rate_scale"] for own in (fleet, *fleet["more"])]
    assert ladder == sorted(ladder)


def test_a_budget_buys_the_fleet_that_carries_most(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answer = tmp_path / "f.json"
    code, _, _ = run(
        capsys, "plan", asked(tmp_path, 0.15), "--budget", "10/hour", "--fleet", "h200,b200",
        "--json", answer,
    )  # fmt: skip
    assert code == 0
    found = json.loads(answer.read_text())
    assert all(own["usd_per_hour"] <= 10 for own in found["fleets"])
    assert all(larger["chips"] > own["chips"] for own in found["fleets"] for larger in own["more"])
    most = max(own["met"]["rate_scale"] for own in found["fleets"] if own["met"])
    chosen = next(own for own in found["fleets"] if found["best"].endswith(own["chip"]))
    assert chosen["met"]["rate_scale"] == most


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((), ("give a QUESTION", "give a target: --ttft-s or --tpot-ms")),
        (
            ("chat", "--fleet", "16xh300,h200,0xb200"),
            ("'h300'", "'h200': give a number of chips", "0 chips, expected 1 to 4,096"),
        ),
        (("chat", "--budget", "50"), ("--budget '50': give dollars above 0",)),
        (("chat", "--budget", "1/hour"), ("pays for no chip at all",)),
        (
            ("--traffic", "no.jsonl", "--model", "v9", "--tpot-ms", "-1", "--percentile", "100"),
            ("no such file", "unknown model 'v9'", "--tpot-ms is -1", "--percentile is 100"),
        ),
    ],
)
def test_faults_of_options_are_told_at_once(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    code, _, err = run(capsys, "plan", *arguments)
    assert code == 2
    for part in parts:
        assert part in err


def test_a_trace_that_is_over_before_anything_waits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = run(capsys, "plan", asked(tmp_path, 5.0), "--fleet", "8xh200")
    assert code == 2
    assert "it is over before anything waits; give more requests" in err
