"""Durations of many steps of one deployment: each distinct layer is costed once a step.

A step's time is that of the embedding, the head and the layers of each kind times their number;
the timer costs one layer of a kind and remembers steps that it has seen. It records how a step
lowers, so that a step of other shapes is priced without a graph.
"""

from __future__ import annotations

from collections import Counter

from simulator.basis.errors import UnsupportedError
from simulator.cost.batch_step import StepBatch
from simulator.cost.cycle import cycle_prices
from simulator.cost.engine_price import kernel_prices
from simulator.cost.price import Target
from simulator.cost.question import AskedStep, step_of
from simulator.cost.recorded_step import Deployment, Shapes
from simulator.cost.timeline import layer_durations
from simulator.engine.lowering import lower
from simulator.engine.physical_layout import check_pages
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.state import layer_name, model_state, mtp_name
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape

# Ways to lower a step that are kept: by phase, by what a step completes, by its tokens.
_MOST_BATCHES = 64


class StepTimer:
    """Times steps of one deployment at a fidelity.

    `asked` fixes all but the shapes of the step. Memory and layout are not checked here: cost a
    step of the deployment first. With `drafting` the steps are those of one MTP layer alone, with
    the head that it shares.
    """

    def __init__(
        self, asked: AskedStep, stats: RunStats | None = None, *, drafting: bool = False
    ) -> None:
        question, config, deployment = asked.question, asked.config, asked.deployment
        self.question = question
        self.target = Target(asked.chip, asked.node, deployment.profile)
        self.stats = stats or RunStats()
        self.precision = deployment.formats.precision
        state = model_state(config, self.precision, mtp=drafting)
        check_pages(deployment.layout, state.regions, config.name)
        self.drafting = drafting
        self.config, self.repeats = draft_layer(config) if drafting else distinct_layers(config)
        self._deployment = Deployment(
            config=self.config,
            repeats=self.repeats,
            layout=question.layout,
            precision=self.precision,
            profile=self.target.profile,
            stats=self.stats,
            mtp=drafting,
        )
        self._batches: list[StepBatch] = []
        self._known: dict[StepShape, int] = {}

    def total_ps(self, step: StepShape) -> int:
        """Duration of a step of all requests, on the busiest rank."""
        if step not in self._known:
            self._known[step] = self._cost(step)
        return self._known[step]

    def asked_ps(self) -> int:
        """Duration of the step that the question asks for."""
        return self.total_ps(step_of(self.question))

    def kernel_by_kernel_ps(self, step: StepShape) -> int:
        """The same as `total_ps`, from a graph of its own and kernel after kernel."""
        layout = self.question.layout
        whole = build_graph(self.config, step.split(layout.data), self.precision, mtp=self.drafting)
        graph = shard(whole, layout, step.tokens)
        kernels = lower(graph, self.target.profile, self.stats)
        if self.question.fidelity == "cycle":
            prices = cycle_prices(kernels, self.target, graph, self.stats)
        else:
            demands = [kernel.demand for kernel in kernels]
            known = kernel_prices(demands, self.target, self.question.fidelity)
            prices = [known[demand] for demand in demands]
        durations = layer_durations(kernels, prices, self.target.chip)
        return sum(self.repeats.get(scope, 1) * ps for scope, ps in durations.items())

    def _cost(self, step: StepShape) -> int:
        if self.question.fidelity == "cycle":
            return self.kernel_by_kernel_ps(step)
        shapes = Shapes(step.split(self.question.layout.data), step)
        for place, batch in enumerate(self._batches):
            total_ps = batch.total_ps(shapes)
            if total_ps is not None:
                # The next step is likely to be of the same kind.
                self._batches.insert(0, self._batches.pop(place))
                return total_ps
        if len(self._batches) == _MOST_BATCHES:
            return self.kernel_by_kernel_ps(step)
        recorded = self._deployment.recorded(shapes)
        batch = StepBatch(recorded, self.target, by_tiles=self.question.fidelity == "tile")
        self._batches.insert(0, batch)
        total_ps = batch.total_ps(shapes)
        return self.kernel_by_kernel_ps(step) if total_ps is None else total_ps


def draft_layer(config: ModelConfig) -> tuple[ModelConfig, dict[str, int]]:
    """A model of one layer and one MTP layer, and how often each counts: only the latter does.

    Raises UnsupportedError where the model has no MTP layer, or layers that differ.
    """
    if len(set(config.mtp_stages)) != 1:
        what = "no MTP layer" if not config.mtp_layers else "MTP layers of several kinds"
        ratios = [stage.ratio for stage in config.mtp_stages]
        raise UnsupportedError(
            f"{config.name} has {what} (compress_ratios {ratios} after the backbone's), but drafts "
            "are timed with layers of one kind; leave speculation out"
        )
    last = config.num_hidden_layers - 1
    small = config.cut(
        (last, last + 1), num_hidden_layers=1, num_hash_layers=0, num_nextn_predict_layers=1
    )
    return small, {"embed": 0, layer_name(0): 0, "head": 0, mtp_name(0): 1}


def distinct_layers(config: ModelConfig) -> tuple[ModelConfig, dict[str, int]]:
    """A shorter model with every pair of neighbouring layers, and how often each layer occurs."""
    reduced, places = layer_places(config)
    counts = Counter(places)
    return reduced, {layer_name(i): counts[i] for i in range(reduced.num_hidden_layers)}


def layer_places(config: ModelConfig) -> tuple[ModelConfig, tuple[int, ...]]:
    """A shorter model of the same layers, and of each layer the one there that costs the same.

    A layer costs by its own kind and by that of the layer after it, which decides how long its
    output stays in use. The shorter model is the front of the whole one, up to the layer that has
    shown the last new pair and is of the last layer's kind.
    """
    kinds: list[object] = [
        (i < config.num_hash_layers, attention) for i, attention in enumerate(config.layers)
    ]
    pairs = list(zip(kinds, [*kinds[1:], "head"], strict=True))
    unseen, last = set(pairs[:-1]), 0
    while unseen or kinds[last] != kinds[-1]:
        unseen.discard(pairs[last])
        last += 1
    front = [*pairs[:last], pairs[-1]]
    reduced = config.cut(
        range(len(front)),
        num_hash_layers=min(config.num_hash_layers, len(front)),
        num_nextn_predict_layers=0,
    )
    return reduced, tuple(front.index(pair) for pair in pairs)
