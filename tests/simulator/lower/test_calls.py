"""Calls that programs are given: ragged batches as uniform ones, sizes read off the graph."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import FileFormatError, UnsupportedError
from simulator.lower.calls import AttentionCall, ExpertsCall, uniform
from simulator.lower.kernel_section import FusedKernel, find_section, list_sections
from simulator.lower.lowering import lower
from simulator.lower.profile import find_profile, list_profiles
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.layout_check import reduced_config
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape
from workloads.work import Work

requests = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 10**6)), min_size=1, max_size=9)


@given(requests)
def test_uniform_batches_keep_tokens_and_visible_entries(
    ragged: list[tuple[int, int]],
) -> None:
    step = StepShape(tuple(ragged))
    batch, new, past = uniform(step)
    # A token's request has as many new tokens on average: never fewer than the mean request.
    assert new == pytest.approx(sum(n * n for n, _ in ragged) / step.tokens)
    assert batch <= len(ragged) + 1e-9
    assert batch * new == pytest.approx(step.tokens)
    visible = sum(new * past + new * (new + 1) / 2 for new, past in ragged)
    assert batch * new * (past + (new + 1) / 2) == pytest.approx(visible)
    assert past >= -1e-6


def test_decoding_requests_do_not_split_a_prompt_up() -> None:
    batch, new, _ = uniform(StepShape(((4000, 0), *[(1, 9999)] * 40)))
    assert new == pytest.approx(4000, rel=0.02)
    assert batch == pytest.approx(1, rel=0.03)


def test_a_uniform_batch_is_its_own() -> None:
    assert uniform(StepShape.uniform(7, 3, 1000)) == (7.0, 3.0, 1000.0)


def calls_of(layout: ParallelLayout, step: StepShape, model: str = "v4-pro") -> dict[str, object]:
    graph = build_graph(reduced_config(find_model(model)), step.split(layout.data))
    kernels = lower(shard(graph, layout, step.tokens), find_profile("vllm-0.33"), RunStats())
    return {
        f"{kernel.kind}/{kernel.name}": kernel.demand.priced_as.call
        for kernel in kernels
        if kernel.demand.priced_as is not None
    }


def test_sizes_are_those_of_one_rank() -> None:
    calls = calls_of(ParallelLayout(4, 2, 8), StepShape.uniform(16, 1, 8191))
    core = calls["csa/core"]
    assert isinstance(core, AttentionCall)
    assert (core.kind, core.decode, core.fp8) == ("csa", True, True)
    assert (core.batch, core.new, core.past) == (8.0, 1.0, 8191.0)
    assert (core.heads, core.hidden, core.query_rank, core.top_k) == (32, 7168, 1536, 1024)
    assert calls["hca/core"].top_k == 0  # type: ignore[attr-defined]
    experts = calls["csa/experts"]
    assert isinstance(experts, ExpertsCall)
    assert (experts.tokens, experts.own_tokens) == (16, 8)
    assert (experts.experts, experts.held, experts.inner) == (384, 48, 3072)


def test_a_mixed_batch_is_a_prefill() -> None:
    calls = calls_of(ParallelLayout(), StepShape(((1, 4095), (700, 0))))
    core = calls["csa/core"]
    assert isinstance(core, AttentionCall)
    assert not core.decode


def test_other_head_sizes_are_refused() -> None:
    graph = build_graph(find_model("tiny"), StepShape.uniform(1, 1, 100))
    with pytest.raises(UnsupportedError, match=r"head size 512, but the model has .* ideal"):
        lower(graph, find_profile("sglang-0.5"), RunStats())


def test_versions_share_a_section() -> None:
    assert list_sections() == ["ascend", "sglang", "trtllm", "vllm"]
    old, new = find_profile("vllm-0.22"), find_profile("vllm-0.33")
    assert old.kernels == new.kernels
    assert (old.version, new.version) == ("0.22", "0.33")


@pytest.mark.parametrize("name", ["sglang", "vllm", "trtllm"])
def test_a_section_has_every_part_of_the_module_once(name: str) -> None:
    from simulator.kernels.attention_present import COMPRESSES, CSA_ONLY

    parts = find_section(name).attention_kernels()
    trunk = ("fixed", "down", "norm", "query", "rope", "pad", "core", "inverse_rope", "regroup")
    assert set(parts) == {*COMPRESSES, *CSA_ONLY, *trunk, "output_group", "output"}
    assert all(kernel.stage for kernel in parts.values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": ()}, "either 'nodes' or 'before'"),
        ({"before": "core"}, "either 'nodes' or 'before'"),
        ({"part": "core"}, "expected a part for program 'attention'"),
    ],
)
def test_faulty_kernels_are_named(changes: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"name": "a", "family": "gemm", "nodes": ("attn/wq_a",)}
    with pytest.raises(ValueError, match=message):
        FusedKernel(**{**given, **changes})  # type: ignore[arg-type]


def test_faults_of_a_section_have_file_and_line(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from simulator.lower import kernel_section

    text = (kernel_section._SECTIONS / "vllm.yaml").read_text()
    own = tmp_path / "own.yaml"
    own.write_text(text.replace("program: gemm", "program: gem", 1))
    with pytest.raises(FileFormatError, match=r"own.yaml:\d+.*gem"):
        find_section(own)
    own.write_text(text.replace("before: core", "before: cores"))
    with pytest.raises(FileFormatError, match="'cores', which is none"):
        find_section(own)


@pytest.mark.parametrize("engine", list_profiles())
@pytest.mark.parametrize(
    "layout", [ParallelLayout(8), ParallelLayout(1, 2, 2), ParallelLayout(2, 2, 1)], ids=str
)
@pytest.mark.parametrize(
    "step", [StepShape.uniform(8, 1, 8191), StepShape(((1, 4095), (700, 40), (3, 0), (9, 1)))]
)
def test_every_node_is_in_one_kernel_of_every_engine(
    engine: str, layout: ParallelLayout, step: StepShape
) -> None:
    config = reduced_config(find_model("v4-flash"))
    graph = shard(build_graph(config, step.split(layout.data), mtp=True), layout, step.tokens)
    kernels = lower(graph, find_profile(engine), RunStats())
    placed = [path for kernel in kernels for path in kernel.nodes]
    working = [n.path for n in graph.nodes if graph.work(n, RunStats()) != Work()]
    left_out = set(working) - set(placed)
    assert len(placed) == len(set(placed))
    assert set(placed) <= set(working)
    assert all("/attn/indexer/" in path for path in left_out)
    assert not left_out or engine.startswith(("vllm", "trtllm"))
    for kernel in kernels:
        own = [k for k in kernels if k.scope == kernel.scope]
        assert all(before < own.index(kernel) for before in kernel.after)
