"""A step lowered once, of which only the numbers are worked out for steps of other shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from simulator.cost.recorded_shape import RecordedShape, Shapes
from simulator.cost.recorded_stats import recorded_stats
from simulator.cost.recording import Recording
from simulator.engine.kernel import Demand, Kernel
from simulator.engine.lowering import lower
from simulator.engine.profile import EngineProfile
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """A layer that occurs `repeats` times; `demands` are positions in the list of the step's.

    `streams` and `after` are those of its kernels.
    """

    repeats: int
    demands: tuple[int, ...]
    streams: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """Distinct demands of a step, their numbers recorded, and the layers that have them."""

    recording: Recording
    demands: tuple[Demand, ...]
    layers: tuple[LayerPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a timer's steps have in common; `repeats` says how often layers occur (else once).

    `mtp`: whether the graph has the layer that drafts.
    """

    config: ModelConfig
    repeats: Mapping[str, int]
    layout: ParallelLayout
    precision: Precision
    profile: EngineProfile
    stats: RunStats
    mtp: bool = False

    def recorded(self, shapes: Shapes) -> RecordedStep:
        """The step of these shapes, lowered with recorded numbers."""
        recording = Recording()
        shape = RecordedShape(recording, shapes)
        graph = build_graph(self.config, shape, self.precision, mtp=self.mtp)
        stats = recorded_stats(self.stats)
        kernels = lower(shard(graph, self.layout, shape.all_tokens), self.profile, stats)
        own = [(n, layer) for n, layer in self._layers(kernels) if n]
        demands = list(dict.fromkeys(kernel.demand for _, layer in own for kernel in layer))
        position = {id(demand): i for i, demand in enumerate(demands)}
        same = {demand: demand for demand in demands}
        plans: dict[LayerPlan, int] = {}
        for repeats, layer in own:
            plan = LayerPlan(
                1,
                tuple(position[id(same[kernel.demand])] for kernel in layer),
                tuple(kernel.stream for kernel in layer),
                tuple(kernel.after for kernel in layer),
            )
            plans[plan] = plans.get(plan, 0) + repeats
        layers = (LayerPlan(n, p.demands, p.streams, p.after) for p, n in plans.items())
        return RecordedStep(recording, tuple(demands), tuple(layers))

    def _layers(self, kernels: Sequence[Kernel]) -> Iterator[tuple[int, Sequence[Kernel]]]:
        """Kernels of each scope, and how often it occurs."""
        scopes = dict.fromkeys(kernel.scope for kernel in kernels)
        for scope in scopes:
            own = [kernel for kernel in kernels if kernel.scope == scope]
            yield self.repeats.get(scope, 1), own
