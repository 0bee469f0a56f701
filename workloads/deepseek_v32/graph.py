"""The graph of one step of DeepSeek-V3.2: latent attention over picks, in absorbed form.

All heads share one row a token: a latent and rotary values. Queries are multiplied into the
latent's basis (`w_uk`), the sum over latents out of it (`w_uv`), so that no key or value is made
for a head. An indexer picks the rows; there is no window, no compression, one residual stream.

Assumes: rotary dimensions come last in index queries and keys, as in V4; the order of dimensions
    changes no score.
Assumes: gates and the indexer's head weights, stored in BF16, are counted in the class of FP8 with
    all other linear layers, as the published comparison with V4 counts V3.2.
"""

from __future__ import annotations

from workloads.deepseek_v32.config import V32Config
from workloads.dtype import BF16, FP8_BLOCK, FP32, INT32, DType
from workloads.entry_format import Bf16Entry
from workloads.graph import Graph, GraphBuilder
from workloads.index_entry import Fp8IndexEntry
from workloads.latent_entry import Fp8LatentEntry
from workloads.ops import (
    Add,
    AppendEntries,
    Concat,
    Embed,
    ExpertCombine,
    ExpertDispatch,
    ExpertDown,
    ExpertUp,
    GroupedLinear,
    GroupedRoute,
    IndexScore,
    LastRows,
    LatentAttention,
    LayerNorm,
    Linear,
    RmsNorm,
    Rope,
    RoundToCache,
    SwiGlu,
    TopK,
)
from workloads.ops.rope import RotaryTable
from workloads.state_layout import Every, Region, StateLayout
from workloads.step_shape import StepShape
from workloads.tensor_type import Axis, TensorType

LATENT, INDEX = "latent", "latent_index"


def layer_regions(config: V32Config, kv: str = "fp8") -> dict[str, Region]:
    """A row a token: latent and rotary values; and an index key. `kv` is fp8 or bf16, for both."""
    width = config.kv_lora_rank + config.qk_rope_head_dim
    index = config.index_head_dim
    rows = (
        (Bf16Entry(width), Bf16Entry(index))
        if kv == "bf16"
        else (Fp8LatentEntry(config.kv_lora_rank, config.qk_rope_head_dim), Fp8IndexEntry(index))
    )
    return {
        LATENT: Region(LATENT, "latent", Every(1), rows[0]),
        INDEX: Region(INDEX, "latent_index", Every(1), rows[1]),
    }


def v32_state(config: V32Config, kv: str = "fp8") -> StateLayout:
    """All cache regions of the model."""
    return StateLayout(
        tuple(
            Region(r.pool, r.kind, r.growth, r.format, f"layer{i:02d}/attn/{name}")
            for i in range(config.num_hidden_layers)
            for name, r in layer_regions(config, kv).items()
        )
    )


def build_v32_graph(
    config: V32Config, step: StepShape, *, kv: str = "fp8", all_logits: bool = False
) -> Graph:
    """Embedding, layers and head. `kv` is the format of cache rows: fp8 or bf16."""
    return _Builder(config, step, kv).build(all_logits)


