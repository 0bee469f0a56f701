"""DeepSeek-V3.2 in closed form: the denominator of V4's published efficiency ratios.

It has no graph and cannot be served; it is counted for one decode token at a context length.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from simulator.basis.data_files import find_data_file
from simulator.basis.yaml_loader import (
    LineMap,
    StrictModel,
    compose_yaml,
    load_json_mapping,
    validate_data,
)
from workloads.deepseek_v4.known_unused import KNOWN_UNUSED

Positive = Annotated[int, Field(gt=0)]

_MODELS = Path(__file__).parent / "models"

# Keys of the published file that change no count.
_UNCOUNTED = {
    *KNOWN_UNUSED,
    "attention_bias",
    "hidden_act",
    "max_position_embeddings",
    "n_group",
    "norm_topk_prob",
    "num_key_value_heads",
    "quantization_config",
    "rms_norm_eps",
    "rope_scaling",
    "rope_theta",
    "routed_scaling_factor",
    "scoring_func",
    "tie_word_embeddings",
    "topk_group",
}

# Cost of an operation relative to FP8, with which V4's report states its ratios.
FP8_EQUIVALENT = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5}

# Cache entry of one layer and token: 512 FP8 latents, 4 FP32 scales and 64 BF16 rotary dimensions;
# 128 FP8 index dimensions and one FP32 scale.
_SCALE_BYTES = 4
_LATENTS_PER_SCALE = 128


class ReferenceV32(StrictModel):
    """The fields of DeepSeek-V3.2's config.json that decide its FLOPs and cache bytes."""

    model_type: Literal["deepseek_v32"] = "deepseek_v32"
    vocab_size: Positive
    hidden_size: Positive
    intermediate_size: Positive
    first_k_dense_replace: Positive
    moe_layer_freq: Literal[1]
    num_hidden_layers: Positive
    num_nextn_predict_layers: Annotated[int, Field(ge=0)]
    num_attention_heads: Positive
    q_lora_rank: Positive
    kv_lora_rank: Positive
    qk_nope_head_dim: Positive
    qk_rope_head_dim: Positive
    v_head_dim: Positive
    index_n_heads: Positive
    index_head_dim: Positive
    index_topk: Positive
    n_routed_experts: Positive
    n_shared_experts: Positive
    num_experts_per_tok: Positive
    moe_intermediate_size: Positive


def find_reference(name_or_path: str | Path = "v3.2") -> ReferenceV32:
    """Reference by name, or by path to a YAML file or a config.json."""
    path = find_data_file("model", name_or_path, _MODELS)
    data: dict[str, Any]
    lines: LineMap
    data, lines = load_json_mapping(path) if path.suffix == ".json" else compose_yaml(path)
    kept = {
        key: value
        for key, value in data.items()
        if key not in _UNCOUNTED or key in ReferenceV32.model_fields
    }
    return validate_data(kept, lines, ReferenceV32)


def attention_parameters(config: ReferenceV32) -> int:
    """Weights of one layer's multi-head latent attention."""
    heads = config.num_attention_heads
    query_dim = config.qk_nope_head_dim + config.qk_rope_head_dim
    latent = config.kv_lora_rank
    query = config.hidden_size * config.q_lora_rank + config.q_lora_rank * heads * query_dim
    down = config.hidden_size * (latent + config.qk_rope_head_dim)
    up = latent * heads * (config.qk_nope_head_dim + config.v_head_dim)
    return query + down + up + heads * config.v_head_dim * config.hidden_size


def indexer_parameters(config: ReferenceV32) -> int:
    """Weights of one layer's indexer: query up-projection, key and head weights."""
    query = config.q_lora_rank * config.index_n_heads * config.index_head_dim
    return query + config.hidden_size * (config.index_head_dim + config.index_n_heads)


def feed_forward_parameters(config: ReferenceV32) -> int:
    """Weights that one token meets in all feed-forward layers, gates included."""
    dense_layers = config.first_k_dense_replace
    expert = 3 * config.hidden_size * config.moe_intermediate_size
    experts = (config.num_experts_per_tok + config.n_shared_experts) * expert
    gate = config.hidden_size * config.n_routed_experts
    dense = 3 * config.hidden_size * config.intermediate_size
    return dense_layers * dense + (config.num_hidden_layers - dense_layers) * (experts + gate)


def flops_by_part(config: ReferenceV32, context_tokens: int) -> dict[str, int]:
    """FLOPs of one decode token whose context has this many tokens, itself included."""
    layers = config.num_hidden_layers
    entry = 2 * config.kv_lora_rank + config.qk_rope_head_dim  # scores and values, absorbed form
    keys = min(context_tokens, config.index_topk)
    index_row = config.index_n_heads * config.index_head_dim
    return {
        "linear": 2 * (layers * attention_parameters(config) + feed_forward_parameters(config)),
        "indexer_linear": 2 * layers * indexer_parameters(config),
        "index_scores": 2 * layers * index_row * context_tokens,
        "core_attention": 2 * layers * keys * entry * config.num_attention_heads,
        "head": 2 * config.hidden_size * config.vocab_size,
    }


def flops_by_dtype(config: ReferenceV32, context_tokens: int) -> dict[str, int]:
    """FLOPs of one decode token by the type of the operands, as V4's report counts them."""
    parts = flops_by_part(config, context_tokens)
    return {
        "fp8": parts["linear"] + parts["indexer_linear"] + parts["index_scores"],
        "bf16": parts["core_attention"] + parts["head"],
    }


def weighted_gflops(config: ReferenceV32, context_tokens: int) -> float:
    """10^9 FP8-equivalent FLOPs of one decode token: BF16 counts twice."""
    counted = flops_by_dtype(config, context_tokens)
    return sum(FP8_EQUIVALENT[dtype] * flops for dtype, flops in counted.items()) / 1e9


def kv_bytes_per_token(config: ReferenceV32, dtype: Literal["fp8", "bf16"] = "fp8") -> int:
    """Cache bytes that one token adds over all layers: latent entry and index key."""
    latent, rope, index = config.kv_lora_rank, config.qk_rope_head_dim, config.index_head_dim
    if dtype == "bf16":
        return config.num_hidden_layers * 2 * (latent + rope + index)
    main = latent + latent // _LATENTS_PER_SCALE * _SCALE_BYTES + 2 * rope
    return config.num_hidden_layers * (main + index + _SCALE_BYTES)
