"""Law: priced work is the nodes' work and named extras, for every kernel, engine and step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hwmodels.chip import find_chip
from hwmodels.node import find_node
from simulator.cost.engine_price import engine_price, kernel_prices
from simulator.cost.price import Price, Target
from simulator.engine.kernel import Kernel
from simulator.engine.lowering import lower
from simulator.engine.physical_layout import PhysicalLayout, bind_layout
from simulator.engine.profile import find_profile, layout_of
from simulator.layout.padding import Padding, cut_pool
from tests.laws.panel import CHIP_OF, ENGINES, FIDELITIES, POINTS, Point, small
from tests.sampling import tenth
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.graph import Graph
from workloads.run_stats import RunStats
from workloads.sharding import shard

FORMATS = (
    Precision(),
    Precision(index="fp4", kv="bf16"),
    Precision(index="bf16", kv="nvfp4", expert="fp8"),
)
CASES = tuple(
    (engine, chip, fidelity, point, precision)
    for engine in ENGINES
    for chip in ((CHIP_OF[engine],) if engine in CHIP_OF else ("h200", "b200"))
    for fidelity in FIDELITIES
    for point in POINTS
    for precision in FORMATS
)
STATS = RunStats()


def lowered(
    engine: str, point: Point, precision: Precision, padded: bool = False
) -> tuple[Graph, PhysicalLayout, tuple[Kernel, ...]]:
    """The graph of one layer of every kind, how its rows are stored, and its kernels."""
    profile, config = find_profile(engine), small("v4-flash")
    graph = build_graph(config, point.step.split(point.layout.data), precision)
    local = shard(graph, point.layout, point.step.tokens)
    layout = layout_of(profile)
    physical = PhysicalLayout(layout)
    if padded:
        bound = bind_layout(layout, config, kv=precision.kv, index=precision.index)
        row = Padding("row", 576)
        cut = {p.name: cut_pool(p, layout.pools[p.kind], row, 0) for p in bound.pools}
        physical = PhysicalLayout(layout, cut)
    return local, physical, lower(local, profile, STATS, physical=physical)


def assert_holds_the_nodes_work(kernel: Kernel, graph: Graph, physical: PhysicalLayout) -> None:
    """Everything that the kernel asks for is asked for by its nodes, and the other way round."""
    nodes = {node.path: node for node in graph.nodes}
    macs: Counter[str] = Counter()
    weights = reads = written = padding = accesses = 0
    for path in kernel.nodes:
        node = nodes[path]
        work = graph.work(node, STATS)
        macs.update(work.macs)
        weights += sum(work.param_bytes)
        rows = [physical.of(graph.regions[name]) for name in node.regions]
        for read in work.reads:
            pool = rows[read.region]
            moved = pool.picked_row_bytes if read.pattern == "gather" else pool.scanned_row_bytes
            reads += pool.row_bytes * read.distinct
            padding += (moved - pool.row_bytes) * read.distinct
            accesses += 1
        written += sum(rows[append.region].row_bytes * append.entries for append in work.appends)
    demand = kernel.demand
    assert sum(product.macs for product in demand.products) == macs.total()
    assert demand.weight_bytes == weights
    assert demand.cache_write_bytes == written
    # Every access is rounded to whole bytes once, and its padding as well.
    assert abs(demand.cache_read_bytes - reads - padding) <= accesses
    assert abs(demand.row_padding_bytes - padding) <= accesses


def assert_extras_add_up(kernel: Kernel, price: Price) -> None:
    """Multiply-adds that time is taken for are those of the nodes and the extras by cause."""
    useful = sum(product.macs for product in kernel.demand.products)
    extras = {n: v for n, v in price.work.items() if n.endswith("_macs")}
    assert all(value >= -1e-6 * price.work["macs"] for value in extras.values()), extras
    assert useful + sum(extras.values()) == pytest.approx(price.work["macs"], rel=1e-9)
    assert all(price.work[n] >= 0 for n in price.work if not n.endswith("_macs"))


@pytest.mark.parametrize(("engine", "chip", "fidelity", "point", "precision"), tenth(CASES, 4))
def test_priced_work_is_the_nodes_work_and_named_extras(
    engine: str, chip: str, fidelity: str, point: Point, precision: Precision
) -> None:
    graph, physical, kernels = lowered(engine, point, precision)
    target = Target(find_chip(chip), find_node(chip, 8), find_profile(engine))
    covered = Counter(path for kernel in kernels for path in kernel.nodes)
    assert max(covered.values()) == 1
    idle = [node for node in graph.nodes if node.path not in covered]
    assert not any(graph.work(node, STATS).macs for node in idle)
    prices = kernel_prices((kernel.demand for kernel in kernels), target, fidelity)
    for kernel in kernels:
        assert_holds_the_nodes_work(kernel, graph, physical)
        price = prices[kernel.demand]
        assert_extras_add_up(kernel, price)
        if fidelity == "roofline":
            assert set(price.work) == {"macs"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("point", [POINTS[0], POINTS[-1]], ids=str)
def test_padding_of_rows_is_an_extra(engine: str, point: Point) -> None:
    graph, physical, kernels = lowered(engine, point, Precision(), padded=True)
    for kernel in kernels:
        assert_holds_the_nodes_work(kernel, graph, physical)
    assert any(kernel.demand.row_padding_bytes for kernel in kernels)


def test_what_a_kernel_pads_by_hand() -> None:
    """TP8: 8 heads in SGLang's tiles of 64 on Hopper, 640 keys; 32,768 keys in full tiles."""
    point = replace(POINTS[0], batch=1, past=131_071)
    kernels = lowered("sglang-0.5", point, Precision())[2]
    target = Target(find_chip("h200"), find_node("h200", 8), find_profile("sglang-0.5"))
    core = next(k for k in kernels if k.kind == "csa" and k.name == "core")
    work = engine_price(core.demand, target).work
    pair = 2 * 512
    assert work["macs"] == 64 * (128 + 512) * pair
    assert work["head_padding_macs"] == 56 * (128 + 512) * pair
    assert work["key_padding_macs"] == 0
    assert work["converted_values"] == (128 + 512) * 448
    scan = next(k for k in kernels if k.name == "index_score")
    work = engine_price(scan.demand, target).work
    assert work["macs"] == 32_768 * 64 * 128
    assert work["empty_tile_macs"] == work["key_padding_macs"] == 0
