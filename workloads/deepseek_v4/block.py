"""One decoder layer: hyper-connections around the attention module and around the experts."""

from __future__ import annotations

from collections.abc import Callable

from workloads.deepseek_v4.attention import AttentionBuilder
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.layer_kinds import LayerAttention
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.weight_plan import LayerFormats
from workloads.dtype import BF16, FP32, INT64
from workloads.graph import GraphBuilder
from workloads.ops import (
    Add,
    ExpertCombine,
    ExpertDispatch,
    ExpertDown,
    ExpertUp,
    HcCollapse,
    HcExpand,
    HcHeadGate,
    HcSplit,
    Linear,
    RmsNorm,
    Route,
    SwiGlu,
)
from workloads.tensor_type import TensorType


class BlockBuilder:
    """Adds the nodes of decoder layers to a graph, inside the current scope."""

    def __init__(
        self,
        graph: GraphBuilder,
        config: ModelConfig,
        precision: Precision,
        clamp_shared_expert: bool = True,
        paged_window: bool = False,
    ) -> None:
        self.paged_window = paged_window
        self.graph = graph
        self.config = config
        self.precision = precision
        self.clamp_shared_expert = clamp_shared_expert
        self.hidden = ("hidden", config.hidden_size)
        self.streams = ("streams", config.hc_mult)

    def layer(
        self,
        streams: str,
        attention: LayerAttention,
        hash_ids: str | None,
        formats: LayerFormats | None = None,
        block: bool = False,
    ) -> str:
        """Streams [tokens, streams, hidden] through attention and experts.

        `formats` are those of the layer's weights, default the first layer's; `block`: the tokens
        are a block of drafts.
        """
        formats = formats or self.config.formats_of(0)

        def attend(x: str) -> str:
            # Built inside its scope, which names its cache regions.
            own = self.graph, self.config, self.precision, attention, formats
            return AttentionBuilder(*own, block=block, paged_window=self.paged_window).build(x)

        streams = self._site("attn", streams, attend)
        return self._site("moe", streams, lambda x: self.experts(x, hash_ids, formats))

    def _site(self, name: str, streams: str, block: Callable[[str], str]) -> str:
        with self.graph.scope(f"{name}_hc"):
            pre, post, mix = self._gates(streams)
            x = self.graph.add1("collapse", HcCollapse(), [streams, pre])
        with self.graph.scope(name):
            y = block(self.norm("norm", x))
        with self.graph.scope(f"{name}_hc"):
            return self.graph.add1("expand", HcExpand(), [y, streams, post, mix])

    def _gates(self, streams: str) -> tuple[str, str, str]:
        config, n = self.config, self.config.hc_mult
        z, scale, base = self._projected(streams, n * (n + 2), 3)
        split = HcSplit(n, config.hc_sinkhorn_iters, config.hc_eps)
        pre, post, mix = self.graph.add("split", split, [z], [scale, base])
        return pre, post, mix

    def _projected(self, streams: str, gates: int, scales: int) -> tuple[str, str, str]:
        """(fn . rms(flattened streams), its scale and base parameters)."""
        norm = RmsNorm(self.config.rms_norm_eps, over=2, out=FP32)
        normed = self.graph.add1("norm", norm, [streams])
        row = ("gates", gates)
        fn = self.graph.param("fn", TensorType((row, self.streams, self.hidden), FP32, inner=2))
        z = self.graph.add1("project", Linear(out=FP32, inner=2), [normed], [fn])
        scale = self.graph.param("scale", TensorType((("scales", scales),), FP32))
        base = self.graph.param("base", TensorType((row,), FP32))
        return z, scale, base

    def head_collapse(self, streams: str) -> str:
        """Streams to one row before the output head."""
        z, scale, base = self._projected(streams, self.config.hc_mult, 1)
        pre = self.graph.add1("gate", HcHeadGate(self.config.hc_eps), [z], [scale, base])
        return self.graph.add1("collapse", HcCollapse(), [streams, pre])

    def norm(self, name: str, x: str) -> str:
        """Weighted RMS norm over the last axis."""
        weight = self.graph.param(name, TensorType((self.graph.values[x].axes[-1],), BF16))
        return self.graph.add1(name, RmsNorm(self.config.rms_norm_eps), [x], [weight])

    def experts(self, x: str, hash_ids: str | None, formats: LayerFormats | None = None) -> str:
        """Routed experts and the shared one; `hash_ids` are the token ids of a hash layer."""
        formats = formats or self.config.formats_of(0)
        routed = self._routed(x, *self._route(x, hash_ids), formats)
        shared = self._shared(x, formats)
        return self.graph.add1("sum", Add(), [routed, shared])

    def _route(self, x: str, hash_ids: str | None) -> tuple[str, str]:
        config = self.config
        row = ("expert_scores", config.n_routed_experts)
        gate = self.graph.param("gate", TensorType((row, self.hidden), BF16))
        logits = self.graph.add1("gate", Linear(out=FP32), [x], [gate])
        route = Route(
            config.num_experts_per_tok,
            config.routed_scaling_factor,
            hashed=hash_ids is not None,
            normalise=config.norm_topk_prob,
        )
        if hash_ids is None:
            bias = self.graph.param("bias", TensorType((row,), FP32))
            ids, weights = self.graph.add("route", route, [logits], [bias])
            return ids, weights
        table = (("token_ids", config.vocab_size), ("slots", config.num_experts_per_tok))
        tid2eid = self.graph.param("tid2eid", TensorType(table, INT64))
        ids, weights = self.graph.add("route", route, [logits, hash_ids], [tid2eid])
        return ids, weights

    def _routed(self, x: str, ids: str, weights: str, formats: LayerFormats) -> str:
        config = self.config
        experts, ffn = ("experts", config.n_routed_experts), ("ffn", config.moe_intermediate_size)
        up_axes = (experts, ("gate_up", 2), ffn, self.hidden)
        up_stored = self.precision.weight(config, formats, "moe/w13")
        up = self.graph.param("w13", TensorType(up_axes, up_stored, lead=1))
        down_stored = self.precision.weight(config, formats, "moe/w2")
        down = self.graph.param("w2", TensorType((experts, self.hidden, ffn), down_stored, lead=1))
        x, ids, weights = self.graph.add("dispatch", ExpertDispatch(), [x, ids, weights])
        up_op = ExpertUp(config.n_routed_experts, up_stored.math)
        h = self.graph.add1("up", up_op, [x, ids], [up])
        h = self.graph.add1("act", SwiGlu(config.swiglu_limit), [h])
        down_op = ExpertDown(config.n_routed_experts, down_stored.math)
        y = self.graph.add1("down", down_op, [h, ids, weights], [down])
        return self.graph.add1("combine", ExpertCombine(config.num_experts_per_tok), [y])

    def _shared(self, x: str, formats: LayerFormats) -> str:
        ffn = ("shared_ffn", self.config.n_shared_experts * self.config.moe_intermediate_size)
        stored = {
            half: self.precision.weight(self.config, formats, f"moe/shared/{half}")
            for half in ("w13", "w2")
        }
        with self.graph.scope("shared"):
            up_axes = (("gate_up", 2), ffn, self.hidden)
            up = self.graph.param("w13", TensorType(up_axes, stored["w13"]))
            h = self.graph.add1("up", Linear(), [x], [up])
            limit = self.config.swiglu_limit if self.clamp_shared_expert else None
            h = self.graph.add1("act", SwiGlu(limit), [h])
            down = self.graph.param("w2", TensorType((self.hidden, ffn), stored["w2"]))
            return self.graph.add1("down", Linear(), [h], [down])
