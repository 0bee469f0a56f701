"""Golden files of other models, made with the dense reference, run through every check."""

import json

import numpy as np
import pytest

from simulator.evaluate.dense_reference import forward
from simulator.evaluate.random_weights import random_weights
from simulator.evaluate.verify import shipped_golden_file, verify_file
from tests.laws.models import RAW_CONFIG

VARIANTS = {
    "one stream, no hash layers, wide window": (
        {
            "hc_mult": 1,
            "num_hash_layers": 0,
            "sliding_window": 128,
            "num_hidden_layers": 3,
            "compress_ratios": [128, 4, 0],
            "num_nextn_predict_layers": 0,
        },
        (1, 127, 5, 255),
    ),
    "all hash layers, many groups, rotary dims only": (
        {
            "hc_mult": 4,
            "num_hash_layers": 2,
            "num_hidden_layers": 2,
            "compress_ratios": [4, 128],
            "o_groups": 4,
            "head_dim": 16,
            "qk_rope_head_dim": 16,
            "num_nextn_predict_layers": 0,
            "index_topk": 200,
        },
        (131, 1, 1, 130),
    ),
    "odd dimensions, no scaling of positions, eleven layers": (
        {
            "hidden_size": 30,
            "head_dim": 22,
            "qk_rope_head_dim": 6,
            "index_head_dim": 18,
            "index_n_heads": 40,
            "q_lora_rank": 10,
            "n_routed_experts": 5,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 14,
            "sliding_window": 7,
            "rope_scaling": None,
            "num_hidden_layers": 11,
            "compress_ratios": [0, 4, 128, 4, 0, 128, 4, 4, 128, 0, 4, 0],
        },
        (3, 270, 1, 6),
    ),
}


def write_golden(path, config, chunks, seed=11):
    count = sum(chunks)
    ids = np.random.default_rng(seed).integers(0, config["vocab_size"], count)
    weights = random_weights(config, seed)
    dense = forward(config, weights, ids)
    arrays = {
        "config": json.dumps(config | {"chunks": list(chunks), "seed": seed, "made_with": "test"}),
        "input_ids": ids[None],
        "logits": dense.logits[None],
        "logits_chunked": dense.logits[None],
    }
    arrays |= {f"w/{name}": value for name, value in weights.items()}
    arrays |= {
        f"act/{name}": value[None].astype(np.float32) for name, value in dense.activations.items()
    }
    np.savez(path, **arrays)


@pytest.mark.parametrize("name", VARIANTS)
def test_files_of_other_models_hold(tmp_path, name):
    changes, chunks = VARIANTS[name]
    path = tmp_path / "other.npz"
    write_golden(path, RAW_CONFIG | changes, chunks)
    checks = list(verify_file(path))
    assert {check.runner for check in checks} == {
        "dense reference",
        "paged evaluator, one shot",
        f"paged evaluator, {len(chunks)} chunks",
    }
    failed = [(check.runner, check.quantity, check.difference) for check in checks]
    assert all(check.holds for check in checks), failed


def test_the_shipped_file_holds_with_every_stored_activation_checked_three_times():
    checks = list(verify_file(shipped_golden_file()))
    assert len(checks) == 3 * (1 + 13)
    assert all(check.holds for check in checks)
    assert max(c.difference for c in checks if c.quantity == "logits") < 1e-12


def test_a_logit_that_is_off_fails_its_checks_only(tmp_path):
    with np.load(shipped_golden_file()) as stored:
        arrays = dict(stored)
    arrays["logits"] = arrays["logits"] + 1e-8
    np.savez(tmp_path / "off.npz", **arrays)
    failed = {(c.runner, c.quantity) for c in verify_file(tmp_path / "off.npz") if not c.holds}
    assert failed == {("dense reference", "logits"), ("paged evaluator, one shot", "logits")}