class _Builder:
    """State of one build."""

    def __init__(self, config: V32Config, step: StepShape, kv: str) -> None:
        self.config, self.kv, self.graph = config, kv, GraphBuilder(step)
        self.hidden: Axis = ("hidden", config.hidden_size)
        self.heads: Axis = ("heads", config.num_attention_heads)
        self.latent: Axis = ("latent", config.kv_lora_rank)
        self.rope_dim: Axis = ("rope_dim", config.qk_rope_head_dim)
        yarn = config.rope_scaling
        self.rotary = (
            RotaryTable(config.qk_rope_head_dim, config.rope_theta)
            if yarn is None
            else RotaryTable(
                config.qk_rope_head_dim,
                config.rope_theta,
                yarn.factor,
                yarn.original_max_position_embeddings,
                yarn.beta_fast,
                yarn.beta_slow,
            )
        )

    def build(self, all_logits: bool) -> Graph:
        graph, config = self.graph, self.config
        ids = graph.input("token_ids", TensorType((("tokens", graph.step.tokens),), INT32))
        vocab = ("vocab", config.vocab_size)
        with graph.scope("embed", "embed"):
            table = graph.param("table", TensorType((vocab, self.hidden), BF16))
            x = graph.add1("tokens", Embed(), [ids], [table])
        for layer in range(config.num_hidden_layers):
            dense = layer < config.first_k_dense_replace
            with graph.scope(f"layer{layer:02d}", "mla_dense" if dense else "mla"):
                with graph.scope("attn"):
                    y = self._attention(self._norm("norm", x))
                    x = graph.add1("residual", Add(), [x, y])
                with graph.scope("mlp" if dense else "moe"):
                    normed = self._norm("norm", x)
                    size = config.intermediate_size
                    y = self._dense(normed, "ffn_dense", size) if dense else self._moe(normed)
                    x = graph.add1("residual", Add(), [x, y])
        with graph.scope("head", "head"):
            if not all_logits:
                x = graph.add1("last_rows", LastRows(), [x])
            head = graph.param("weight", TensorType((vocab, self.hidden), BF16))
            logits = graph.add1("logits", Linear(out=FP32), [self._norm("norm", x)], [head])
        return graph.build([logits])

    def _attention(self, x: str) -> str:
        config, graph = self.config, self.graph
        regions = {
            name: graph.region(name, Region(r.pool, r.kind, r.growth, r.format, graph.name(name)))
            for name, r in layer_regions(config, self.kv).items()
        }
        rank: Axis = ("q_lora", config.q_lora_rank)
        nope: Axis = ("nope_dim", config.qk_nope_head_dim)
        low = self._norm("q_norm", self._linear("wq_a", x, (rank,)))
        q_nope = self._linear("wq_b_nope", low, (self.heads, nope), rank)
        q_rope = self._rope(
            "q_rope", self._linear("wq_b_rope", low, (self.heads, self.rope_dim), rank)
        )
        latent = self._norm("kv_norm", self._linear("wkv_a", x, (self.latent,)))
        k_rope = self._rope("k_rope", self._linear("wk_rope", x, (self.rope_dim,)))
        row = graph.add1("row", Concat("row"), [latent, k_rope])
        row = graph.add1("round", RoundToCache(0), [row], reads=[regions[LATENT]])
        graph.add("append", AppendEntries(1), [row], updates=[regions[LATENT]])
        with graph.scope("indexer"):
            picks = self._index(x, low, regions[INDEX])
        w_uk = TensorType((self.heads, self.latent, nope), FP8_BLOCK, lead=1)
        q = graph.add1("w_uk", GroupedLinear(), [q_nope], [graph.param("w_uk", w_uk)])
        core = LatentAttention(config.index_topk, config.score_scale)
        out = graph.add1("core", core, [q, q_rope, picks], reads=[regions[LATENT]])
        value: Axis = ("v_dim", config.v_head_dim)
        w_uv = TensorType((self.heads, value, self.latent), FP8_BLOCK, lead=1)
        out = graph.add1("w_uv", GroupedLinear(), [out], [graph.param("w_uv", w_uv)])
        wo = graph.param("wo", TensorType((self.hidden, self.heads, value), FP8_BLOCK, inner=2))
        return graph.add1("wo", Linear(inner=2), [out], [wo])

    def _index(self, x: str, low: str, region: str) -> str:
        config, graph = self.config, self.graph
        heads: Axis = ("index_heads", config.index_n_heads)
        dim: Axis = ("index_dim", config.index_head_dim)
        rank: Axis = ("q_lora", config.q_lora_rank)
        q = self._rope("q_rope", self._linear("wq_b", low, (heads, dim), rank))
        rotated = 0 if self.kv == "bf16" else config.index_head_dim & -config.index_head_dim
        q = graph.add1("q_round", RoundToCache(rotated), [q], reads=[region])
        key = self._linear("wk", x, (dim,))
        params = [graph.param(f"k_norm_{n}", TensorType((dim,), FP32)) for n in ("weight", "bias")]
        key = graph.add1("k_norm", LayerNorm(1e-6), [key], params)
        key = self._rope("k_rope", key)
        key = graph.add1("k_round", RoundToCache(rotated), [key], reads=[region])
        graph.add("append", AppendEntries(1), [key], updates=[region])
        scale = config.index_n_heads**-0.5 * config.index_head_dim**-0.5
        weights = self._linear("weights", x, (heads,), dtype=BF16, out=FP32, scale=scale)
        math = "bf16" if self.kv == "bf16" else "fp8"
        scores = graph.add1("score", IndexScore(1, math), [q, weights], reads=[region])
        return graph.add1("top_k", TopK(1, config.index_topk), [scores])

    def _moe(self, x: str) -> str:
        config, graph = self.config, self.graph
        scores = ("expert_scores", config.n_routed_experts)
        gate = graph.param("gate", TensorType((scores, self.hidden), BF16))
        logits = graph.add1("gate", Linear(out=FP32, math="fp8"), [x], [gate])
        bias = graph.param("bias", TensorType((scores,), FP32))
        route = GroupedRoute(
            config.num_experts_per_tok,
            config.routed_scaling_factor,
            config.n_group,
            config.topk_group,
        )
        ids, weights = graph.add("route", route, [logits], [bias])
        experts, ffn = ("experts", config.n_routed_experts), ("ffn", config.moe_intermediate_size)
        up = TensorType((experts, ("gate_up", 2), ffn, self.hidden), FP8_BLOCK, lead=1)
        down = TensorType((experts, self.hidden, ffn), FP8_BLOCK, lead=1)
        sent, ids, weights = graph.add("dispatch", ExpertDispatch(), [x, ids, weights])
        count = config.n_routed_experts
        h = graph.add1("up", ExpertUp(count, "fp8"), [sent, ids], [graph.param("w13", up)])
        h = graph.add1("act", SwiGlu(None), [h])
        w2 = graph.param("w2", down)
        y = graph.add1("down", ExpertDown(count, "fp8"), [h, ids, weights], [w2])
        y = graph.add1("combine", ExpertCombine(config.num_experts_per_tok), [y])
        with graph.scope("shared"):
            inner = config.n_shared_experts * config.moe_intermediate_size
            shared = self._dense(x, "shared_ffn", inner)
        return graph.add1("sum", Add(), [y, shared])

    def _dense(self, x: str, axis: str, size: int) -> str:
        graph, ffn = self.graph, (axis, size)
        up = TensorType((("gate_up", 2), ffn, self.hidden), FP8_BLOCK)
        h = graph.add1("up", Linear(), [x], [graph.param("w13", up)])
        h = graph.add1("act", SwiGlu(None), [h])
        down = TensorType((self.hidden, ffn), FP8_BLOCK)
        return graph.add1("down", Linear(), [h], [graph.param("w2", down)])

    def _linear(
        self,
        name: str,
        x: str,
        rows: tuple[Axis, ...],
        columns: Axis | None = None,
        dtype: DType = FP8_BLOCK,
        out: DType = BF16,
        scale: float = 1.0,
    ) -> str:
        weight = self.graph.param(name, TensorType((*rows, columns or self.hidden), dtype))
        op = Linear(out=out, scale=scale, math="fp8")
        return self.graph.add1(name, op, [x], [weight])

    def _norm(self, name: str, x: str) -> str:
        weight = self.graph.param(name, TensorType((self.graph.values[x].axes[-1],), BF16))
        return self.graph.add1(name, RmsNorm(self.config.rms_norm_eps), [x], [weight])

    def _rope(self, name: str, x: str) -> str:
        return self.graph.add1(name, Rope(self.rotary), [x])
