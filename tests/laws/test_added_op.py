"""Law: an operation added to the graph is priced by every engine, or refused by its name.

The operation is one that no published model has: a gate a head after the core, made from the
layer's input. It takes one class, two lines in the graph's builder, and a line a kernel that an
engine's profile fuses it into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from hwmodels.chip import find_chip
from hwmodels.node import find_node
from simulator.basis.errors import UnsupportedError
from simulator.cost.engine_price import kernel_prices
from simulator.cost.price import Target
from simulator.engine.kernel import Kernel
from simulator.engine.lowering import lower
from simulator.engine.profile import EngineProfile, find_profile
from tests.laws.panel import CHIP_OF, ENGINES, FIDELITIES, POINTS, Point, small
from workloads.deepseek_v4.attention import AttentionBuilder
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.dtype import BF16, FP32
from workloads.op import Array, EvalContext, Op, Types, require
from workloads.ops import Linear
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType
from workloads.work import Work, total_bytes


@dataclass(frozen=True, slots=True)
class HeadGate(Op):
    """out [tokens, heads, dim], logits [tokens, heads] to out x sigmoid(logits)."""

    def infer(self, types: Types, step: StepShape) -> tuple[TensorType, ...]:
        out, logits = types.inputs
        require(out.axes[:2] == logits.axes, self, f"{out.axes} and {logits.axes}")
        return (TensorType(out.axes, BF16),)

    def evaluate(self, arrays: Sequence[Array], context: EvalContext) -> tuple[Array, ...]:
        out, logits = arrays
        return (out / (1 + np.exp(-logits))[:, :, None],)

    def work(self, types: Types, step: StepShape, stats: RunStats) -> Work:
        out, logits = types.inputs
        return Work(
            vector_ops=out.size + 2 * logits.size,
            special_ops=logits.size,
            input_bytes=total_bytes(types.inputs),
            output_bytes=total_bytes(types.outputs),
        )


@dataclass(frozen=True, slots=True)
class GateProduct(Linear):
    """A product that no rule of dimensions knows: not even a Linear by its own type."""


@pytest.fixture
def gated(monkeypatch: pytest.MonkeyPatch) -> dict[str, type[Linear]]:
    """Graphs with the gate; `product` is the operation that makes its logits."""
    chosen = {"product": Linear}
    build, rope = AttentionBuilder.build, AttentionBuilder._rope

    def built(self: AttentionBuilder, x: str) -> str:
        self.layer_input = x
        return build(self, x)

    def roped(self: AttentionBuilder, name: str, x: str, inverse: bool = False) -> str:
        if name == "out_rope":
            heads = ("heads", self.config.num_attention_heads)
            weight = self.graph.param("gate", TensorType((heads, self.hidden), BF16))
            product = chosen["product"](out=FP32)
            logits = self.graph.add1("gate_logits", product, [self.layer_input], [weight])
            x = self.graph.add1("gate", HeadGate(), [x, logits])
        return rope(self, name, x, inverse)

    monkeypatch.setattr(AttentionBuilder, "build", built)
    monkeypatch.setattr(AttentionBuilder, "_rope", roped)
    return chosen


def kernels_of(profile: EngineProfile, point: Point) -> tuple[Kernel, ...]:
    step = point.step.split(point.layout.data)
    graph = build_graph(small("v4-flash"), step, Precision())
    return lower(shard(graph, point.layout, point.step.tokens), profile, RunStats())


def with_gate(engine: str) -> EngineProfile:
    """The engine's profile: a kernel for the product, and the gate fused with what follows."""
    profile = find_profile(engine)
    like = next(k for k in profile.kernels if "attn/compressor/wkv" in k.nodes)
    own = like.model_copy(update={"name": "gate_logits", "nodes": ("attn/gate_logits",)})
    kernels = tuple(
        kernel.model_copy(update={"nodes": ("attn/gate", *kernel.nodes)})
        if "attn/out_rope" in kernel.nodes
        else kernel
        for kernel in profile.kernels
    )
    return profile.model_copy(update={"kernels": (*kernels, own)})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("point", [POINTS[0], POINTS[-1]], ids=str)
def test_a_gate_is_priced_by_every_engine_that_lists_it(
    engine: str, point: Point, gated: dict[str, type[Linear]]
) -> None:
    chip = CHIP_OF.get(engine, "h200")
    profile = with_gate(engine)
    target = Target(find_chip(chip), find_node(chip, 8), profile)
    kernels = kernels_of(profile, point)
    logits = next(k for k in kernels if k.name == "gate_logits")
    heads = 64 // point.layout.tensor
    tokens = point.step.tokens // point.layout.data
    assert sum(p.macs for p in logits.demand.products) == tokens * heads * 4096
    assert logits.demand.weight_bytes == 2 * heads * 4096
    for fidelity in FIDELITIES:
        assert kernel_prices([logits.demand], target, fidelity)[logits.demand].run_ps > 0
    after = next(k for k in kernels if any(path.endswith("attn/gate") for path in k.nodes))
    plain = next(
        k for k in kernels_of(profile, point) if k.scope == after.scope and k.name == after.name
    )
    assert plain.demand.vector_ops >= tokens * heads * 512


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_does_not_list_it_refuses_it_by_name(
    engine: str, gated: dict[str, type[Linear]]
) -> None:
    with pytest.raises(UnsupportedError, match=r"no kernel for node '.*/attn/gate_logits'"):
        kernels_of(find_profile(engine), POINTS[0])


def test_a_product_of_unknown_dimensions_is_refused_by_name(
    gated: dict[str, type[Linear]],
) -> None:
    gated["product"] = GateProduct
    with pytest.raises(UnsupportedError, match=r"attn/gate_logits: GateProduct has matrix prod"):
        kernels_of(with_gate("ideal"), POINTS[0])
