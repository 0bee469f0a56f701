"""A measured row as a tiny graph: what was timed, built by the model's builder from its sizes.

The graph is lowered by the profile that `rows.yaml` names for the row, so that a measured kernel
and that of a step are the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from simulator.basis.errors import InputError, unknown_name
from workloads.deepseek_v4.attention import AttentionBuilder
from workloads.deepseek_v4.block import BlockBuilder
from workloads.deepseek_v4.config import ModelConfig, find_model, list_models
from workloads.deepseek_v4.layer_kinds import LayerAttention, layer_attention
from workloads.deepseek_v4.precision import Precision
from workloads.dtype import BF16, FP4_GROUP, FP8_BLOCK, FP32, INT32, NVFP4_GROUP, DType
from workloads.graph import Graph, GraphBuilder
from workloads.ops import ExpertDown, ExpertUp, Linear, SwiGlu
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType

# Text and numbers of a row by column.
Row = Mapping[str, str | float]
WEIGHTS: dict[str, DType] = {
    "bfloat16": BF16,
    "fp8_block": FP8_BLOCK,
    "nvfp4": NVFP4_GROUP,
    "w4a8_mxfp4_mxfp8": FP4_GROUP,
}
EXPERT_MATH = {"fp8_block": "fp8", "nvfp4": "nvfp4", "w4a8_mxfp4_mxfp8": "fp8xfp4"}
LAYERS = {
    "csa": layer_attention(4),
    "hca": layer_attention(128),
    "swa": layer_attention(0),
    "indexer": layer_attention(4),
}


def attention(row: Row, _: str) -> Graph:
    """The attention module of one layer on one GPU, its ratio by the row's operation."""
    config = with_heads(str(row["model"]), _whole(row, "local_heads"))
    kind = _layer(str(row["op"]))
    linear = "bf16" if row.get("gemm_dtype") == "bfloat16" else "fp8"
    batch, new, past = (_whole(row, n) for n in ("batch", "new_tokens", "past_tokens"))
    graph = GraphBuilder(StepShape.uniform(batch, new, past))
    hidden = ("hidden", config.hidden_size)
    x = graph.input("x", TensorType((("tokens", graph.step.tokens), hidden), BF16))
    with graph.scope("module", "module"), graph.scope("attn"):
        y = AttentionBuilder(graph, config, Precision(linear=linear), kind).build(x)
    return graph.build([y])


def layer(row: Row, _: str) -> Graph:
    """One window layer of the model with the row's width."""
    config = _of_width(_whole(row, "hidden_size"))
    given = {"hc_mult": _whole(row, "hc_mult")}
    if "sinkhorn_iters" in row:
        given["hc_sinkhorn_iters"] = _whole(row, "sinkhorn_iters")
    config = config.model_copy(update=given)
    graph = GraphBuilder(StepShape.uniform(_whole(row, "num_tokens"), 1, 0))
    streams, hidden = ("streams", config.hc_mult), ("hidden", config.hidden_size)
    tokens = ("tokens", graph.step.tokens)
    x = graph.input("x", TensorType((tokens, streams, hidden), BF16))
    with graph.scope("layer", "layer"):
        y = BlockBuilder(graph, config, Precision()).layer(x, LAYERS["swa"], None)
    return graph.build([y])


def linear(row: Row, path: str) -> Graph:
    """One linear layer, in the place of the node `path`."""
    m, n, k = (_whole(row, name) for name in ("m", "n", "k"))
    graph = GraphBuilder(StepShape.uniform(m, 1, 0))
    x = graph.input("x", TensorType((("tokens", m), ("k", k)), BF16))
    with graph.scope("layer", "layer"):
        weight = TensorType((("n", n), ("k", k)), _weight(row, "gemm_dtype"))
        y = graph.add1(path, Linear(), [x], [graph.param(path, weight)])
    return graph.build([y])


def experts(row: Row, _: str) -> Graph:
    """The picked experts of one GPU, which holds all of them."""
    tokens, count, picks = (_whole(row, n) for n in ("num_tokens", "num_experts", "topk"))
    hidden = ("hidden", _whole(row, "hidden_size"))
    ffn = ("ffn", _whole(row, "inter_size") // _whole(row, "moe_tp_size"))
    stored, math = _weight(row, "moe_dtype"), EXPERT_MATH[str(row["moe_dtype"])]
    graph = GraphBuilder(StepShape.uniform(tokens, 1, 0))
    x = graph.input("x", TensorType((("tokens", tokens), hidden), BF16))
    slots = (("tokens", tokens), ("slots", picks))
    ids = graph.input("ids", TensorType(slots, INT32))
    weights = graph.input("weights", TensorType(slots, FP32))
    with graph.scope("layer", "layer"), graph.scope("moe"):
        axes = (("experts", count), ("gate_up", 2), ffn, hidden)
        up = graph.param("w13", TensorType(axes, stored, lead=1))
        down = graph.param("w2", TensorType((("experts", count), hidden, ffn), stored, lead=1))
        h = graph.add1("up", ExpertUp(count, math), [x, ids], [up])
        h = graph.add1("act", SwiGlu(10.0), [h])
        y = graph.add1("down", ExpertDown(count, math), [h, ids, weights], [down])
    return graph.build([y])


GRAPHS: dict[str, Callable[[Row, str], Graph]] = {
    "attention": attention,
    "layer": layer,
    "linear": linear,
    "experts": experts,
}
# Columns that each graph, and a collective, is made from.
NEEDS: dict[str, tuple[str, ...]] = {
    "attention": ("model", "local_heads", "batch", "new_tokens", "past_tokens"),
    "layer": ("num_tokens", "hidden_size", "hc_mult", "num_sites"),
    "linear": ("gemm_dtype", "m", "n", "k"),
    "experts": (
        "moe_dtype",
        "num_tokens",
        "hidden_size",
        "inter_size",
        "topk",
        "num_experts",
        "moe_tp_size",
        "moe_ep_size",
        "distribution",
    ),
    "collective": ("num_gpus", "op_name", "message_size"),
}


@lru_cache(maxsize=64)
def with_heads(model: str, heads: int) -> ModelConfig:
    """A model with so many heads on this GPU, its output groups divided with them."""
    if model not in list_models():
        raise InputError(unknown_name("model", model, list_models()))
    config = find_model(model)
    groups = config.o_groups * heads / config.num_attention_heads
    if groups != int(groups) or not groups:
        raise InputError(
            f"{heads} heads of {model} are no whole number of groups of "
            f"{config.num_attention_heads // config.o_groups} heads"
        )
    return config.model_copy(update={"num_attention_heads": heads, "o_groups": int(groups)})


@lru_cache(maxsize=8)
def _of_width(hidden: int) -> ModelConfig:
    for name in list_models():
        config = find_model(name)
        if config.hidden_size == hidden:
            return config
    return find_model(list_models()[0]).model_copy(update={"hidden_size": hidden})


def _layer(op: str) -> LayerAttention:
    kind = op.partition("_")[0]
    if kind not in LAYERS:
        raise InputError(unknown_name("kind of attention layer", kind, LAYERS))
    return LAYERS[kind]


def _weight(row: Row, column: str) -> DType:
    name = str(row[column])
    if name not in WEIGHTS:
        raise InputError(unknown_name(column, name, WEIGHTS))
    return WEIGHTS[name]


def _whole(row: Row, name: str) -> int:
    return int(row[name])
