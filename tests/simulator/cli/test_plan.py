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
    assert text.startswith("no plan: all 4 candidates are ruled out before simulation; for one,")
    assert "Simulated plans" not in text
    assert "4 candidates were ruled out by bounds, the first 3:" in text


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
    assert "1 outcomes were known from before" in text
