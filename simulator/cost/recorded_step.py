"""A step lowered once, of which only the numbers are worked out for steps of other shapes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from simulator.cost.recording import Number, Recording
from simulator.engine.kernel import Demand, Kernel
from simulator.engine.lowering import lower
from simulator.engine.profile import EngineProfile
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.dspark import build_draft_graph
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.graph import Graph
from workloads.parallel import ParallelLayout
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape

Count = Callable[[StepShape], Any]


@dataclass(frozen=True, slots=True)
class Shapes:
    """The busiest rank's share of a step, and the step of all requests; counts are remembered."""

    own: StepShape
    whole: StepShape
    _known: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def counted(self, number: int, count: Count) -> Any:
        """A count of the rank's share; recordings have the same number for the same count."""
        if number not in self._known:
            self._known[number] = count(self.own)
        return self._known[number]


class RecordedShape(StepShape):
    """Takes the place of a rank's share of a step; all that it counts are recorded numbers."""

    _recording: Recording
    _shapes: Shapes

    def __init__(self, recording: Recording, shapes: Shapes) -> None:
        super().__init__(shapes.own.requests)
        object.__setattr__(self, "_recording", recording)
        object.__setattr__(self, "_shapes", shapes)

    def total(self, term: Callable[[int, int], int]) -> Any:
        """Sum over the requests."""
        return self._count(_key(term), lambda own: own.total(term))

    def ordered_total(self, term: Callable[[int, int], float]) -> Any:
        """Sum over the requests, one after the other."""
        return self._count(("ordered", _key(term)), lambda own: own.ordered_total(term))

    @property
    def batch(self) -> Any:
        """Requests in the step."""
        return self._count("batch", operator.attrgetter("batch"))

    @property
    def all_tokens(self) -> Any:
        """Tokens of the requests of all ranks."""
        if self._shapes.own is self._shapes.whole:
            return self.tokens
        return self._recording.source("all", lambda shapes: shapes.whole.tokens, self._shapes)

    def _count(self, key: object, count: Count) -> Any:
        number = _NUMBERS.setdefault(key, len(_NUMBERS))
        return self._recording.source(
            number, lambda shapes: shapes.counted(number, count), self._shapes
        )


# A number for each thing that is ever counted: quicker to look up than what it stands for.
_NUMBERS: dict[object, int] = {}


def _key(term: Callable[..., Any]) -> object:
    """Equal for functions of the same code that have captured the same values."""
    captured = (cell.cell_contents for cell in term.__closure__ or ())
    return term.__code__, tuple(_key(c) if hasattr(c, "__code__") else c for c in captured)


@dataclass(frozen=True, slots=True)
class _ExpectedExperts:
    """Experts that tokens touch, as an operation on the number of tokens."""

    stats: RunStats
    experts: int
    per_token: int

    def __call__(self, tokens: int, alone: float | None) -> float:
        return self.stats.expected_experts(self.experts, self.per_token, tokens, alone)


class RecordedStats(RunStats):
    """The same statistics, whatever arithmetic theirs is: each answer is one operation."""

    def expected_experts(self, experts: int, per_token: int, tokens: Any, alone: Any = None) -> Any:
        """Distinct experts that the tokens touch."""
        if not isinstance(tokens, Number):
            return super().expected_experts(experts, per_token, tokens, alone)
        return tokens.recording.apply(_ExpectedExperts(self, experts, per_token), tokens, alone)


def recorded_stats(stats: RunStats) -> RecordedStats:
    """Statistics that may be asked about recorded numbers."""
    return RecordedStats(**{field.name: getattr(stats, field.name) for field in fields(stats)})


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

    `mtp`: whether the graph has the layer that drafts; `block`: it is a pass of a DSpark head.
    """

    config: ModelConfig
    repeats: Mapping[str, int]
    layout: ParallelLayout
    precision: Precision
    profile: EngineProfile
    stats: RunStats
    mtp: bool = False
    block: bool = False

    def graph(self, shape: StepShape) -> Graph:
        """Graph of a step of these shapes, of which `repeats` says what counts."""
        if self.block:
            return build_draft_graph(self.config, shape, self.precision)
        return build_graph(self.config, shape, self.precision, mtp=self.mtp)

    def recorded(self, shapes: Shapes) -> RecordedStep:
        """The step of these shapes, lowered with recorded numbers."""
        recording = Recording()
        shape = RecordedShape(recording, shapes)
        graph = self.graph(shape)
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
