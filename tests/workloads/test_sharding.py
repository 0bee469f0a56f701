"""Sharding: divided types, collectives where a partial sum is consumed, work conserved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulator.basis.errors import UnsupportedError
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.graph import Graph, Node
from workloads.layout_check import check_layout, working_layout
from workloads.ops import AllGather, AllReduce, ExpertCombine, ExpertDispatch, ReduceScatter
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape

STEP = StepShape(((3, 0), (1, 700), (2, 513), (1, 90)))
LAYOUTS = [
    ParallelLayout(2, 1, 1),
    ParallelLayout(2, 1, 2),
    ParallelLayout(1, 2, 1),
    ParallelLayout(1, 4, 4),
    ParallelLayout(2, 2, 1),
    ParallelLayout(2, 2, 2),
    ParallelLayout(2, 2, 4),
]
# Nodes whose matrix products are cut: by tensor rank, and by all ranks.
BY_TENSOR = ("attn/wq_b", "attn/core", "attn/wo_a", "attn/wo_b", "moe/shared/up", "logits")
BY_ALL = ("moe/up", "moe/down")


def tiny(step: StepShape = STEP) -> Graph:
    return build_graph(find_model("tiny"), step)


def local_step(layout: ParallelLayout, data_rank: int) -> StepShape:
    return StepShape(STEP.requests[data_rank :: layout.data])


def rank_graph(layout: ParallelLayout, data_rank: int = 0) -> Graph:
    return shard(tiny(local_step(layout, data_rank)), layout, STEP.tokens)


def collectives(graph: Graph, scope: str) -> list[tuple[str, str]]:
    """(kind, local path) of a layer's collectives that move something."""
    kinds = (AllReduce, AllGather, ReduceScatter, ExpertDispatch, ExpertCombine)
    return [
        (type(node.op).__name__, node.local_path)
        for node in graph.nodes
        if node.scope == scope
        and isinstance(node.op, kinds)
        and graph.work(node, RunStats()).link_bytes
    ]


ATTENTION = ("AllReduce", "attn/wo_b_all_reduce")
SUM = ("AllReduce", "moe/sum_all_reduce")
DISPATCH = ("ExpertDispatch", "moe/dispatch")


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (ParallelLayout(), []),
        # Routed and shared experts are partial over the same ranks: one sum for both.
        (ParallelLayout(2, 1, 1), [ATTENTION, SUM]),
        (ParallelLayout(2, 1, 2), [ATTENTION, SUM]),
        (ParallelLayout(1, 4, 1), [DISPATCH, ("ReduceScatter", "moe/combine")]),
        (ParallelLayout(1, 4, 4), [DISPATCH, ("ExpertCombine", "moe/combine")]),
        (ParallelLayout(2, 2, 1), [ATTENTION, DISPATCH, ("ReduceScatter", "moe/combine"), SUM]),
        # The combine gives whole sums, so the shared expert is summed on its own.
        (
            ParallelLayout(2, 2, 4),
            [
                ATTENTION,
                DISPATCH,
                ("ExpertCombine", "moe/combine"),
                ("AllReduce", "moe/shared/down_all_reduce"),
            ],
        ),
    ],
    ids=str,
)
def test_collectives_of_a_layer(layout: ParallelLayout, expected: list[tuple[str, str]]) -> None:
    assert collectives(rank_graph(layout), "layer02") == expected


def test_embedding_and_logits_with_a_sharded_vocabulary() -> None:
    graph = rank_graph(ParallelLayout(2))
    assert collectives(graph, "embed") == [("AllReduce", "tokens_all_reduce")]
    assert collectives(graph, "head") == [("AllGather", "logits_all_gather")]
    assert graph.outputs == ("head/logits_all_gather",)
    assert graph.values["head/logits"].dim("vocab") == 128
    assert graph.values["head/logits_all_gather"].dim("vocab") == 256


def test_a_single_rank_stays_as_it_is() -> None:
    graph = tiny()
    assert shard(graph, ParallelLayout(), STEP.tokens) is graph


def test_the_sum_is_read_and_the_partial_value_keeps_its_name() -> None:
    graph = rank_graph(ParallelLayout(2))
    expand = next(n for n in graph.nodes if n.path == "layer00/attn_hc/expand")
    assert expand.inputs[0] == "layer00/attn/wo_b_all_reduce"
    assert "layer00/attn/wo_b" in graph.values


