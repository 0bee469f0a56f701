"""The executed model in the costed formats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from simulator.basis.errors import InputError
from simulator.cli.main import app
from simulator.evaluate.formats_run import (
    FormatsResult,
    Prompt,
    RunFormats,
    parse_formats,
    run_formats,
    run_subsets,
)
from simulator.evaluate.golden_file import GoldenFile, load_inputs
from simulator.evaluate.verify import _run, shipped_golden_file
from workloads.deepseek_v4.config import model_from_mapping


@pytest.fixture(scope="module")
def prompt() -> Prompt:
    config, ids, weights = load_inputs(shipped_golden_file())
    model = model_from_mapping(config, name="tiny")
    return Prompt(config=model, weights=weights, token_ids=ids, chunks=(len(ids),))


@pytest.fixture(scope="module")
def found(prompt: Prompt) -> dict[str, FormatsResult]:
    results = run_subsets(prompt, parse_formats("fp8,fp4-index,fp4-experts"))
    return {one.formats.name: one for one in results}


def test_all_eight_subsets_round_within_half_a_step(found: dict[str, FormatsResult]) -> None:
    assert len(found) == 8
    for one in found.values():
        assert one.holds
        on = {name for name, rounding in one.rounding.items() if rounding.values}
        parts = (("cache", one.formats.kv), ("index", one.formats.index))
        wanted = {name for name, given in (*parts, ("weights", one.formats.expert)) if given}
        assert on == wanted
        # The whole step is used: the rounding is the format's, not a finer one.
        assert all(r.worst > 0.9 for r in one.rounding.values() if r.values)


def test_the_empty_subset_is_what_verify_runs(found: dict[str, FormatsResult]) -> None:
    golden = GoldenFile.load(shipped_golden_file())
    logits, _ = _run(golden, (len(golden.input_ids),))
    assert np.array_equal(found["none"].logits, logits)
    assert found["none"].logit_change == 0
    assert set(found["none"].recall.values()) == {1.0}


def test_each_part_changes_logits_and_picks(found: dict[str, FormatsResult]) -> None:
    for name, one in found.items():
        if name != "none":
            assert one.logit_change > 0
            assert min(one.recall.values()) < 1
    # Index keys touch nothing but the picks: finer ones lose fewer.
    assert found["fp4-index"].logit_rms < found["fp4-experts"].logit_rms


def test_finer_formats_change_less(prompt: Prompt, found: dict[str, FormatsResult]) -> None:
    base = found["none"]
    by = {
        w: run_subsets(prompt, parse_formats(w))[-1] for w in ("fp8-index", "bf16", "fp8-experts")
    }
    assert by["fp8-index"].logit_rms < found["fp4-index"].logit_rms
    assert by["bf16"].logit_rms < found["fp8"].logit_rms
    assert by["fp8-experts"].logit_rms < found["fp4-experts"].logit_rms
    assert base.formats == RunFormats()


def test_a_larger_block_scale_moves_the_error(prompt: Prompt) -> None:
    errors = [
        run_formats(prompt, parse_formats("fp4-experts", scale)).logits for scale in (1.0, 4.0)
    ]
    none = run_formats(prompt, RunFormats()).logits
    small, large = (float(np.abs(e - none).mean()) for e in errors)
    assert large > small


def test_activation_quantisers_and_linear_layers(prompt: Prompt) -> None:
    one = run_formats(prompt, parse_formats("fp8-linear,fp4-experts,fp8-activations"))
    assert one.holds
    assert one.rounding["activations"].values > 0
    assert parse_formats("fp8-linear,fp4-experts,fp8-activations").costed.linear == "fp8"


def test_words() -> None:
    assert parse_formats("none") == RunFormats()
    assert parse_formats("fp8,nvfp4-experts").name == "fp8,nvfp4-experts"
    with pytest.raises(InputError, match="twice"):
        parse_formats("fp8,bf16")
    with pytest.raises(InputError, match="did you mean 'fp8'"):
        parse_formats("fp7")
    with pytest.raises(InputError, match="unknown index format"):
        parse_formats("fp3-index")
    with pytest.raises(InputError, match="1 or more"):
        parse_formats("fp8", 0.5)


def test_own_weights_and_prompt(tmp_path: Path) -> None:
    with np.load(shipped_golden_file()) as golden:
        kept = {k: golden[k] for k in golden.files if k in ("config",) or k.startswith("w/")}
    own = tmp_path / "own.npz"
    np.savez(own, input_ids=np.arange(90)[None] % 50, **kept)
    out = tmp_path / "out.json"
    asked = ["run", "--npz", str(own), "--quantised", "fp8,fp4-index", "--json", str(out)]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    data = json.loads(out.read_text())
    assert [run["formats"] for run in data["runs"]] == ["none", "fp8", "fp4-index", "fp8,fp4-index"]
    assert data["runs"][0]["logit_change"] == 0
    assert all(run["holds"] and run["step_ps"] > 0 for run in data["runs"])
    # Fewer bytes with each part.
    cache = [run["cache_bytes"] for run in data["runs"]]
    assert cache[0] > cache[1] > cache[3]
