"""Lowering: every node in one kernel, bytes conserved, equal layers equal, faults named."""

from __future__ import annotations

from pathlib import Path

import pytest

import simulator.engine.profile as profile_module
from simulator.basis.errors import FileFormatError, InputError, UnsupportedError
from simulator.engine.kernel import Kernel
from simulator.engine.lowering import lower
from simulator.engine.profile import EngineProfile, FusedKernel, find_profile
from tests.calls import calls_of
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.graph import Graph
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape
from workloads.work import Work

IDEAL = find_profile("ideal")
STEPS = {
    "decode": StepShape.uniform(4, 1, 8191),
    "prefill": StepShape.uniform(2, 600, 0),
    "mixed": StepShape(((1, 4095), (700, 4000), (3, 0))),
}
LAYOUTS = [
    ParallelLayout(),
    ParallelLayout(2),
    ParallelLayout(1, 2, 2),
    ParallelLayout(2, 2, 1),
    ParallelLayout(2, 2, 4),
]


def graph_of(
    model: str, step: StepShape, layout: ParallelLayout = ParallelLayout(), mtp: bool = False
) -> Graph:
    graph = build_graph(find_model(model), step.split(layout.data), mtp=mtp)
    return shard(graph, layout, step.tokens)


def kernels_of(graph: Graph) -> tuple[Kernel, ...]:
    return lower(graph, IDEAL, RunStats())


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("phase", STEPS)
@pytest.mark.parametrize("model", ["tiny", "v4-flash", "v4-pro"])
def test_every_node_is_in_exactly_one_kernel(
    model: str, phase: str, layout: ParallelLayout
) -> None:
    graph = graph_of(model, STEPS[phase], layout, mtp=model != "tiny")
    kernels = kernels_of(graph)
    placed = [path for kernel in kernels for path in kernel.nodes]
    working = [n.path for n in graph.nodes if graph.work(n, RunStats()) != Work()]
    assert sorted(placed) == sorted(working)
    _assert_sums_are_kept(graph, kernels)


def _assert_sums_are_kept(graph: Graph, kernels: tuple[Kernel, ...]) -> None:
    works = [graph.work(node, RunStats()) for node in graph.nodes]
    demands = [kernel.demand for kernel in kernels]
    assert sum(sum(d.flops.values()) for d in demands) == sum(work.flops for work in works)
    for name in ("vector_ops", "special_ops", "link_bytes", "link_phases"):
        assert sum(getattr(d, name) for d in demands) == sum(getattr(w, name) for w in works)
    assert sum(d.weight_bytes for d in demands) == sum(sum(w.param_bytes) for w in works)
    written = sum(
        append.entries * graph.regions[node.regions[append.region]].format.nbytes
        for node, work in zip(graph.nodes, works, strict=True)
        for append in work.appends
    )
    assert sum(d.cache_write_bytes for d in demands) == written
    assert sum(d.activation_bytes for d in demands) <= sum(
        sum(w.input_bytes) + sum(w.output_bytes) for w in works
    )


def test_kernels_come_after_those_that_they_read() -> None:
    graph = graph_of("v4-flash", STEPS["decode"], ParallelLayout(2))
    kernels = kernels_of(graph)
    place = {path: i for i, kernel in enumerate(kernels) for path in kernel.nodes}
    for node in graph.nodes:
        for name in node.inputs:
            writer = name.partition(":")[0]
            if writer in place and node.path in place:
                assert place[writer] <= place[node.path]
    layer = [k for k in kernels if k.scope == "layer02"]
    assert all(before < i for i, kernel in enumerate(layer) for before in kernel.after)


def test_readers_of_a_pool_wait_for_the_append() -> None:
    layer = [k for k in kernels_of(graph_of("v4-flash", STEPS["decode"])) if k.scope == "layer02"]
    at = {kernel.name: i for i, kernel in enumerate(layer)}
    core, score = layer[at["core"]], layer[at["index_score"]]
    assert at["compressor"] in core.after
    assert at["top_k"] in core.after
    assert at["indexer_compressor"] in score.after


def test_side_streams_hold_compressor_indexer_and_shared_expert() -> None:
    streams = {k.name: k.stream for k in kernels_of(graph_of("v4-flash", STEPS["decode"]))}
    assert streams["compressor_gemm"] == streams["compressor"] == streams["shared_up"] == 1
    assert streams["index_score"] == streams["top_k"] == 2
    assert streams["core"] == streams["expert_up"] == 0


