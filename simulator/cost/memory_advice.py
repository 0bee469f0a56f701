"""What would fit where a step does not: fewer requests, a shorter context, or more chips."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from simulator.cost.memory_use import workspace_bytes
from simulator.cost.result import StepQuestion
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.graph import build_graph
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state
from workloads.layout_check import distinct_parameters, fits_layout, reduced_config
from workloads.parallel import ParallelLayout
from workloads.sharding import shard
from workloads.step_shape import StepShape
from workloads.tensor_type import TensorType

_MOST_CHIPS = 256


def step_of(question: StepQuestion) -> StepShape:
    """New and past tokens of all requests of a question."""
    new = 1 if question.phase == "decode" else question.new_tokens
    return StepShape.uniform(question.batch, new, question.context - new)


def what_would_fit(
    question: StepQuestion, config: ModelConfig, precision: Precision, capacity_bytes: int
) -> str:
    """Half a sentence: smaller experts or chunks, batch or context, or more chips that fit."""
    search = _Search(question, config, precision, capacity_bytes)
    layout = question.layout
    found = []
    if precision.expert != config.expert_dtype == "fp4":
        packed = _Search(question, config, replace(precision, expert="fp4"), capacity_bytes)
        if packed.fits(layout, question.batch, question.context):
            found.append("--expert-dtype fp4, dequantised in the kernel")
    if question.phase == "prefill":
        chunk = _largest(
            lambda n: search.fits(layout, question.batch, question.context, n),
            question.new_tokens,
        )
        if chunk:
            found.append(f"chunks of --new-tokens {chunk:,}".replace(",", ""))
    batch = _largest(lambda n: search.fits(layout, n * layout.data, question.context))
    if batch:
        found.append(f"{batch * layout.data:,} requests of this context")
    context = _largest(
        lambda n: search.fits(layout, question.batch, n), config.max_position_embeddings
    )
    if context:
        found.append(f"{context:,} tokens for this batch")
    wider = search.fewest_chips()
    if wider:
        found.append(f"{wider.ranks} chips as {wider}")
    return (
        "would fit: " + ", or ".join(found) if found else f"no layout to {_MOST_CHIPS} chips fits"
    )


@dataclass(slots=True)
class _Search:
    """Memory of other questions about the same model on the same chip."""

    question: StepQuestion
    config: ModelConfig
    precision: Precision
    capacity_bytes: int
    _params: dict[str, TensorType] | None = None

    def fits(
        self, layout: ParallelLayout, batch: int, context: int, new_tokens: int | None = None
    ) -> bool:
        """Whether a rank of the layout holds its share of the requests."""
        weights = self._weight_bytes(layout)
        if weights > self.capacity_bytes:
            return False
        new = 1
        if self.question.phase == "prefill":
            new = min(new_tokens or self.question.new_tokens, context)
        step = StepShape.uniform(batch, new, context - new)
        local = step.split(layout.data)
        state = model_state(self.config, self.precision).nbytes(context) * local.batch
        if weights + state > self.capacity_bytes:
            return False
        # Layers of one kind hold the same values, so one of each has the same peak.
        # Token ids stay alive up to the last hash layer: all of them here, so as to err high.
        layers = reduced_config(self.config)
        hashed = layers.num_hidden_layers if self.config.num_hash_layers else 0
        layers = layers.model_copy(update={"num_hash_layers": hashed})
        graph = build_graph(layers, local, self.precision)
        used = weights + state + workspace_bytes(shard(graph, layout, step.tokens))
        return used <= self.capacity_bytes

    def fewest_chips(self) -> ParallelLayout | None:
        """Layout of the fewest chips, more than there are, that holds the question as it is."""
        params = distinct_parameters(self.config, self.precision)
        for layout in _wider(self.question.layout):
            if fits_layout(params, layout) and self.fits(
                layout, self.question.batch, self.question.context
            ):
                return layout
        return None

    def _weight_bytes(self, layout: ParallelLayout) -> int:
        if self._params is None:
            step = StepShape.uniform(1, 1, 0)
            self._params = build_graph(self.config, step, self.precision).params
        divisors = layout.divisors()
        return sum(param.divided(divisors).nbytes for param in self._params.values())


def _wider(layout: ParallelLayout) -> Iterator[ParallelLayout]:
    """Layouts of more chips, by their number: more tensor ranks, or more data ranks."""
    for ranks in range(layout.ranks + 1, _MOST_CHIPS + 1):
        if ranks % layout.data == 0:
            expert = ranks if layout.expert == layout.ranks > 1 else layout.expert
            if ranks % expert == 0:
                yield ParallelLayout(ranks // layout.data, layout.data, expert)
        if ranks % layout.tensor == 0:
            yield ParallelLayout(layout.tensor, ranks // layout.tensor, ranks)


def _largest(holds: Callable[[int], bool], limit: int | None = None) -> int:
    """Largest n >= 1 up to a limit for which a property that ends once holds; 0 if none."""
    if not holds(1):
        return 0
    low, high = 1, 2
    while (limit is None or high <= limit) and holds(high):
        low, high = high, 2 * high
    if limit is not None:
        high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
