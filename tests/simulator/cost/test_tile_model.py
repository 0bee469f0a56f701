"""All ways of many kernels compared as arrays give what one kernel after another gives."""

import pytest

from hwmodels.chip import find_chip
from hwmodels.node import find_node
from simulator.cost.price import Price, Target
from simulator.cost.tile import tile_price, tile_prices
from simulator.engine.lowering import lower
from simulator.engine.profile import find_profile
from tests.laws.panel import DATA, POINTS, TENSOR, Point, small
from tests.oracles import tile_model
from tests.sampling import tenth
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.run_stats import RunStats
from workloads.sharding import shard

PLACES = (
    *(("h200", "ideal"), ("b200", "ideal"), ("mi300x", "ideal")),
    *(("ascend-910c", "ascend"), ("ascend-950dt", "ascend"), ("ascend-950dt", "ideal")),
)
SHAPES = (*POINTS, Point(1, 1, 0, TENSOR), Point(3, 1, 999, TENSOR), Point(16, 300, 5000, DATA))
FORMATS = (
    Precision(),
    Precision(expert="fp4", index="fp4"),
    Precision(expert="bf16", kv="bf16", linear="bf16"),
)
CASES = [(*place, point, formats) for place in PLACES for point in SHAPES for formats in FORMATS]


def said(price: Price) -> tuple[object, ...]:
    work = {name: pytest.approx(value, rel=1e-12) for name, value in price.work.items()}
    return price.run_ps, price.busy_ps, price.causes_ps, price.cut, price.traffic, work


@pytest.mark.parametrize(("chip", "engine", "point", "formats"), tenth(CASES, 21))
def test_arrays_give_what_formulas_give(
    chip: str, engine: str, point: Point, formats: Precision
) -> None:
    target = Target(find_chip(chip), find_node(chip, 8), find_profile(engine))
    graph = build_graph(small("v4-flash"), point.step.split(point.layout.data), formats)
    kernels = lower(shard(graph, point.layout, point.step.tokens), target.profile, RunStats())
    demands = list(dict.fromkeys(kernel.demand for kernel in kernels))
    assert len(demands) > 10
    together = tile_prices(demands, target)
    for demand, price in zip(demands, together, strict=True):
        expected = tile_model.tile_price(demand, target)
        assert said(expected) == said(price)
    alone = demands[len(demands) // 2]
    assert said(tile_price(alone, target)) == said(tile_model.tile_price(alone, target))
