"""The attention module of one layer: window only, CSA (with an indexer) or HCA."""

from __future__ import annotations

from dataclasses import replace

from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.layer_kinds import LayerAttention
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import layer_regions
from workloads.deepseek_v4.weight_plan import LayerFormats
from workloads.dtype import BF16, FP32, DType
from workloads.entry_format import PlainEntry
from workloads.graph import GraphBuilder
from workloads.ops import (
    AppendEntries,
    CompressPool,
    GroupedLinear,
    IndexScore,
    Linear,
    RmsNorm,
    Rope,
    RoundToCache,
    SparseAttention,
    TopK,
    WriteWindow,
)
from workloads.ops.rope import RotaryTable
from workloads.tensor_type import Axis, TensorType


def rotary_table(config: ModelConfig, ratio: int) -> RotaryTable:
    """Window-only layers rotate plainly; layers with compressed entries use YaRN throughout."""
    dims = config.qk_rope_head_dim
    if not ratio:
        return RotaryTable(dims, config.rope_theta)
    yarn = config.rope_scaling
    if yarn is None:
        return RotaryTable(dims, config.compress_rope_theta)
    return RotaryTable(
        dims,
        config.compress_rope_theta,
        yarn.factor,
        yarn.original_max_position_embeddings,
        yarn.beta_fast,
        yarn.beta_slow,
    )


