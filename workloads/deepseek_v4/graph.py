"""The graph of one decoder step of DeepSeek-V4, for a step's shapes.

Value names that others rely on: `layerNN/attn/norm` and `layerNN/attn/wo_b` (attention module in
and out), `layerNN/moe/sum` (experts out), `layerNN/moe_hc/expand` (streams out), `head/logits`.
"""

from __future__ import annotations

from simulator.basis.errors import UnsupportedError
from workloads.deepseek_v4.block import BlockBuilder
from workloads.deepseek_v4.config import KIND_OF_RATIO, ModelConfig
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import layer_name
from workloads.dtype import BF16, FP32, INT32
from workloads.graph import Graph, GraphBuilder
from workloads.ops import Add, Embed, LastRows, Linear, Repeat
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType


def build_graph(
    config: ModelConfig,
    step: StepShape,
    precision: Precision | None = None,
    *,
    mtp: bool = False,
    all_logits: bool = False,
    clamp_shared_expert: bool = True,
) -> Graph:
    """Embedding, every layer, the head, and the MTP layer when asked for.

    `all_logits` keeps the logits of every row instead of each request's last.
    """
    graph = GraphBuilder(step)
    precision = precision or Precision(expert=config.expert_dtype)
    block = BlockBuilder(graph, config, precision, clamp_shared_expert)
    hidden = ("hidden", config.hidden_size)
    if mtp and config.mtp_layers != 1:
        raise UnsupportedError(
            f"a graph has one MTP layer, but {config.name} has {config.mtp_layers}; "
            "leave the MTP layer out"
        )
    ids = graph.input("token_ids", TensorType((("tokens", step.tokens),), INT32))
    with graph.scope("embed", "embed"):
        table = graph.param("table", TensorType((("vocab", config.vocab_size), hidden), BF16))
        x = graph.add1("tokens", Embed(), [ids], [table])
        streams = graph.add1("streams", Repeat("streams", config.hc_mult), [x])
    for layer, ratio in enumerate(config.layer_ratios):
        with graph.scope(layer_name(layer), KIND_OF_RATIO[ratio]):
            hashed = layer < config.num_hash_layers
            streams = block.layer(streams, ratio, ids if hashed else None)
    with graph.scope("head", "head"):
        vocab = TensorType((("vocab", config.vocab_size), hidden), BF16)
        head = graph.param("weight", vocab)
        logits = _logits(graph, block, streams, head, all_logits)
    outputs = [logits]
    if mtp:
        outputs.append(_mtp(graph, block, streams, table, head, all_logits))
    return graph.build(outputs)


def _logits(
    graph: GraphBuilder, block: BlockBuilder, streams: str, head: str, all_logits: bool
) -> str:
    if not all_logits:
        streams = graph.add1("last_rows", LastRows(), [streams])
    with graph.scope("hc"):
        x = block.head_collapse(streams)
    x = block.norm("norm", x)
    return graph.add1("logits", Linear(out=FP32), [x], [head])


def _mtp(
    graph: GraphBuilder,
    block: BlockBuilder,
    streams: str,
    table: str,
    head: str,
    all_logits: bool,
) -> str:
    """Draft layer: embeds the next token, joins it to the backbone's streams, one window block."""
    config, tokens = block.config, ("tokens", graph.step.tokens)
    next_ids = graph.input("next_ids", TensorType((tokens,), INT32))
    with graph.scope("mtp", "mtp"):
        e = block.norm("enorm", graph.add1("tokens", Embed(), [next_ids], [table]))
        h = block.norm("hnorm", streams)
        square = TensorType((block.hidden, block.hidden), block.stored)
        e = graph.add1("e_proj", Linear(), [e], [graph.param("e_proj", square)])
        h = graph.add1("h_proj", Linear(), [h], [graph.param("h_proj", square)])
        joined = graph.add1("join", Add(), [h, e])
        joined = block.layer(joined, config.mtp_ratios[0], None)
        return _logits(graph, block, joined, head, all_logits)
