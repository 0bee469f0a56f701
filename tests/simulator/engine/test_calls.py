"""Sizes that programs are given: ragged batches as uniform ones, sizes read off the nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import FileFormatError
from simulator.engine.kernel_section import FusedKernel, find_section, list_sections
from simulator.engine.lowering import lower
from simulator.engine.phase import uniform
from simulator.engine.profile import find_profile, list_profiles
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


def sizes_of(
    layout: ParallelLayout, step: StepShape, model: str = "v4-pro"
) -> dict[str, dict[str, object]]:
    graph = build_graph(reduced_config(find_model(model)), step.split(layout.data))
    kernels = lower(shard(graph, layout, step.tokens), find_profile("vllm-0.33"), RunStats())
    return {
        f"{kernel.kind}/{kernel.name}": dict(kernel.demand.priced_as.rows[0])
        | {"decode_kernels": kernel.demand.priced_as.decode}
        for kernel in kernels
        if kernel.demand.priced_as is not None and kernel.demand.priced_as.rows
    }


def test_sizes_are_those_of_one_rank() -> None:
    sizes = sizes_of(ParallelLayout(4, 2, 8), StepShape.uniform(16, 1, 8191))
    core = sizes["csa/core"]
    assert core["decode_kernels"]
    assert (core["requests"], core["new"], core["past"]) == (8.0, 1.0, 8191.0)
    assert (core["heads"], core["values"], core["ratio"], core["top_k"]) == (32, 512, 4, 1024)
    # 128 rows of the window and 1,024 of the 2,048 entries, for each of 8 queries.
    assert core["pairs"] == 8 * (128 + 1024)
    assert core["macs"] == 2 * 512 * 32 * core["pairs"]
    assert (core["key_bytes"], core["scaled_values"]) == (584, 448)
    assert (sizes["hca/core"]["ratio"], sizes["hca/core"]["top_k"]) == (128, 0)
    scores = sizes["csa/index_score"]
    assert (scores["math"], scores["pairs"], scores["key_bytes"]) == ("fp8", 8 * 2048, 132)
    assert scores["macs"] == 64 * 128 * scores["pairs"]
    experts = sizes["csa/experts"]
    assert (experts["tokens"], experts["own_tokens"]) == (16, 8)
    assert (experts["experts"], experts["held"], experts["inner"]) == (384, 48, 3072)


def test_a_mixed_batch_is_a_prefill() -> None:
    sizes = sizes_of(ParallelLayout(), StepShape(((1, 4095), (700, 0))))
    assert not sizes["csa/core"]["decode_kernels"]


def test_other_head_sizes_are_priced() -> None:
    graph = build_graph(find_model("tiny"), StepShape.uniform(1, 1, 100))
    kernels = lower(graph, find_profile("sglang-0.5"), RunStats())
    assert any(kernel.name == "core" for kernel in kernels)


def test_versions_share_a_section() -> None:
    assert list_sections() == ["ascend", "atom", "sglang", "trtllm", "vllm"]
    old, new = find_profile("vllm-0.22"), find_profile("vllm-0.33")
    assert old.kernels == new.kernels
    assert (old.version, new.version) == ("0.22", "0.33")


@pytest.mark.parametrize("name", ["sglang", "vllm", "trtllm"])
def test_kernels_of_the_module_cover_its_nodes_once(name: str) -> None:
    kernels = [kernel for kernel in find_section(name).kernels if kernel.stage]
    nodes = [node for kernel in kernels for node in kernel.nodes]
    graph = build_graph(reduced_config(find_model("v4-flash")), StepShape.uniform(1, 1, 8191))
    wanted = {n.local_path for n in graph.nodes if n.local_path.startswith("attn/")}
    assert set(nodes) == wanted - {"attn/norm"}
    assert len(nodes) == len(set(nodes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": ()}, "either 'nodes' or 'before'"),
        ({"before": "core"}, "either 'nodes' or 'before'"),
        ({"program": "core"}, "the rule 'core' belongs to program 'core'"),
        ({"program": "pad"}, "'pads_to' belongs to program 'pad'"),
    ],
)
def test_faulty_kernels_are_named(changes: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"name": "a", "family": "gemm", "nodes": ("attn/wq_a",)}
    with pytest.raises(ValueError, match=message):
        FusedKernel(**{**given, **changes})  # type: ignore[arg-type]


def test_faults_of_a_section_have_file_and_line(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from simulator.engine import kernel_section

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