def test_parameters_are_divided_and_regions_are_not() -> None:
    whole, graph = tiny(), rank_graph(ParallelLayout(2, 1, 2))
    assert graph.params["layer02/attn/wq_b"].shape == (2, 128, 64)
    assert graph.params["layer02/attn/sink"].shape == (2,)
    assert graph.params["layer02/attn/wo_b"].shape == (128, 1, 64)
    assert graph.params["layer02/attn/wq_a"] == whole.params["layer02/attn/wq_a"]
    assert graph.params["layer02/moe/w13"].shape == (4, 2, 128, 128)
    assert graph.regions == whole.regions
    split = rank_graph(ParallelLayout(2, 1, 1))
    assert split.params["layer02/moe/w13"].shape == (8, 2, 64, 128)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_types_of_whole_values_do_not_change(layout: ParallelLayout) -> None:
    step = local_step(layout, 0)
    whole, graph = tiny(step), rank_graph(layout)
    for layer in range(5):
        for name in ("attn/norm", "attn/wo_b", "attn_hc/expand", "moe/sum", "moe_hc/expand"):
            path = f"layer{layer:02d}/{name}"
            assert graph.values[path] == whole.values[path]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_multiply_adds_of_all_ranks_add_up(layout: ParallelLayout) -> None:
    """Each data rank's requests have their own shapes; tensor ranks are equal."""
    whole = _macs(tiny())
    ranks: dict[str, int] = {}
    for data_rank in range(layout.data):
        for path, macs in _macs(rank_graph(layout, data_rank)).items():
            ranks[path] = ranks.get(path, 0) + layout.tensor * macs
    checked = 0
    for path, macs in whole.items():
        local = path.partition("/")[2]
        if local in BY_TENSOR:
            assert ranks[path] == macs, path
            checked += 1
        if local in BY_ALL:
            # Rows of a rank are rounded up to whole slots.
            spare = macs // (2 * STEP.tokens) * layout.ranks
            assert macs <= ranks[path] <= macs + spare, path
            checked += 1
    assert checked == 5 * 7 + 1


def _macs(graph: Graph) -> dict[str, int]:
    return {node.path: sum(graph.work(node, RunStats()).macs.values()) for node in _products(graph)}


def _products(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if graph.work(node, RunStats()).macs)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_weights_of_all_ranks_hold_every_expert_once(layout: ParallelLayout) -> None:
    whole, part = tiny().params, rank_graph(layout).params
    for name in ("layer02/moe/w13", "layer02/moe/w2"):
        assert part[name].size * layout.ranks == whole[name].size


@pytest.mark.parametrize(
    ("model", "layout", "words"),
    [
        (
            "v4-pro",
            ParallelLayout(16),
            ["shared_ffn", "leaves 192 of 3072 rows", "128", "works: 8"],
        ),
        ("v4-flash", ParallelLayout(16), ["16 ranks", "8 groups", "works: 8"]),
        ("v4-pro", ParallelLayout(1, 7, 7), ["7 ranks", "384 experts"]),
        ("v4-pro", ParallelLayout(8, 5, 5), ["5 ranks", "384 experts"]),
        ("v4-pro", ParallelLayout(6), ["6 ranks", "tensor-parallel degree that works: 4"]),
        ("v4-pro", ParallelLayout(72), ["128 heads", "with 72 chips tp8 dp9 ep24 works"]),
        ("v4-flash", ParallelLayout(72), ["no layout of 72 chips works, of 64 tp8 dp8 ep64 does"]),
        ("v4-flash", ParallelLayout(1, 72, 72), ["256 experts", "of 64 tp8 dp8 ep64 does"]),
    ],
)
def test_layouts_that_cannot_be_cut(model: str, layout: ParallelLayout, words: list[str]) -> None:
    with pytest.raises(UnsupportedError) as error:
        check_layout(find_model(model), Precision(), layout)
    for word in words:
        assert word in error.value.message
    assert "\n" not in error.value.message


@pytest.mark.parametrize("model", ["v4-pro", "v4-flash"])
@pytest.mark.parametrize(
    "layout",
    [ParallelLayout(1), ParallelLayout(8), ParallelLayout(1, 8, 8), ParallelLayout(4, 2, 8)],
    ids=str,
)
def test_layouts_that_can(model: str, layout: ParallelLayout) -> None:
    check_layout(find_model(model), Precision(), layout)


@pytest.mark.parametrize(
    ("model", "asked", "is_default", "found"),
    [
        ("v4-flash", ParallelLayout(8), True, ParallelLayout(8)),
        # 72 = 9 x 8: nine divides neither heads nor experts of 2^n; 384 experts are 24 x 16.
        ("v4-pro", ParallelLayout(72), True, ParallelLayout(8, 9, 24)),
        ("v4-flash", ParallelLayout(72), True, ParallelLayout(8, 8, 64)),
        ("v4-pro", ParallelLayout(1, 72, 1), False, ParallelLayout(1, 72, 24)),
        ("v4-pro", ParallelLayout(1, 72, 72), False, ParallelLayout(1, 72, 24)),
    ],
)
def test_layouts_that_stand_in(
    model: str, asked: ParallelLayout, is_default: bool, found: ParallelLayout
) -> None:
    config = find_model(model)
    assert working_layout(config, Precision(), asked, is_default=is_default) == found
    check_layout(config, Precision(), found)


def test_degrees_that_were_asked_for_are_not_changed() -> None:
    with pytest.raises(UnsupportedError, match="72 ranks do not divide the 64 heads"):
        working_layout(find_model("v4-flash"), Precision(), ParallelLayout(72), is_default=False)


def test_expert_blocks_count_as_stored() -> None:
    """FP4 experts share a scale among 32 values, repacked FP8 experts among 128 x 128."""
    config, layout = find_model("v4-pro"), ParallelLayout(1, 16, 1)
    check_layout(config, Precision(expert="fp4"), layout)
    with pytest.raises(UnsupportedError, match=r"ffn of .* leaves 192 .* expert-parallel degree"):
        check_layout(config, Precision(expert="fp8"), layout)
