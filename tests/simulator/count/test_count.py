"""Counts against published figures (model card sums and reports), and sums of sums."""

from __future__ import annotations

import pytest

from simulator.count.count import StepCount, count_graph
from simulator.count.tally import Tally, total
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.graph import Graph
from workloads.step_shape import StepShape

MILLION = 2**20


def graph_of(model: str, batch: int = 1, context: int = MILLION) -> Graph:
    step = StepShape.uniform(batch, 1, context - 1)
    return build_graph(find_model(model), step, Precision(index="fp4"))


def count(model: str, batch: int = 1, context: int = MILLION) -> StepCount:
    return count_graph(graph_of(model, batch, context))


@pytest.mark.parametrize(
    ("model", "batch", "gigabytes"),
    [
        ("v4-pro", 1, 39.66),
        ("v4-pro", 8, 124.1),
        ("v4-pro", 64, 548.8),
        ("v4-pro", 256, 834.3),
        ("v4-flash", 1, 11.22),
        ("v4-flash", 8, 33.2),
        ("v4-flash", 64, 122.7),
        ("v4-flash", 256, 154.6),
    ],
)
def test_weights_read_in_a_step(model: str, batch: int, gigabytes: float) -> None:
    weights = count(model, batch).total.weight_bytes
    assert weights / 1e9 == pytest.approx(gigabytes, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "context", "read", "resident"),
    [
        ("v4-pro", 131_072, 107.9, 664.0),
        ("v4-pro", MILLION, 705.6, 5280.4),
        ("v4-flash", 131_072, 68.3, 463.8),
        ("v4-flash", MILLION, 479.5, 3688.2),
    ],
)
def test_cache_of_one_request(model: str, context: int, read: float, resident: float) -> None:
    """Megabytes of window, compressed and index entries; the compressors' own rows are apart."""
    graph = graph_of(model, context=context)
    nodes = count_graph(graph).nodes
    entries = sum(n.tally.cache_read_bytes for n in nodes if n.op != "CompressPool")
    assert entries / 1e6 == pytest.approx(read, rel=1e-3)
    states = sum(
        region.resident_bytes(context)
        for region in graph.regions.values()
        if region.pool.endswith("_state")
    )
    held = count_graph(graph).total.state_bytes
    assert (held - states) / 1e6 == pytest.approx(resident, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        (
            "v4-pro",
            {
                "attention": 599.8,
                "experts": 924.8,
                "gate": 5.5,
                "hyper": 2.75,
                "indexer": 25.2,
                "scores": 0.004096 * MILLION,
                "core": 302.0,
            },
        ),
        (
            "v4-flash",
            {
                "attention": 213.9,
                "experts": 352.3,
                "gate": 2.1,
                "hyper": 1.57,
                "indexer": 16.8,
                "scores": 0.004096 * MILLION,
                "core": 83.9,
            },
        ),
    ],
)
def test_flops_of_a_csa_layer(model: str, parts: dict[str, float]) -> None:
    """10^6 FLOP of one token, by part."""
    layer = next(n.scope for n in count(model).nodes if n.kind == "csa")
    flops = {n.local_path: n.tally.total_flops for n in count(model).nodes if n.scope == layer}

    def sum_of(*names: str) -> float:
        return sum(flops[name] for name in names) / 1e6

    found = {
        "attention": sum_of(*(f"attn/{n}" for n in ("wq_a", "wq_b", "wkv", "wo_a", "wo_b"))),
        "experts": sum_of("moe/up", "moe/down", "moe/shared/up", "moe/shared/down"),
        "gate": sum_of("moe/gate"),
        "hyper": sum_of("attn_hc/project", "moe_hc/project"),
        "indexer": sum_of("attn/indexer/wq_b"),
        "scores": sum_of("attn/indexer/score"),
        "core": sum_of("attn/core"),
    }
    assert found == pytest.approx(parts, rel=0.01)


@pytest.mark.parametrize(("model", "billions"), [("v4-pro", 1572.99), ("v4-flash", 284.33)])
def test_parameters(model: str, billions: float) -> None:
    graph = graph_of(model)
    counted = count_graph(graph).total
    assert counted.parameters / 1e9 == pytest.approx(billions, rel=2e-5)
    assert counted.parameters == sum(param.size for param in graph.params.values())
    assert counted.parameter_bytes == graph.weight_bytes


def test_state_is_that_of_the_layout_for_every_request() -> None:
    graph = build_graph(find_model("tiny"), StepShape(((1, 99), (7, 0), (1, 4000))))
    expected = sum(graph.state_layout.nbytes(context) for context in (100, 7, 4001))
    assert count_graph(graph).total.state_bytes == expected


def test_groups_add_up_to_the_total() -> None:
    counted = count("v4-flash")
    for groups in (counted.by_layer(), counted.by_operation(), counted.by_kind()):
        assert total(groups.values()) == counted.total
    assert list(counted.by_kind()) == ["embed", "swa", "csa", "hca", "head"]
    assert counted.by_operation()["logits"].total_flops == 2 * 4096 * 129_280
    assert counted.tokens == 1


def test_a_shared_table_counts_once() -> None:
    config = find_model("v4-flash")
    graph = build_graph(config, StepShape.uniform(1, 1, 0), mtp=True)
    assert count_graph(graph).total.parameters == sum(p.size for p in graph.params.values())


def test_tallies_add_and_weigh() -> None:
    a = Tally(flops={"bf16": 10, "fp8": 1}, weight_bytes=3)
    b = Tally(flops={"fp8": 2, "fp4_index": 4}, cache_read_bytes=5)
    both = a + b
    assert both.flops == {"bf16": 10, "fp8": 3, "fp4_index": 4}
    assert (both.total_flops, both.weighted_flops) == (17, 25.0)
    assert both.moved_bytes == 8
    assert total([]) == Tally()
