"""The DSpark draft head: what the backbone's step leaves for it, and its pass over a block.

After each target layer the residual streams are averaged; the averages, side by side, become one
row a token (`main_proj`, `main_norm`), from which each stage writes its own window rows. A pass
drafts a block for every request: its last committed token and noise tokens, seen by each other in
both directions, through all stages, the head and a bias of the token before.
Source: SGLang 0.5.23 `deepseek_v4_dspark.py`; hipfire, blueprint of the official `model.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.basis.errors import UnsupportedError
from workloads.deepseek_v4.attention import AttentionBuilder
from workloads.deepseek_v4.block import BlockBuilder
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import mtp_name
from workloads.dtype import BF16, FP32, INT32
from workloads.graph import Graph, GraphBuilder
from workloads.ops import (
    Confidence,
    DraftTokens,
    Embed,
    Linear,
    Repeat,
    StreamMeans,
)
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType


def add_seeds(
    graph: GraphBuilder, block: BlockBuilder, config: ModelConfig, taps: Sequence[str]
) -> None:
    """Window rows of every stage for the tokens of a backbone's step, whose streams `taps` are."""
    with graph.scope(mtp_name(0), "mtp"), graph.scope("seed"):
        means = graph.add1("taps", StreamMeans(), taps)
        axes = (block.hidden, ("taps", len(taps)), block.hidden)
        formats = config.formats_of(config.num_hidden_layers)
        stored = block.precision.weight(config, formats, "main_proj")
        main = graph.param("main_proj", TensorType(axes, stored, inner=2))
        x = block.norm("main_norm", graph.add1("main_proj", Linear(inner=2), [means], [main]))
    for stage, attention in enumerate(config.mtp_stages):
        formats = config.formats_of(config.num_hidden_layers + stage)
        with graph.scope(mtp_name(stage), "mtp"), graph.scope("attn"):
            AttentionBuilder(graph, config, block.precision, attention, formats).seed(x)


def block_of(config: ModelConfig, batch: int, past: int) -> StepShape:
    """Shapes of a draft pass: a block for each of so many requests with `past` committed tokens."""
    assert config.dspark_block_size is not None
    return StepShape.uniform(batch, config.dspark_block_size, past)


def build_draft_graph(
    config: ModelConfig,
    step: StepShape,
    precision: Precision | None = None,
    *,
    clamp_shared_expert: bool = True,
) -> Graph:
    """One pass of the draft: `step` has a block of new tokens for every request.

    Input `token_ids`: the last committed token of a request, then noise tokens; positions go on
    from its `past` tokens, whose rows the stages' windows hold. Outputs: drafted ids [tokens],
    their logits [tokens, vocab], and the confidence [tokens] where the model has that head.
    Raises UnsupportedError for a model without a DSpark head.
    """
    if not config.drafts_blocks:
        raise UnsupportedError(f"{config.name} has no DSpark draft head; leave it out")
    graph, precision = GraphBuilder(step), precision or Precision(expert=config.expert_dtype)
    own = draft_config(config)
    block = BlockBuilder(graph, own, precision, clamp_shared_expert)
    ids = graph.input("token_ids", TensorType((("tokens", step.tokens),), INT32))
    vocab = ("vocab", config.vocab_size)
    with graph.scope("embed", "embed"):
        table = graph.param(
            "table", TensorType((vocab, block.hidden), precision.top_weight(config, "embed"))
        )
        x = graph.add1("tokens", Embed(), [ids], [table])
        streams = graph.add1("streams", Repeat("streams", config.hc_mult), [x])
    for stage, attention in enumerate(config.mtp_stages):
        formats = config.formats_of(config.num_hidden_layers + stage)
        with graph.scope(mtp_name(stage), "mtp"):
            streams = block.layer(streams, attention, None, formats, block=True)
    with graph.scope("head", "head"):
        head = graph.param(
            "weight", TensorType((vocab, block.hidden), precision.top_weight(config, "head"))
        )
    return graph.build(_drafts(graph, block, config, streams, ids, head))


def _drafts(
    graph: GraphBuilder, block: BlockBuilder, config: ModelConfig, streams: str, ids: str, head: str
) -> list[str]:
    """Logits of the last stage, drafts and their confidence."""
    assert config.dspark_block_size is not None
    assert config.dspark_markov_rank is not None
    rank = ("markov_rank", config.dspark_markov_rank)
    with graph.scope(mtp_name(config.mtp_layers - 1), "mtp"):
        with graph.scope("hc"):
            hidden = block.head_collapse(streams)
        logits = graph.add1("logits", Linear(out=FP32), [block.norm("norm", hidden)], [head])
        # An axis of its own: every rank has both tables whole.
        table = TensorType((("markov_ids", config.vocab_size), rank), BF16)
        tables = [graph.param("markov_w1", table), graph.param("markov_w2", table)]
        op = DraftTokens(config.dspark_block_size)
        drafts, biased, rows = graph.add("drafts", op, [logits, ids], tables)
        outputs = [drafts, biased]
        if config.enable_confidence_head:
            inputs = [hidden, rows] if config.confidence_head_with_markov else [hidden]
            width = sum(graph.values[name].shape[-1] for name in inputs)
            weight = TensorType((("confidence", 1), ("width", width)), BF16)
            proj = graph.param("confidence", weight)
            outputs.append(graph.add1("confidence", Confidence(), inputs, [proj]))
    return outputs


def draft_config(config: ModelConfig) -> ModelConfig:
    """The model with the draft's own experts, where they differ from the backbone's."""
    changes = {
        "n_routed_experts": config.dspark_n_routed_experts or config.n_routed_experts,
        "num_experts_per_tok": config.dspark_num_experts_per_tok or config.num_experts_per_tok,
    }
    return config.model_copy(update=changes)


def draft_parameters(config: ModelConfig, precision: Precision) -> dict[str, TensorType]:
    """Parameters of the pass over a block, which a backbone's graph has not."""
    return build_draft_graph(config, block_of(config, 1, 1), precision).params