def test_a_kernel_moves_what_crosses_its_border_once() -> None:
    """q and kv projections share their input; the values between fused norms do not move."""
    kernels = kernels_of(graph_of("v4-flash", STEPS["decode"]))
    layer = {k.name: k.demand for k in kernels if k.scope == "layer02"}
    assert [o.nbytes for o in layer["qkv_a"].inputs] == [4 * 4096 * 2]
    assert [o.nbytes for o in layer["qkv_a"].outputs] == [4 * 1024 * 2, 4 * 512 * 2]
    streams = 4 * 4 * 4096 * 2
    assert [o.nbytes for o in layer["moe_hc_pre"].inputs] == [streams]
    assert layer["compressor"].outputs == ()
    # A row of the compressor's state (two halves of values and scores, FP32), and one entry.
    assert layer["compressor"].cache_write_bytes == 4 * (2 * 2 * 512 * 4 + 584)


def test_exact_cache_bytes_of_the_core() -> None:
    kernels = kernels_of(graph_of("v4-flash", STEPS["decode"]))
    core = {k.kind: k.demand for k in kernels if k.name == "core"}
    assert core["swa"].cache_read_bytes == 4 * 128 * 584
    assert core["csa"].cache_read_bytes == 4 * (128 + 512) * 584
    assert core["hca"].cache_read_bytes == 4 * (128 + 8192 // 128) * 584


def test_reuse_footprint_counts_what_moves_in_between() -> None:
    kernels = kernels_of(graph_of("v4-flash", STEPS["decode"]))
    layer = [k.demand for k in kernels if k.scope == "layer03"]
    by_name = {k.name: k.demand for k in kernels if k.scope == "layer03"}
    (normed,) = by_name["qkv_norm"].outputs[:1]
    q_latent = by_name["q_b"].inputs[0]
    assert q_latent.reuse_bytes == q_latent.nbytes == normed.nbytes
    streams = max(by_name["attn_hc_post"].inputs, key=lambda o: o.nbytes)
    between = sum(d.moved_bytes for d in layer[: layer.index(by_name["attn_hc_post"])])
    assert streams.reuse_bytes == between + streams.nbytes
    logits = kernels[-1].demand.outputs[0]
    assert logits.reuse_bytes is None


def test_equal_layers_have_equal_signatures() -> None:
    kernels = kernels_of(graph_of("v4-pro", STEPS["decode"]))
    assert len({kernel.signature for kernel in kernels}) < 120 < len(kernels)


def test_lowering_takes_work_in_proportion_to_the_nodes() -> None:
    flash, pro = (
        graph_of(name, STEPS["decode"], ParallelLayout(8), mtp=True)
        for name in ("v4-flash", "v4-pro")
    )
    few, many = (calls_of(lambda g=g: lower(g, IDEAL, RunStats())) for g in (flash, pro))
    assert many / len(pro.nodes) < 1.1 * few / len(flash.nodes)


def _without(node: str) -> EngineProfile:
    kernels = tuple(
        kernel.model_copy(update={"nodes": tuple(n for n in kernel.nodes if n != node)})
        for kernel in IDEAL.kernels
    )
    return IDEAL.model_copy(update={"kernels": kernels})


def test_a_node_without_a_kernel_is_named() -> None:
    graph = graph_of("tiny", STEPS["decode"])
    with pytest.raises(UnsupportedError, match=r"layer00/attn/wq_b.*\(Linear\).*'attn/wq_b'"):
        lower(graph, _without("attn/wq_b"), RunStats())


def test_kernels_that_wait_for_each_other_are_named() -> None:
    odd = FusedKernel(name="odd", family="gemm", nodes=("attn/wq_a", "attn/wq_b"))
    profile = _without("attn/wq_a")
    kernels = (
        *(kernel for kernel in profile.kernels if kernel.name not in ("q_b", "qkv_a")),
        odd,
        FusedKernel(name="kv", family="gemm", nodes=("attn/wkv",)),
    )
    with pytest.raises(UnsupportedError, match=r"odd, .*wait for each other"):
        lower(
            graph_of("tiny", STEPS["decode"]),
            profile.model_copy(update={"kernels": kernels}),
            RunStats(),
        )


def test_unknown_engine_and_faulty_profile(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown engine 'idael': did you mean 'ideal'\?"):
        find_profile("idael")
    text = (Path(profile_module.__file__).parent / "profiles" / "ideal.yaml").read_text()
    own = tmp_path / "own.yaml"
    own.write_text(text.replace("name: ideal", "name: own"))
    assert find_profile(str(own)).name == "own (own.yaml)"
    own.write_text(text.replace("nodes: [attn/wo_b]", "nodes: [attn/wo_a]"))
    with pytest.raises(FileFormatError, match="node 'attn/wo_a' is listed twice"):
        find_profile(own)
