"""The graph of one decoder step of DeepSeek-V4, for a step's shapes.

Value names that others rely on: `layerNN/attn/norm` and `layerNN/attn/wo_b` (attention module in
and out), `layerNN/moe/sum` (experts out), `layerNN/moe_hc/expand` (streams out), `head/logits`.
"""

from __future__ import annotations

from simulator.basis.errors import UnsupportedError
from workloads.deepseek_v4.block import BlockBuilder
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.dspark import add_seeds, draft_parameters
from workloads.deepseek_v4.layer_kinds import LayerAttention
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import layer_name, mtp_name, next_ids_name
from workloads.deepseek_v4.weight_plan import LayerFormats
from workloads.dtype import FP32, INT32
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
    paged_window: bool = False,
) -> Graph:
    """Embedding, every layer, the head, and the MTP layers when asked for.

    With `mtp` a model with a DSpark head writes the window rows of its stages instead; the pass
    that drafts is a graph of its own (`build_draft_graph`).
    Outputs are the head's logits, then those of every MTP layer, the k-th of which reads the ids
    k + 1 tokens ahead (`next_ids`, `next_ids1`, ...) and the streams of the one before it.
    `all_logits` keeps the logits of every row instead of each request's last. With `paged_window`
    steps write their window rows to pages first and attend from these; without, they attend over
    a ring and their own rows, and write afterwards.
    """
    graph = GraphBuilder(step)
    precision = precision or Precision(expert=config.expert_dtype)
    block = BlockBuilder(graph, config, precision, clamp_shared_expert, paged_window)
    hidden = ("hidden", config.hidden_size)
    if mtp and paged_window:
        raise UnsupportedError(
            f"draft layers of {config.name} keep their windows in rings: run them without "
            "paged_window"
        )
    if mtp and not config.mtp_layers:
        raise UnsupportedError(f"{config.name} has no MTP layer; leave it out")
    ids = graph.input("token_ids", TensorType((("tokens", step.tokens),), INT32))
    with graph.scope("embed", "embed"):
        table = graph.param(
            "table",
            TensorType(
                (("vocab", config.vocab_size), hidden), precision.top_weight(config, "embed")
            ),
        )
        x = graph.add1("tokens", Embed(), [ids], [table])
        streams = graph.add1("streams", Repeat("streams", config.hc_mult), [x])
    taps = dict.fromkeys(config.dspark_target_layer_ids or (), "")
    for layer, attention in enumerate(config.layers):
        with graph.scope(layer_name(layer), attention.kind):
            hashed = layer < config.num_hash_layers
            formats = config.formats_of(layer)
            streams = block.layer(streams, attention, ids if hashed else None, formats)
        if mtp and layer in taps:
            taps[layer] = streams
    with graph.scope("head", "head"):
        vocab = TensorType(
            (("vocab", config.vocab_size), hidden), precision.top_weight(config, "head")
        )
        head = graph.param("weight", vocab)
        logits = _logits(graph, block, streams, head, all_logits)
    outputs = [logits]
    if mtp and config.drafts_blocks:
        add_seeds(graph, block, config, [taps[i] for i in config.dspark_target_layer_ids or ()])
        return graph.build(outputs)
    for stage, attention in enumerate(config.mtp_stages if mtp else ()):
        streams = _mtp(graph, block, stage, attention, streams, table)
        with graph.scope(mtp_name(stage), "mtp"):
            outputs.append(_logits(graph, block, streams, head, all_logits))
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
    stage: int,
    attention: LayerAttention,
    streams: str,
    table: str,
) -> str:
    """Draft layer: embeds a later token, joins it to the streams before it, one block.

    Assumes: further layers follow one another as in DeepSeek-V3 (multi-token prediction), each
        with weights of its own but for the embedding and the head.
    """
    next_ids = graph.input(
        next_ids_name(stage), TensorType((("tokens", graph.step.tokens),), INT32)
    )
    with graph.scope(mtp_name(stage), "mtp"):
        e = block.norm("enorm", graph.add1("tokens", Embed(), [next_ids], [table]))
        h = block.norm("hnorm", streams)
        formats = block.config.formats_of(block.config.num_hidden_layers + stage)
        e, h = (_join(graph, block, formats, name, x) for name, x in (("e_proj", e), ("h_proj", h)))
        joined = graph.add1("join", Add(), [h, e])
        return block.layer(joined, attention, None, formats)


def _join(
    graph: GraphBuilder, block: BlockBuilder, formats: LayerFormats, name: str, x: str
) -> str:
    stored = block.precision.weight(block.config, formats, name)
    square = TensorType((block.hidden, block.hidden), stored)
    return graph.add1(name, Linear(), [x], [graph.param(name, square)])


def model_parameters(
    config: ModelConfig, precision: Precision | None = None, *, mtp: bool = False
) -> dict[str, TensorType]:
    """All parameters of a model by name; with `mtp` those of its draft, whatever its kind."""
    precision = precision or Precision(expert=config.expert_dtype)
    params = build_graph(config, StepShape.uniform(1, 1, 0), precision, mtp=mtp).params
    if mtp and config.drafts_blocks:
        return params | draft_parameters(config, precision)
    return params