class AttentionBuilder:
    """Adds the nodes of one attention module to a graph, inside the current scope."""

    def __init__(
        self,
        graph: GraphBuilder,
        config: ModelConfig,
        precision: Precision,
        attention: LayerAttention,
        formats: LayerFormats | None = None,
        *,
        block: bool = False,
        paged_window: bool = False,
    ) -> None:
        self.graph = graph
        self.paged = paged_window and not block
        self.formats = formats or config.formats_of(0)
        self.block = block
        self.config = config
        self.precision = precision
        self.attention = attention
        self.ratio = attention.ratio
        self.rotary = rotary_table(config, attention.ratio)
        self.hidden: Axis = ("hidden", config.hidden_size)
        self.q_lora: Axis = ("q_lora", config.q_lora_rank)
        self.regions = {
            name: graph.region(name, replace(region, name=graph.name(name)))
            for name, region in layer_regions(
                config, precision, attention, paged_window=paged_window
            ).items()
        }

    def build(self, x: str) -> str:
        """x [tokens, hidden] (normed) to the module's output [tokens, hidden]."""
        config = self.config
        latent = self._norm("q_norm", self._linear("wq_a", x, (self.q_lora,), self.hidden))
        q = self._query(latent)
        kv = self._norm("kv_norm", self._linear("wkv", x, (("head_dim", config.head_dim),)))
        kv = self._round("kv_round", self._rope("kv_rope", kv), "window")
        inputs, reads, top_k = [q, kv], [self.regions["window"]], 0
        if self.paged:
            # The whole chunk is in the pool before any of it attends.
            self._write(kv)
            inputs = [q]
        if self.ratio:
            pool = self.attention.pool
            with self.graph.scope("compressor"):
                self._compress(x, config.head_dim, pool)
            reads.append(self.regions[pool])
        if self.attention.indexed:
            with self.graph.scope("indexer"):
                inputs.append(self._index(x, latent))
            top_k = config.index_topk
        sink = self._vector("sink", FP32, ("heads", config.num_attention_heads))
        op = SparseAttention(config.sliding_window, self.ratio, top_k, self.block, self.paged)
        out = self.graph.add1("core", op, inputs, [sink], reads=reads)
        if not self.block and not self.paged:
            self._write(kv)
        return self._output(self._rope("out_rope", out, inverse=True))

    def seed(self, x: str) -> None:
        """Window rows of committed tokens, from values [tokens, hidden] that the draft attends to.

        Parameters are those that the block's own rows use.
        """
        kv = self._norm("kv_norm", self._linear("wkv", x, (("head_dim", self.config.head_dim),)))
        self._write(self._round("kv_round", self._rope("kv_rope", kv), "window"))

    def _write(self, kv: str) -> None:
        write = WriteWindow(self.config.sliding_window, self.paged)
        self.graph.add("window_write", write, [kv], updates=[self.regions["window"]])

    def _query(self, latent: str) -> str:
        heads = ("heads", self.config.num_attention_heads)
        rows = (heads, ("head_dim", self.config.head_dim))
        q = self._linear("wq_b", latent, rows, self.q_lora)
        q = self.graph.add1("q_head_norm", RmsNorm(self.config.rms_norm_eps), [q])
        return self._rope("q_rope", q)

    def _compress(self, x: str, entry_dim: int, pool: str) -> None:
        halves = self.attention.halves
        entry = (("halves", halves), ("entry_dim", entry_dim))
        kv = self._linear("wkv", x, entry, out=FP32)
        score = self._linear("wgate", x, entry, out=FP32)
        ape = self._vector("ape", FP32, ("block", self.ratio), *entry)
        pooling = CompressPool(self.ratio, halves)
        state = self.regions[f"{pool}_state"]
        pooled = self.graph.add1("pool", pooling, [kv, score], [ape], updates=[state])
        normed = self._norm("norm", pooled)
        rotated = self.graph.add1("rope", Rope(self.rotary, ratio=self.ratio), [normed])
        rounded = self._round("round", rotated, pool)
        append = AppendEntries(self.ratio)
        self.graph.add("append", append, [rounded], updates=[self.regions[pool]])

    def _index(self, x: str, latent: str) -> str:
        config, keys = self.config, f"{self.attention.pool}_index"
        with self.graph.scope("compressor"):
            self._compress(x, config.index_head_dim, keys)
        heads, dim = ("index_heads", config.index_n_heads), ("index_dim", config.index_head_dim)
        q = self._rope("q_rope", self._linear("wq_b", latent, (heads, dim), self.q_lora))
        q = self._round("q_round", q, keys)
        scale = config.index_n_heads**-0.5 * config.index_head_dim**-0.5
        weights = self._linear("weights", x, (heads,), out=FP32, scale=scale)
        score = IndexScore(self.ratio, self.precision.index_math)
        scores = self.graph.add1("score", score, [q, weights], reads=[self.regions[keys]])
        return self.graph.add1("top_k", TopK(self.ratio, config.index_topk), [scores])

    def _output(self, out: str) -> str:
        config = self.config
        groups, rank = ("groups", config.o_groups), ("o_rank", config.o_lora_rank)
        columns = config.num_attention_heads * config.head_dim // config.o_groups
        wo_a = self.graph.param(
            "wo_a", TensorType((groups, rank, ("group_in", columns)), self._stored("wo_a"), lead=1)
        )
        low = self.graph.add1("wo_a", GroupedLinear(), [out], [wo_a])
        wo_b = self.graph.param(
            "wo_b", TensorType((self.hidden, groups, rank), self._stored("wo_b"), inner=2)
        )
        return self.graph.add1("wo_b", Linear(inner=2), [low], [wo_b])

    def _linear(
        self,
        name: str,
        x: str,
        rows: tuple[Axis, ...],
        columns: Axis | None = None,
        out: DType = BF16,
        scale: float = 1.0,
    ) -> str:
        axes = (*rows, columns or self.hidden)
        weight = self.graph.param(name, TensorType(axes, self._stored(name)))
        return self.graph.add1(name, Linear(out=out, scale=scale), [x], [weight])

    def _stored(self, name: str) -> DType:
        """Format of a weight of the current scope."""
        role = "attn/" + self.graph.name(name).rpartition("attn/")[2]
        return self.precision.weight(self.config, self.formats, role)

    def _vector(self, name: str, dtype: DType, *axes: Axis) -> str:
        return self.graph.param(name, TensorType(axes, dtype))

    def _norm(self, name: str, x: str) -> str:
        weight = self._vector(name, BF16, self.graph.values[x].axes[-1])
        return self.graph.add1(name, RmsNorm(self.config.rms_norm_eps), [x], [weight])

    def _rope(self, name: str, x: str, inverse: bool = False) -> str:
        return self.graph.add1(name, Rope(self.rotary, inverse=inverse), [x])

    def _round(self, name: str, x: str, region: str) -> str:
        """Rounding is a cost only where the format rounds; a rotated format adds its stages."""
        stored = self.graph.regions[self.regions[region]]
        if isinstance(stored.format, PlainEntry):
            return x
        rotated = self.config.index_head_dim if stored.kind == "csa_index" else 0
        op = RoundToCache(rotated & -rotated)
        return self.graph.add1(name, op, [x], reads=[self.regions[region]])
