"""Small models, weights and runs that the law tests share."""

from __future__ import annotations

from functools import cache

import numpy as np

from simulator.evaluate.choices import ChoiceRecord
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.random_weights import random_weights
from simulator.evaluate.request_table import RequestTable
from workloads.deepseek_v4.config import ModelConfig, model_from_mapping

RAW_CONFIG = {
    "vocab_size": 61,
    "hidden_size": 48,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "head_dim": 32,
    "q_lora_rank": 24,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "o_groups": 2,
    "o_lora_rank": 16,
    "index_n_heads": 32,
    "index_head_dim": 16,
    "index_topk": 6,
    "sliding_window": 16,
    "hc_mult": 3,
    "compress_ratios": [0, 4, 128, 4, 0],
    "num_hash_layers": 1,
    "qk_rope_head_dim": 8,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "compress_rope_theta": 160000.0,
    "rope_scaling": {
        "type": "yarn",
        "factor": 16,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 256,
    },
    "rms_norm_eps": 1e-6,
    "hc_eps": 1e-6,
    "hc_sinkhorn_iters": 20,
    "swiglu_limit": 10.0,
    "routed_scaling_factor": 1.5,
    "scoring_func": "sqrtsoftplus",
    "num_nextn_predict_layers": 1,
}


@cache
def config() -> ModelConfig:
    return model_from_mapping(RAW_CONFIG)


@cache
def weights(seed: int = 3) -> dict[str, np.ndarray]:
    return random_weights(RAW_CONFIG, seed, mtp=True)


def tokens(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, RAW_CONFIG["vocab_size"], count)


def evaluator(rows: int = 1, max_tokens: int = 512, **options) -> Evaluator:
    table_options = {
        name: options.pop(name)
        for name in ("page_tokens", "page_order", "pages")
        if name in options
    }
    table = RequestTable(rows, max_tokens, **({"page_tokens": 128} | table_options))
    return Evaluator(config(), weights(), table, all_logits=True, **options)


def run_alone(
    ids: np.ndarray, chunks: tuple[int, ...], record: ChoiceRecord | None = None, **options
) -> np.ndarray:
    """Logits of every token of one request, fed in chunks."""
    assert sum(chunks) == len(ids)
    runner = evaluator(**options)
    row = runner.table.admit()
    out, start = [], 0
    for count in chunks:
        out.append(runner.step([(row, ids[start : start + count])], choices=record).logits)
        start += count
    return np.concatenate(out)
