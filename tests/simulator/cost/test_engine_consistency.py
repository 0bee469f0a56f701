"""A step's attention kernels take the time of the same module as a measured row."""

from __future__ import annotations

import pytest

from hwmodels.chip import find_chip
from hwmodels.node import find_node
from simulator.calibration.measured_rows import measured_calls
from simulator.cost.engine_price import engine_price
from simulator.cost.family_call import priced_calls
from simulator.cost.price import Target
from simulator.cost.programs import program_calls
from simulator.cost.roofline import roofline_price
from simulator.cost.timeline import simulate_layer
from simulator.engine.kernel import Kernel
from simulator.engine.lowering import lower
from simulator.engine.profile import find_profile
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.layout_check import reduced_config
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape

# Part of a module that rooflines may add: what is warm in a benchmark and cold in a step. For
# TensorRT-LLM it is the guessed bandwidth of Blackwell's cache, which its core seems to exceed.
MOST_RAISED = {"sglang-0.5": 0.003, "vllm-0.33": 0.003, "trtllm-1.3": 0.04}
ENGINES = ("sglang-0.5", "vllm-0.33", "trtllm-1.3")
# Batch, new and past tokens: few and many tokens, short rows, long rows, chunks.
SHAPES = (
    (1, 1, 4095),
    (64, 1, 131_071),
    (65, 1, 8191),
    (512, 1, 300),
    (1, 128, 128),
    (1, 8192, 0),
    (4, 1024, 65_536),
    (2, 8192, 131_072),
)


def kernels_of(model: str, engine: str, tensor: int, shape: tuple[int, int, int]) -> list[Kernel]:
    """One layer of every kind."""
    step = StepShape.uniform(*shape)
    config = reduced_config(find_model(model))
    graph = build_graph(config, step, Precision(expert="fp8"))
    graph = shard(graph, ParallelLayout(tensor), step.tokens)
    return list(lower(graph, find_profile(engine), RunStats()))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chip", ["h200", "b200", "gb300"])
@pytest.mark.parametrize(("model", "tensor"), [("v4-flash", 8), ("v4-flash", 1), ("v4-pro", 4)])
def test_attention_of_a_layer_is_the_module(
    model: str, tensor: int, chip: str, engine: str, shape: tuple[int, int, int]
) -> None:
    spec = find_chip(chip)
    target = Target(spec, find_node(chip, 8), find_profile(engine))
    kernels = kernels_of(model, engine, tensor, shape)
    scopes = {k.scope: k.kind for k in kernels if k.kind in ("swa", "csa", "hca")}
    assert set(scopes.values()) >= {"csa", "hca"}
    for scope, kind in scopes.items():
        own = [kernel for kernel in kernels if kernel.scope == scope]
        prices = [engine_price(kernel.demand, target) for kernel in own]
        places = simulate_layer(own, prices, spec)
        attention = [place for kernel, place in zip(own, places, strict=True) if kernel.stage]
        spent = max(p.end_ps for p in attention) - min(p.start_ps for p in attention)
        expected = module_ps(kind, model, tensor, target, shape)
        raised = sum(raised_ps(kernel, target) for kernel in own)
        rounding = len(attention) + 1e-9 * expected
        assert expected - rounding <= spent <= expected + raised + rounding
        assert raised <= MOST_RAISED[engine] * expected


def raised_ps(kernel: Kernel, target: Target) -> float:
    """What a kernel takes longer than its program says, because its roofline does."""
    if not kernel.stage:
        return 0.0
    priced = priced_calls(program_calls(kernel.demand, target), target.chip)
    assert priced is not None
    floor = roofline_price(kernel.demand, target)
    return max(0.0, floor.alone_ps - float(priced.parts.total[0]) * 1e12)


def module_ps(
    kind: str, model: str, tensor: int, target: Target, shape: tuple[int, int, int]
) -> float:
    """Time of the whole module as `validate` predicts a measured row, with real scores."""
    batch, new, past = shape
    row = {
        "op": f"{kind}_{'decode' if new == 1 else 'prefill'}_module",
        "engine": target.profile.name,
        "model": model,
        "gemm_dtype": "fp8_block",
        "scores": "top_last",
        "weights": "cold",
        "local_heads": {"v4-flash": 64, "v4-pro": 128}[model] // tensor,
        "batch": batch,
        "new_tokens": new,
        "past_tokens": past,
    }
    parts = measured_calls([row], [target.chip]).parts()
    return float(parts.total[0]) * 1e12


def test_the_fixed_part_is_a_kernel_of_its_own() -> None:
    kernels = kernels_of("v4-flash", "sglang-0.5", 8, (64, 1, 8191))
    fixed = [kernel for kernel in kernels if kernel.name == "attn_fixed"]
    assert len(fixed) == len({k.scope for k in kernels if k.kind in ("swa", "csa", "hca")})
    assert all(not kernel.nodes for kernel in fixed)


def test_short_rows_leave_kernels_out() -> None:
    names = {
        engine: {kernel.name for kernel in kernels_of("v4-flash", engine, 8, (1, 128, 128))}
        for engine in ENGINES
    }
    scores = {"index_score", "top_k"}
    queries = {"indexer_q_b", "indexer_q_rope"}
    assert scores | queries <= names["sglang-0.5"]
    assert not (scores | queries) & names["vllm-0.33"]
    assert queries <= names["trtllm-1.3"]
    assert not scores & names["trtllm-1.3"]
    decode = {kernel.name for kernel in kernels_of("v4-flash", "vllm-0.33", 8, (1, 1, 255))}
    assert scores | queries <= decode


@pytest.mark.parametrize("engine", ENGINES)
def test_many_tokens_run_on_one_stream(engine: str) -> None:
    few = {k.stream for k in kernels_of("v4-flash", engine, 8, (64, 1, 8191))}
    many = {k.stream for k in kernels_of("v4-flash", engine, 8, (4, 1024, 8192))}
    assert many == {0}
    assert few == ({0} if engine == "trtllm-1.3" else {0, 1, 2})
