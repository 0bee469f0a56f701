"""Random weights: names and shapes of any config, reproducible, exact in float32, well scaled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.evaluate.dense_reference import forward, mtp_forward
from simulator.evaluate.golden_file import expected_weights
from simulator.evaluate.random_weights import random_weights

CONFIG: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 40,
    "moe_intermediate_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "head_dim": 24,
    "q_lora_rank": 20,
    "n_routed_experts": 7,
    "num_experts_per_tok": 3,
    "o_groups": 3,
    "o_lora_rank": 12,
    "index_n_heads": 32,
    "index_head_dim": 12,
    "index_topk": 5,
    "sliding_window": 8,
    "hc_mult": 2,
    "compress_ratios": [128, 4, 0, 4, 0],
    "num_hash_layers": 2,
    "qk_rope_head_dim": 6,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "compress_rope_theta": 160000.0,
    "rope_scaling": None,
    "rms_norm_eps": 1e-6,
    "hc_eps": 1e-6,
    "hc_sinkhorn_iters": 20,
    "swiglu_limit": 10.0,
    "routed_scaling_factor": 1.5,
}


@pytest.mark.parametrize("mtp", [False, True])
def test_names_and_shapes(mtp: bool) -> None:
    weights = random_weights(CONFIG, 0, mtp=mtp)
    assert {name: a.shape for name, a in weights.items()} == expected_weights(CONFIG, mtp=mtp)
    assert any(".mtp." in name for name in weights) is mtp


def test_same_seed_same_weights() -> None:
    first, again = random_weights(CONFIG, 3), random_weights(CONFIG, np.random.default_rng(3))
    assert all((first[name] == again[name]).all() for name in first)
    other = random_weights(CONFIG, 4)
    assert not any((first[name] == other[name]).all() for name in first)


def test_exact_in_float32() -> None:
    wide, narrow = random_weights(CONFIG, 1), random_weights(CONFIG, 1, dtype=np.float32)
    for name, array in wide.items():
        assert array.dtype == (np.int64 if name.endswith("tid2eid") else np.float64)
        np.testing.assert_array_equal(array, narrow[name])
        assert narrow[name].dtype == (np.int64 if name.endswith("tid2eid") else np.float32)


def test_no_token_names_an_expert_twice() -> None:
    weights = random_weights(CONFIG, 2)
    for layer in (0, 1):
        table = weights[f"model.layers.{layer}.mlp.gate.tid2eid"]
        assert all(len(set(row)) == 3 for row in table.tolist())
        assert set(table.reshape(-1).tolist()) == set(range(7))


@pytest.mark.parametrize("seed", range(3))
def test_logits_are_of_order_one(seed: int) -> None:
    weights = random_weights(CONFIG, seed, mtp=True)
    ids = np.random.default_rng(seed).integers(0, 61, 200)
    result = forward(CONFIG, weights, ids)
    assert 0.5 < result.logits.std() < 2
    assert all(0.1 < a.std() < 5 for a in result.activations.values())
    assert 0.5 < mtp_forward(CONFIG, weights, np.roll(ids, -1), result.streams).std() < 2
