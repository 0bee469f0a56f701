"""A DSpark head on a tiny model: drafted, verified, accepted; against its slow twin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from simulator.basis.errors import UnsupportedError
from simulator.cache.pool_spec import page_multiple, pools_of
from simulator.cli.main import app
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.random_weights import random_weights
from simulator.evaluate.request_table import RequestTable
from simulator.evaluate.speculation import BlockDrafter
from tests.oracles.dspark_dense import draft as slow_draft
from workloads.deepseek_v4.config import ModelConfig, find_model, model_from_mapping
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.ops import SparseAttention

WINDOW = 16
RAW: dict[str, Any] = find_model("tiny").model_dump(exclude={"name", "stored", "file_notes"}) | {
    "hidden_size": 48, "head_dim": 32, "qk_rope_head_dim": 8, "q_lora_rank": 24,
    "o_lora_rank": 16, "moe_intermediate_size": 32, "vocab_size": 61, "index_head_dim": 16,
    "sliding_window": WINDOW, "index_topk": 8, "max_position_embeddings": 1024,
    "num_hidden_layers": 4, "compress_ratios": [0, 4, 128, 4, 0, 0], "num_hash_layers": 1,
    "num_nextn_predict_layers": 2, "hc_sinkhorn_iters": 4,
    "dspark_block_size": 4, "dspark_markov_rank": 12, "dspark_target_layer_ids": [2, 3],
    "dspark_noise_token_id": 60,
}  # fmt: skip


def raw(**changes: Any) -> dict[str, Any]:
    return {k: v for k, v in (RAW | changes).items() if v is not None}


def table_of(config: ModelConfig, rows: int = 2, tokens: int = 400) -> RequestTable:
    pools = pools_of(model_state(config, Precision()))
    return RequestTable(rows, tokens, page_tokens=page_multiple(pools), pools=pools)


def drafter(weights: dict[str, np.ndarray] | None = None, drafts: int | None = None,
            **changes: Any) -> BlockDrafter:  # fmt: skip
    config = model_from_mapping(raw(**changes), name="tiny")
    weights = weights or random_weights(raw(**changes), 5, mtp=True)
    return BlockDrafter(config, weights, table_of(config), draft_tokens=drafts)


def prompt(count: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 60, count)


def drafted(count: int = 40, **changes: Any) -> np.ndarray:
    own = drafter(**changes)
    row = own.table.admit()
    own.step([(row, prompt(count))])
    return own.draft([(row, 7)]).ids[0]


@pytest.mark.parametrize("count", [1, 3, 15, 16, 17, 150])
def test_values_are_those_of_the_slow_twin(count: int) -> None:
    own, weights = drafter(), random_weights(RAW, 5, mtp=True)
    row = own.table.admit()
    ids = prompt(count)
    for start in range(0, count, 13):  # in chunks, so that windows come out of the pools
        own.step([(row, ids[start : start + 13])])
    found = own.draft([(row, 7)])
    ids_slow, logits, sure = slow_draft(RAW, weights, ids.tolist(), 7)
    assert found.ids[0].tolist() == ids_slow
    assert np.abs(found.logits[0] - logits).max() < 1e-9
    assert found.confidence is not None
    assert np.abs(found.confidence[0] - sure).max() < 1e-12


def test_requests_of_a_pass_do_not_see_each_other() -> None:
    own = drafter()
    rows = [own.table.admit(), own.table.admit()]
    parts = [prompt(30, 1), prompt(21, 2)]
    own.step([(rows[0], parts[0]), (rows[1], parts[1])])
    both = own.draft([(rows[1], 9), (rows[0], 7)])
    for place, (part, anchor) in enumerate(((parts[1], 9), (parts[0], 7))):
        ids, logits, _ = slow_draft(RAW, random_weights(RAW, 5, mtp=True), part.tolist(), anchor)
        assert both.ids[place].tolist() == ids
        assert np.abs(both.logits[place] - logits).max() < 1e-9


def greedy(config: ModelConfig, weights: Any, ids: np.ndarray, count: int) -> list[int]:
    """Without drafts, on a model of its own."""
    evaluator = Evaluator(config, weights, table_of(config))
    row = evaluator.table.admit()
    tokens = [int(evaluator.step([(row, ids)]).logits[-1].argmax())]
    while len(tokens) < count:
        tokens.append(int(evaluator.step([(row, tokens[-1:])]).logits[-1].argmax()))
    return tokens


def copying(rank: int) -> dict[str, np.ndarray]:
    """A backbone whose next token follows from the last one, and a head that knows the rule."""
    changes = {"dspark_markov_rank": rank}
    weights = random_weights(raw(**changes), 5, mtp=True)
    for name in weights:
        if name.endswith(("o_b_proj.weight", "down_proj", "down_proj.weight")):
            weights[name] = np.zeros_like(weights[name])
    last = "model.mtp.1.markov_head."
    embedding, norm = weights["model.embed_tokens.weight"], weights["model.norm.weight"]
    normed = embedding / np.sqrt((embedding**2).mean(axis=1, keepdims=True) + 1e-6) * norm
    weights[f"{last}markov_w1.weight"] = normed
    weights[f"{last}markov_w2.weight"] = 1e4 * weights["lm_head.weight"]
    return weights


def test_a_head_that_copies_the_target_has_all_drafts_accepted() -> None:
    weights = copying(48)
    own = drafter(weights, dspark_markov_rank=48)
    row, ids = own.table.admit(), prompt(25)
    anchor = int(own.step([(row, ids)]).logits[-1].argmax())
    spoken = own.speak(row, anchor, 60)
    assert set(spoken.accepted) == {4}
    assert spoken.per_step == 5
    config = model_from_mapping(raw(), name="tiny")
    assert list(spoken.tokens) == greedy(config, weights, ids, 60)


def test_random_weights_accept_about_nothing_and_change_nothing() -> None:
    weights = random_weights(RAW, 5, mtp=True)
    own = drafter(weights)
    row, ids = own.table.admit(), prompt(25)
    anchor = int(own.step([(row, ids)]).logits[-1].argmax())
    spoken = own.speak(row, anchor, 150)  # far enough that windows and HCA blocks turn over
    assert spoken.per_step < 1.3
    config = model_from_mapping(raw(), name="tiny")
    assert list(spoken.tokens) == greedy(config, weights, ids, 150)


@pytest.mark.parametrize(
    "changes",
    [
        {"dspark_target_layer_ids": [1, 3]},
        {"dspark_noise_token_id": 11},
        {"dspark_markov_rank": 5},
        {"dspark_block_size": 3},
    ],
    ids=lambda c: next(iter(c)),
)
def test_each_setting_of_the_head_changes_the_drafts(changes: dict[str, Any]) -> None:
    weights = random_weights(RAW, 5, mtp=True)
    last = "model.mtp.1."
    if "dspark_markov_rank" in changes:
        for name in ("markov_head.markov_w1.weight", "markov_head.markov_w2.weight"):
            weights[last + name] = weights[last + name][:, :5]
        weights[f"{last}confidence_head.proj.weight"] = np.zeros((1, 53))
    own, other = drafter(), drafter(weights, **changes)
    found = []
    for one in (own, other):
        row = one.table.admit()
        one.step([(row, prompt(40))])
        found.append(one.draft([(row, 7)]).logits[0][:3])
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_a_prefix_without_the_draft_window_starts_cold() -> None:
    weights = random_weights(RAW, 5, mtp=True)
    own, ids = drafter(), prompt(40)
    row = own.table.admit()
    own.step([(row, ids[:33])])
    warm = own.draft([(row, 7)])
    own.forget_window(row)
    cold = own.draft([(row, 7)])
    assert np.isfinite(cold.logits).all()
    assert np.abs(cold.logits - warm.logits).max() > 1e-3
    own.step([(row, ids[33:])])
    again = own.draft([(row, 7)])
    _, logits, _ = slow_draft(RAW, weights, ids.tolist(), 7, first_known=33)
    assert np.abs(again.logits[0] - logits).max() < 1e-9


def test_drafts_beyond_the_block_are_drafted_as_a_longer_block() -> None:
    own = drafter(drafts=7)
    row, ids = own.table.admit(), prompt(25)
    anchor = int(own.step([(row, ids)]).logits[-1].argmax())
    assert own.draft([(row, anchor)]).ids.shape == (1, 7)
    spoken = own.speak(row, anchor, 20)
    config = model_from_mapping(raw(), name="tiny")
    assert list(spoken.tokens) == greedy(config, random_weights(RAW, 5, mtp=True), ids, 20)


def test_a_row_read_after_its_rejection_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the head reads one row beyond what is committed."""
    own = drafter()
    row = own.table.admit()
    own.step([(row, prompt(20))])
    own.step([(row, [1, 2, 3, 4, 5])])
    own.take_back(row, 21)
    assert np.isfinite(own.draft([(row, 9)]).logits).all()
    honest = SparseAttention.evaluate

    def reads_on(self: SparseAttention, arrays: Any, context: Any) -> Any:
        region = context.regions[0]

        class Beyond:
            def read(self, request: int, entries: np.ndarray) -> np.ndarray:
                return region.read(request, entries + 1)

        from dataclasses import replace

        return honest(self, arrays, replace(context, regions=(Beyond(), *context.regions[1:])))

    monkeypatch.setattr(SparseAttention, "evaluate", reads_on)
    assert not np.isfinite(own.draft([(row, 9)]).logits).all()


def test_a_model_without_a_head_is_refused() -> None:
    tiny = find_model("tiny")
    with pytest.raises(UnsupportedError, match="no DSpark draft head"):
        BlockDrafter(tiny, {}, table_of(tiny))


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    asked = ["run", "--drafts", "5", "--say", "12", "--json", str(out)]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    data = json.loads(out.read_text())
    assert data["same_as_without_drafts"]
    assert len(data["tokens"]) == 12
    assert not data["own_head"]
    refused = CliRunner().invoke(app, ["run", "--drafts", "6"])
    assert isinstance(refused.exception, UnsupportedError)
    longer = CliRunner().invoke(
        app, ["run", "--drafts", "6", "--say", "4", "--engine", "vllm-0.33"]
    )
    assert longer.exit_code == 0, longer.output
