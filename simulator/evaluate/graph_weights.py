"""Weights under the graph's parameter names, from weights under Hugging Face names.

Each parameter is a reshape of one tensor, except the shared expert's gate and up projections,
which the graph holds as one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.state import layer_name, mtp_name
from workloads.graph import Graph
from workloads.op import Array

_HYPER = {"fn": "fn", "scale": "scale", "base": "base"}

# Graph name within a layer -> Hugging Face name within a layer.
_LAYER = {
    **{f"attn_hc/{ours}": f"attn_hc.{theirs}" for ours, theirs in _HYPER.items()},
    **{f"moe_hc/{ours}": f"ffn_hc.{theirs}" for ours, theirs in _HYPER.items()},
    "attn/norm": "input_layernorm.weight",
    "moe/norm": "post_attention_layernorm.weight",
    "attn/wq_a": "self_attn.q_a_proj.weight",
    "attn/q_norm": "self_attn.q_a_norm.weight",
    "attn/wq_b": "self_attn.q_b_proj.weight",
    "attn/wkv": "self_attn.kv_proj.weight",
    "attn/kv_norm": "self_attn.kv_norm.weight",
    "attn/sink": "self_attn.sinks",
    "attn/wo_a": "self_attn.o_a_proj.weight",
    "attn/wo_b": "self_attn.o_b_proj.weight",
    "attn/compressor/wkv": "self_attn.compressor.kv_proj.weight",
    "attn/compressor/wgate": "self_attn.compressor.gate_proj.weight",
    "attn/compressor/ape": "self_attn.compressor.position_bias",
    "attn/compressor/norm": "self_attn.compressor.kv_norm.weight",
    "attn/indexer/compressor/wkv": "self_attn.compressor.indexer.kv_proj.weight",
    "attn/indexer/compressor/wgate": "self_attn.compressor.indexer.gate_proj.weight",
    "attn/indexer/compressor/ape": "self_attn.compressor.indexer.position_bias",
    "attn/indexer/compressor/norm": "self_attn.compressor.indexer.kv_norm.weight",
    "attn/indexer/wq_b": "self_attn.compressor.indexer.q_b_proj.weight",
    "attn/indexer/weights": "self_attn.compressor.indexer.scorer.weights_proj.weight",
    "moe/gate": "mlp.gate.weight",
    "moe/bias": "mlp.gate.e_score_correction_bias",
    "moe/tid2eid": "mlp.gate.tid2eid",
    "moe/w13": "mlp.experts.gate_up_proj",
    "moe/w2": "mlp.experts.down_proj",
    "moe/shared/w2": "mlp.shared_experts.down_proj.weight",
}
_SHARED_GATE_UP = "moe/shared/w13"
_SHARED_PARTS = ("mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight")

_HEAD = {
    "hc/fn": "hc_head.hc_fn",
    "hc/scale": "hc_head.hc_scale",
    "hc/base": "hc_head.hc_base",
    "norm": "norm.weight",
}
_MTP = {
    "enorm": "enorm.weight",
    "hnorm": "hnorm.weight",
    "e_proj": "e_proj.weight",
    "h_proj": "h_proj.weight",
}
# What a DSpark head has beside its stages: the first holds the join, the last the heads.
_DSPARK = {
    "seed/main_proj": "main_proj.weight",
    "seed/main_norm": "main_norm.weight",
    "markov_w1": "markov_head.markov_w1.weight",
    "markov_w2": "markov_head.markov_w2.weight",
    "confidence": "confidence_head.proj.weight",
}


def graph_weights(
    config: ModelConfig, graph: Graph, weights: Mapping[str, Array]
) -> dict[str, Array]:
    """Every parameter of the graph, reshaped to its named axes; a missing one is a `KeyError`."""
    names = _parameter_sources(config)
    params: dict[str, Array] = {}
    for name, param_type in graph.params.items():
        parts = [np.asarray(weights[source]) for source in names[name]]
        whole = parts[0] if len(parts) == 1 else np.stack(parts)
        params[name] = whole.reshape(param_type.shape)
    return params


def _parameter_sources(config: ModelConfig) -> dict[str, tuple[str, ...]]:
    sources: dict[str, tuple[str, ...]] = {
        "embed/table": ("model.embed_tokens.weight",),
        "head/weight": ("lm_head.weight",),
        **{f"head/{ours}": (f"model.{theirs}",) for ours, theirs in _HEAD.items()},
    }
    for layer in range(config.num_hidden_layers):
        sources |= _layer_sources(layer_name(layer), f"model.layers.{layer}.")
    for stage in range(max(1, config.mtp_layers)):
        scope, mtp = mtp_name(stage), f"model.mtp.{stage}."
        sources |= _layer_sources(scope, f"{mtp}block.")
        own = _MTP | _HEAD | _DSPARK
        sources |= {f"{scope}/{ours}": (mtp + theirs,) for ours, theirs in own.items()}
    return sources


def _layer_sources(scope: str, prefix: str) -> dict[str, tuple[str, ...]]:
    sources: dict[str, tuple[str, ...]] = {
        f"{scope}/{ours}": (prefix + theirs,) for ours, theirs in _LAYER.items()
    }
    sources[f"{scope}/{_SHARED_GATE_UP}"] = tuple(prefix + part for part in _SHARED_PARTS)
    return sources
