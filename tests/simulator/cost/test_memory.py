"""Memory of a rank: by hand, and the sentence when it does not fit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from simulator.basis.errors import DoesNotFitError
from simulator.capacity.capacity import capacity_of
from simulator.capacity.rank_memory import workspace_bytes
from simulator.cost.memory import step_capacity
from simulator.cost.question import ask
from simulator.cost.result import StepResult
from simulator.cost.step import cost_step
from simulator.engine.profile import list_profiles
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.dtype import BF16
from workloads.graph import GraphBuilder
from workloads.layout_check import reduced_config
from workloads.ops import Add, RmsNorm
from workloads.parallel import ParallelLayout
from workloads.sharding import shard
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType


def cost(**asked: object) -> StepResult:
    step = ask(**asked)  # type: ignore[arg-type]
    return cost_step(step)


def test_workspace_is_the_most_that_is_alive() -> None:
    """x (200 B) lives until the sum, which needs both operands and its result at once."""
    graph = GraphBuilder(StepShape.uniform(1, 1, 0))
    x = graph.input("x", TensorType((("tokens", 1), ("hidden", 100)), BF16))
    a = graph.add1("a", RmsNorm(1e-6), [x])
    b = graph.add1("b", RmsNorm(1e-6), [a])
    graph.add1("c", Add(), [x, b])
    assert workspace_bytes(graph.build(["c"])) == 3 * 200


@pytest.mark.parametrize("engine", list_profiles())
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_the_memory_of_a_step_is_the_account_of_capacity(engine: str, phase: str) -> None:
    asked = ask(
        model="v4-flash", chip="ascend-910c" if engine == "ascend" else "b200", count=8, batch=3,
        context=65_536, engine=engine, phase=phase, new_tokens=1024 if phase == "prefill" else None,
    )  # fmt: skip
    use, capacity = cost_step(asked).memory, step_capacity(asked)
    told = {term.name: term.nbytes for term in capacity.terms}
    assert use.weight_bytes == told["weights"]
    assert use.workspace_bytes == told["activations and workspace"]
    outside = ("left to the runtime", *capacity.question.outside)
    assert use.capacity_bytes == sum(told.values()) - sum(told[name] for name in outside)
    (fit,) = capacity.fits
    for charge in fit.charges:
        assert use.state_bytes_by_pool[charge.name] == 3 * charge.nbytes
    question = replace(capacity.question, workspace_tokens=0)
    assert capacity_of(question).fits[0].charges == fit.charges


def test_state_and_weights_of_pro() -> None:
    """Resident state at 2^20 tokens (published sizes, FP4 index), compressor rows beside it."""
    result = cost(
        model="v4-pro", chip="b200", count=8, batch=1, context=2**20, index_dtype="fp4",
        engine="ideal",
    )  # fmt: skip
    pools = result.memory.state_bytes_by_pool
    compressed = sum(pools[name] for name in ("window", "c4", "c128", "c4_index"))
    assert compressed == pytest.approx(5280.4e6, rel=1e-4)
    assert pools["c4_index"] == 30 * 68 * 2**18
    # Sharded over 8 are attention's wide matrices, experts, embedding and head.
    assert 848.9e9 / 8 < result.memory.weight_bytes < 848.9e9 / 8 + 5e9


def test_one_layer_of_every_kind_has_the_workspace_of_all() -> None:
    config, layout = find_model("v4-flash"), ParallelLayout(4, 2, 8)
    for step in (StepShape.uniform(4, 1, 5000), StepShape.uniform(2, 900, 100)):
        local = step.split(2)
        peaks = {
            workspace_bytes(shard(build_graph(c, local), layout, step.tokens))
            for c in (config, reduced_config(config))
        }
        assert len(peaks) == 1


def test_too_many_requests_say_how_many_fit() -> None:
    asked = {"model": "v4-pro", "chip": "b200", "count": 8, "context": 2**20}
    with pytest.raises(DoesNotFitError) as error:
        cost(**asked, batch=64)
    message = error.value.message
    assert error.value.short_bytes > 0
    assert "v4-pro on 8 x b200 as tp8 dp1 ep1 under sglang-0.5 does not fit" in message
    assert "64 requests of 1,048,576 tokens wanted" in message
    fitting = int(re.search(r"or --batch (\d+)", message)[1])  # type: ignore[index]
    assert cost(**asked, batch=fitting).memory.used_bytes > 0
    with pytest.raises(DoesNotFitError):
        cost(**asked, batch=fitting + 1)


def test_weights_that_do_not_fit_ask_for_chips() -> None:
    with pytest.raises(DoesNotFitError) as error:
        cost(model="v4-flash", chip="h200", context=8192)
    message = error.value.message
    assert "weights and workspace alone exceed the 124.11 GiB" in message
    assert "smallest change that fits: --expert-dtype fp4" in message or "--count 4" in message
    assert cost(model="v4-flash", chip="h200", context=8192, count=4).memory.used_bytes > 0
    with pytest.raises(DoesNotFitError):
        cost(model="v4-flash", chip="h200", context=8192, count=2)
