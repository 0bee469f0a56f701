"""A panel of steps over which one field is changed at a time: kernels of one layer of every kind.

A point is a batch at a context, a phase and a parallel layout; a probe prices the kernels of a
configuration at a point under an engine and keeps, by kind of layer and kernel, what is asked for
and how long it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from hwmodels.chip import ChipSpec
from hwmodels.node import NodeSpec
from simulator.cost.engine_price import kernel_prices
from simulator.cost.price import Target
from simulator.engine.kernel import Demand, Kernel
from simulator.engine.lowering import lower
from simulator.engine.profile import EngineProfile
from workloads.deepseek_v4.config import ModelConfig, find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.layout_check import reduced_config
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape

N = TypeVar("N", int, float)

ENGINES = ("ascend", "atom", "ideal", "sglang-0.5", "trtllm-1.3", "vllm-0.22", "vllm-0.33")
CHIP_OF = {"ascend": "ascend-910c", "atom": "mi355x"}
FIDELITIES = ("roofline", "tile")


@dataclass(frozen=True, slots=True)
class Point:
    """A step: requests of `new` tokens on `past`, over a layout."""

    batch: int
    new: int
    past: int
    layout: ParallelLayout

    @property
    def step(self) -> StepShape:
        return StepShape.uniform(self.batch, self.new, self.past)

    def __str__(self) -> str:
        return f"{self.batch}x({self.new}+{self.past})-{self.layout}"


TENSOR, DATA = ParallelLayout(8), ParallelLayout(1, 8, 8)
POINTS = tuple(
    Point(batch, 1, context - 1, layout)
    for layout in (TENSOR, DATA)
    for batch in (8, 64)
    for context in (8192, 131_072)
) + tuple(Point(8 if layout is DATA else 1, 8192, 0, layout) for layout in (TENSOR, DATA))


@dataclass(frozen=True, slots=True)
class Asked:
    """What the kernels of one name ask for in all, part by part, their time and how they are cut.

    `busy_ps` is what each resource alone would need.
    """

    work: Mapping[str, float]
    time_ps: int
    busy_ps: Mapping[str, int]
    cuts: tuple[str, ...]


Probe = Mapping[str, Asked]


def kernels_of(
    config: ModelConfig,
    precision: Precision,
    profile: EngineProfile,
    point: Point,
    stats: RunStats | None = None,
) -> tuple[Kernel, ...]:
    """Kernels of one layer of every kind, embedding and head."""
    graph = build_graph(config, point.step.split(point.layout.data), precision)
    return lower(shard(graph, point.layout, point.step.tokens), profile, stats or RunStats())


def probe(
    config: ModelConfig,
    precision: Precision,
    profile: EngineProfile,
    point: Point,
    chip: ChipSpec,
    node: NodeSpec,
    fidelity: str,
) -> Probe:
    """Work and time by kind of layer and kernel."""
    kernels = kernels_of(config, precision, profile, point)
    prices = kernel_prices((k.demand for k in kernels), Target(chip, node, profile), fidelity)
    found: dict[str, Asked] = {}
    for kernel in kernels:
        demand = kernel.demand
        name, own = f"{kernel.kind}/{kernel.name}", prices[demand]
        before = found.get(name, Asked({}, 0, {}, ()))
        found[name] = Asked(
            summed(before.work, work_of(demand)),
            before.time_ps + own.alone_ps,
            summed(before.busy_ps, own.busy_ps),
            (*before.cuts, own.cut),
        )
    return found


def work_of(demand: Demand) -> dict[str, float]:
    """Parts of a demand that cost something; runs by how many there are."""
    work: dict[str, float] = {f"flop {math}": n for math, n in demand.flops.items()}
    work |= {
        "vector": demand.vector_ops,
        "special": demand.special_ops,
        "weights": demand.weight_bytes,
        "read": demand.cache_read_bytes,
        "written": demand.cache_write_bytes,
        "activations": demand.activation_bytes,
        "sent": demand.link_bytes,
    }
    for product in demand.products:
        # A product of other sides takes another time, whatever its multiply-adds are.
        work["columns"] = work.get("columns", 0) + product.count * product.columns
        work["depth"] = work.get("depth", 0) + product.depth
    for row in demand.priced_as.rows if demand.priced_as else ():
        # Values of a key that are stored narrower than multiplied are converted.
        work["converted"] = dict(row).get("scaled_values", 0)
    return {key: value for key, value in work.items() if value}


def summed(one: Mapping[str, N], other: Mapping[str, N]) -> dict[str, N]:
    """Numbers of equal names added up."""
    return {**one, **{key: one.get(key, value - value) + value for key, value in other.items()}}


@dataclass(frozen=True, slots=True)
class Moves:
    """Names of kernels: that ask for something else, that take another time, and `against`: those
    that take less for more or more for less, though cut in the same way.

    One that asks for more of one thing and less of another moves wherever it goes.
    """

    asked: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()
    against: frozenset[str] = frozenset()

    @classmethod
    def between(cls, before: Probe, after: Probe, fidelity: str) -> Moves:
        """Kernels of both probes compared."""
        asked, moved, against = set(), set(), set()
        for name in before.keys() & after.keys():
            old, new = before[name], after[name]
            rises, falls = grows(old.work, new.work), grows(new.work, old.work)
            if not (rises or falls):
                continue
            asked.add(name)
            # A roofline hides what does not bind: its resource has to move.
            if old.time_ps != new.time_ps or (
                fidelity == "roofline" and old.busy_ps != new.busy_ps
            ):
                moved.add(name)
            sign = (new.time_ps > old.time_ps) - (new.time_ps < old.time_ps)
            if sign * (rises - falls) < 0 and old.cuts == new.cuts:
                against.add(name)
        return cls(frozenset(asked), frozenset(moved), frozenset(against))

    def __or__(self, other: Moves) -> Moves:
        return Moves(
            self.asked | other.asked, self.moved | other.moved, self.against | other.against
        )


def grows(old: Mapping[str, float], new: Mapping[str, float]) -> bool:
    """Whether there is more of something."""
    return any(value > old.get(key, 0) * (1 + 1e-9) for key, value in new.items())


@lru_cache(maxsize=8)
def small(config_name: str) -> ModelConfig:
    """One layer of every kind of a model."""
    return reduced_config(find_model(config_name))


def halved_and_doubled(value: int) -> Iterator[int]:
    """The values that a number is changed to."""
    for changed in (value // 2, value * 2):
        if changed != value and changed > 0:
            yield changed
