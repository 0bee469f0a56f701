"""The indexer's ids: taken from a run of the evaluator, or known without one.

Addresses need no values but these ids. A full-size model does not run in numpy, so a small one
runs in its stead: the same kinds of layers, window and top-k, other widths, random weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.golden_file import GoldenFile
from simulator.evaluate.metadata import StepMetadata
from simulator.evaluate.random_weights import random_weights
from simulator.evaluate.request_table import RequestTable
from simulator.evaluate.verify import shipped_golden_file
from workloads.deepseek_v4.config import ModelConfig, find_model, model_from_mapping
from workloads.deepseek_v4.layer_kinds import TYPE_OF_KIND
from workloads.deepseek_v4.state import layer_name
from workloads.op import Array
from workloads.step_shape import StepShape

TINY = "tiny"
MOST_PAIRS = 1_000_000
"""(query, entry) pairs of all indexers up to which a run is quick enough not to be asked for."""

_SMALL: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 48,
    "moe_intermediate_size": 32,
    "num_attention_heads": 4,
    "head_dim": 32,
    "q_lora_rank": 24,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "o_groups": 2,
    "o_lora_rank": 16,
    "index_n_heads": 32,  # with few heads, scores tie at exactly zero
    "index_head_dim": 16,
    "hc_mult": 2,
    "num_hash_layers": 0,
    "num_nextn_predict_layers": 0,
    "qk_rope_head_dim": 8,
    "rope_theta": 10000.0,
    "compress_rope_theta": 160000.0,
    "rope_scaling": {
        "type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
        "original_max_position_embeddings": 65536,
    },
    "rms_norm_eps": 1e-6,
    "hc_eps": 1e-6,
    "hc_sinkhorn_iters": 4,
    "swiglu_limit": 10.0,
    "routed_scaling_factor": 1.5,
    "scoring_func": "sqrtsoftplus",
}  # fmt: skip
_TAKEN = ("sliding_window", "index_topk", "max_position_embeddings")


class PickRecord:
    """Keeps ids and scores of every indexer, and changes no choice."""

    def __init__(self) -> None:
        self.ids: dict[str, Array] = {}
        self.scores: dict[str, Sequence[Array]] = {}

    def choose(self, path: str, kind: str, own: Array, scores: Sequence[Array]) -> Array:
        """What the operation chose itself."""
        if kind == "top-k":
            layer = path.partition("/")[0]
            self.ids[layer], self.scores[layer] = own, scores
        return own


def asked_model(name: str) -> ModelConfig:
    """A model by name or path; `tiny` is the one of the golden file."""
    if name == TINY:
        return model_from_mapping(GoldenFile.load(shipped_golden_file()).config, name=TINY)
    return find_model(name)


def run_model(config: ModelConfig, layers: int, seed: int) -> tuple[ModelConfig, dict[str, Array]]:
    """What runs: the tiny model itself, or a small one of the same kinds of layers, up to one.

    Assumes: the indexer's ids of a full-size model are those of a small model of the same kinds of
        layers with random weights; its own depend on its weights.
    """
    if config.name == TINY:
        golden = GoldenFile.load(shipped_golden_file())
        return config, dict(golden.weights)
    raw = _SMALL | {key: getattr(config, key) for key in _TAKEN}
    kept = config.layers[:layers]
    raw |= {"num_hidden_layers": layers, "compress_ratios": [one.ratio for one in kept]}
    raw |= {"layer_types": [TYPE_OF_KIND[one.kind] for one in kept]}
    return model_from_mapping(raw, name=config.name), random_weights(raw, seed)


def index_pairs(config: ModelConfig, layers: int, requests: Sequence[tuple[int, int]]) -> int:
    """(query, entry) pairs that a run of (past, new) requests scores from their first token on."""
    step = StepShape(tuple((past + new, 0) for past, new in requests))
    return sum(step.entry_pairs(one.ratio) for one in config.layers[:layers] if one.indexed)


def run_step(
    model: tuple[ModelConfig, Mapping[str, Array]],
    table: RequestTable,
    requests: Sequence[tuple[int, int, int]],
    seed: int,
    record: PickRecord,
) -> tuple[StepMetadata, Evaluator]:
    """Run the past of (row, past, new) requests as one step, then the step that is asked for."""
    config, weights = model
    rng = np.random.default_rng(seed)
    ids = [rng.integers(0, config.vocab_size, past + new) for _, past, new in requests]
    evaluator = Evaluator(config, weights, table)
    before = [(row, i[:past]) for (row, past, _), i in zip(requests, ids, strict=True) if past]
    if before:
        evaluator.step(before)
    step = [(row, i[past:]) for (row, past, _), i in zip(requests, ids, strict=True)]
    return evaluator.step(step, choices=record).metadata, evaluator


def picked(record: PickRecord, layer: int) -> tuple[Array, Sequence[Array]] | None:
    """Ids [rows, top-k] and scores of a layer's indexer; None when it did not run."""
    name = layer_name(layer)
    if name not in record.ids:
        return None
    return record.ids[name], record.scores[name]
