"""The executed indexer: its picks and attention are those of the evaluator's layer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulator.basis.errors import InputError
from simulator.evaluate.golden_file import load_inputs
from simulator.evaluate.verify import shipped_golden_file
from simulator.indexer.accuracy import case_accuracy
from simulator.indexer.executed import executed_case
from simulator.indexer.layer_output import _attend, _unnormalised
from simulator.indexer.scores import REFERENCE, Variant, scores, top_k
from simulator.indexer.study import StudyQuestion, study


def test_scores_pick_what_the_run_picks() -> None:
    case, config = executed_case()
    assert case.attention
    assert not case.synthetic
    assert case.entries > config.index_topk
    found = scores(case, REFERENCE)
    picks = [top_k(row, config.index_topk) for row in found]
    # The layer's own output over these picks, by the evaluator.
    for attention, ids in zip(case.attention, picks, strict=True):
        mask = np.zeros(case.entries, dtype=bool)
        mask[ids] = True
        out, _ = _attend(attention, _unnormalised(attention), mask)
        few, _ = _attend(attention.over(ids), _unnormalised(attention.over(ids)),
                         np.ones(len(ids), dtype=bool))  # fmt: skip
        assert np.abs(out - few).max() < 1e-5


def test_fp4_keys_lose_picks_of_the_run_and_fp8_fewer() -> None:
    case, config = executed_case()
    points = case_accuracy(case, config, 7)
    whole = {p.variant: p for p in points if p.entries == case.entries}
    fp4, fp8 = (whole[Variant(precision=p, hadamard=True)] for p in ("fp4", "fp8"))
    assert fp4.recall < fp8.recall <= 1
    assert 0 < fp8.output_change <= fp4.output_change or fp8.recall == 1


def test_the_study_of_the_model_that_runs_is_not_made_up() -> None:
    found = study(StudyQuestion(model="tiny", chips=("b200",), contexts=(8192,), count=1, batch=1))
    assert not found.synthetic
    assert list(found.cases) == ["executed"]


def test_a_users_model_is_run_and_its_own_queries_are_studied(tmp_path: Path) -> None:
    raw, ids, weights = load_inputs(shipped_golden_file())
    path = tmp_path / "own.npz"
    arrays = {f"w/{name}": array for name, array in weights.items()}
    arrays["w/model.norm.weight"] = arrays["w/model.norm.weight"] * 1.5
    np.savez(path, config=json.dumps(raw), input_ids=ids[None, :200], **arrays)
    asked = StudyQuestion(
        model="tiny", chips=("b200",), contexts=(8192,), count=1, batch=1, npz=path
    )
    small = tmp_path / "own.json"
    small.write_text(json.dumps(raw))
    asked = replace(asked, model=str(small), contexts=(4096,))
    found = study(asked)
    assert not found.synthetic
    assert "own.npz run over its 200 tokens" in found.cases["executed"]
    assert max(point.entries for point in found.accuracy) == 200 // 4
    with pytest.raises(
        InputError, match="its model has index_n_heads 32, but --model v4-flash has 64"
    ):
        study(replace(asked, model="v4-flash"))
    np.savez(path, config=json.dumps(raw), input_ids=ids[None, :20], **arrays)
    with pytest.raises(InputError, match="its prompt has 20 tokens"):
        study(asked)
