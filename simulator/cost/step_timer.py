"""Durations of many steps of one deployment: each distinct layer is costed once a step.

A step's time is that of the embedding, the head and the layers of each kind times their number;
the timer costs one layer of a kind and remembers steps that it has seen. It records how a step
lowers, so that a step of other shapes is priced without a graph.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.machine.live import to_ps
from simulator.basis.errors import UnsupportedError
from simulator.cost.cycle import cycle_prices
from simulator.cost.engine_price import contends, kernel_prices
from simulator.cost.family_call import FamilyCall
from simulator.cost.layer_time import Cost, layer_ps
from simulator.cost.price import Target
from simulator.cost.programs import program_calls
from simulator.cost.question import AskedStep, step_of
from simulator.cost.recorded_step import Deployment, RecordedStep, Shapes
from simulator.cost.recording import Number, Recording
from simulator.cost.roofline import FloorBatch, Floors, pipe_shares
from simulator.cost.tile import TileBatch
from simulator.cost.timeline import layer_durations
from simulator.engine.kernel import Demand
from simulator.engine.lowering import lower
from simulator.engine.physical_layout import check_pages
from simulator.kernels.causes import part_of
from simulator.kernels.constants_file import FamilyFile, held_constants
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.state import layer_name, model_state, mtp_name
from workloads.run_stats import RunStats
from workloads.sharding import shard
from workloads.step_shape import StepShape

# Seconds of a kernel by cause.
Seconds = Mapping[str, float]
# Tables whose seconds are kept: steps of as many tokens have many calls in common.
MOST_KNOWN = 4096


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Calls of one form with equal constants, of which each replay fills in the sizes.

    `owners` are the demands that the calls belong to; `sizes` gives all sizes, call after call.
    """

    first: FamilyCall
    owners: tuple[int, ...]
    texts: Mapping[str, np.ndarray]
    numbers: tuple[str, ...]
    sizes: Callable[[Sequence[Any]], tuple[Any, ...]]

    def filled(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Sizes of a replay."""
        return self.sizes(values)[:-1]

    def seconds(self, filled: tuple[Any, ...], target: Target) -> dict[str, list[float]]:
        """Seconds by cause of all calls."""
        array = np.array(filled, dtype=np.float64).reshape(len(self.owners), len(self.numbers))
        columns = {name: array[:, i] for i, name in enumerate(self.numbers)} | dict(self.texts)
        parts = self.first.form(columns, target.chip, self.first.constants.values)
        count = len(self.owners)
        return {
            cause: np.broadcast_to(value, count).tolist() for cause, value in parts.seconds.items()
        }


class ProgramBatch:
    """Prices of some demands by the programs that their engine names; `calls` of each."""

    def __init__(
        self,
        recording: Recording,
        demands: Sequence[Demand],
        calls: Sequence[Sequence[FamilyCall]],
        target: Target,
    ) -> None:
        self._target = target
        self._count = len(demands)
        self._contends = [contends(demand, target) for demand in demands]
        groups: dict[object, list[tuple[int, FamilyCall]]] = {}
        for owner, own in enumerate(calls):
            for call in own:
                groups.setdefault(call.key, []).append((owner, call))
        self._tables = [_table(recording, members) for members in groups.values()]
        self.places = tuple(
            value.place
            for own in calls
            for call in own
            for _, value in call.row
            if isinstance(value, Number)
        )
        self.places += tuple(
            recording.place(value)
            for own in calls
            for call in own
            for _, value in call.row
            if not isinstance(value, Number | str)
        )
        self._known: dict[object, dict[str, list[float]]] = {}
        # A timer keeps to the constants that it has begun with.
        self._files: dict[tuple[str, Path], FamilyFile] = {}

    def costs(self, floors: Floors, launch_ps: int, values: Sequence[Any]) -> list[Cost]:
        """Price of each demand in a replay."""
        seconds: list[dict[str, float]] = [{} for _ in range(self._count)]
        with held_constants(self._files):
            for number, table in enumerate(self._tables):
                found = self._seconds(number, table, values)
                for cause, column in found.items():
                    for owner, value in zip(table.owners, column, strict=True):
                        own = seconds[owner]
                        own[cause] = own[cause] + value if cause in own else value
        busy = floors.busy_ps.astype(int).T.tolist()
        return [
            _cost(*_timed(own), launch_ps, floor, contends)
            for own, floor, contends in zip(seconds, busy, self._contends, strict=True)
        ]

    def _seconds(self, number: int, table: _Table, values: Sequence[Any]) -> dict[str, list[float]]:
        key = number, table.filled(values)
        if key not in self._known:
            self._known[key] = table.seconds(key[1], self._target)
            while len(self._known) > MOST_KNOWN:
                self._known.pop(next(iter(self._known)))
        return self._known[key]


def _table(recording: Recording, members: Sequence[tuple[int, FamilyCall]]) -> _Table:
    first = members[0][1]
    texts = {
        name: np.array([call.row[i][1] for _, call in members])
        for i, (name, value) in enumerate(first.row)
        if isinstance(value, str)
    }
    numbers = tuple(name for name, value in first.row if not isinstance(value, str))
    places = [
        recording.place(value)
        for _, call in members
        for _, value in call.row
        if not isinstance(value, str)
    ]
    owners = tuple(owner for owner, _ in members)
    # The last place is there twice, so that there are always several.
    return _Table(first, owners, texts, numbers, operator.itemgetter(*places, places[-1]))


def _timed(seconds: Seconds) -> tuple[int, int]:
    """Duration and the launch's part of it; see `engine_price`."""
    total = to_ps(sum(seconds.values()))
    if not seconds.get("launch"):
        return total, 0
    if sum(1 for part in seconds.values() if part > 0) == 1:
        return total, total
    return total, part_of("launch", total, seconds)


def _cost(total: int, launch: int, gap_ps: int, busy: list[int], contends: bool) -> Cost:
    """A program's time, never less than the roofline; see `engine_price`."""
    floor_ps = gap_ps + max(busy)
    if floor_ps > total:
        if gap_ps > max(busy):  # what binds the roofline is the launch
            launch += floor_ps - total
        total = floor_ps
    launch = min(launch, total)
    run_ps = total - launch
    return Cost(launch, run_ps, pipe_shares(run_ps, busy) if contends else {})


# Costs of some of the demands in a replay.
_Pricing = Callable[[Floors, int, Sequence[Any]], list[Cost]]


class StepBatch:
    """Duration of steps that lower as the recorded one did, by roofline or by tiles and programs.

    The same picoseconds as from kernel after kernel.
    """

    def __init__(self, step: RecordedStep, target: Target, *, by_tiles: bool) -> None:
        self._step = step
        self._launch_ps = to_ps(target.chip.launch_gap_s)
        self._floors = FloorBatch(step.recording, step.demands, target)
        self._contends = [contends(demand, target) for demand in step.demands]
        places = list(self._floors.table.places)
        self._parts: list[tuple[NDArray[np.intp], _Pricing]] = []
        calls = [program_calls(d, target) if by_tiles else None for d in step.demands]
        programs = [i for i, own in enumerate(calls) if own is not None]
        tiled = [i for i, own in enumerate(calls) if own is None] if by_tiles else []
        if tiled:
            tiles = TileBatch(step.recording, [step.demands[i] for i in tiled], target)
            places += tiles.places
            self._parts.append((np.array(tiled), tiles.costs))
        if programs:
            own = [calls[i] or [] for i in programs]
            demands = [step.demands[i] for i in programs]
            batch = ProgramBatch(step.recording, demands, own, target)
            places += batch.places
            self._parts.append((np.array(programs), batch.costs))
        step.recording.keep(places)

    def total_ps(self, shapes: Shapes) -> int | None:
        """Duration of a step; None where it lowers in another way, or into other calls."""
        values = self._step.recording.replay(shapes)
        if values is None:
            return None
        costs = self._costs(values)
        return sum(
            layer.repeats * layer_ps([costs[i] for i in layer.demands], layer.streams, layer.after)
            for layer in self._step.layers
        )

    def _costs(self, values: Sequence[Any]) -> list[Cost]:
        floors = self._floors.floors(values)
        if not self._parts:
            busy = floors.busy_ps.astype(np.int64).T.tolist()
            return [
                Cost(self._launch_ps, max(b), pipe_shares(max(b), b) if shares else {})
                for b, shares in zip(busy, self._contends, strict=True)
            ]
        costs: dict[int, Cost] = {}
        for own, pricing in self._parts:
            found = pricing(floors.of(own), self._launch_ps, values)
            costs.update(zip(own.tolist(), found, strict=True))
        return [costs[i] for i in range(len(costs))]


# Ways to lower a step that are kept: by phase, by what a step completes, by its tokens.
_MOST_BATCHES = 64


class StepTimer:
    """Times steps of one deployment at a fidelity.

    `asked` fixes all but the shapes of the step. Memory and layout are not checked here: cost a
    step of the deployment first. With `drafting` the steps are those of one MTP layer alone, with
    the head that it shares, or passes of a DSpark head over blocks; with `seeding` they are what a
    DSpark head keeps of a step's tokens.
    """

    def __init__(
        self,
        asked: AskedStep,
        stats: RunStats | None = None,
        *,
        drafting: bool = False,
        seeding: bool = False,
    ) -> None:
        question, config, deployment = asked.question, asked.config, asked.deployment
        self.question = question
        self.target = Target(asked.chip, asked.node, deployment.profile)
        self.stats = stats or RunStats()
        self.precision = deployment.formats.precision
        state = model_state(config, self.precision, mtp=drafting or seeding)
        check_pages(deployment.layout, state.regions, config.name)
        self.drafting = drafting
        block = drafting and config.drafts_blocks
        self.config: ModelConfig
        self.repeats: dict[str, int]
        if block:
            self.config, self.repeats = _whole_block(asked), {}
        elif seeding:
            self.config, self.repeats = seed_layers(config)
        elif drafting:
            self.config, self.repeats = draft_layer(config)
        else:
            self.config, self.repeats = distinct_layers(config)
        self._deployment = Deployment(
            config=self.config,
            repeats=self.repeats,
            layout=question.layout,
            precision=self.precision,
            profile=self.target.profile,
            stats=self.stats,
            mtp=drafting or seeding,
            block=block,
        )
        self._batches: list[StepBatch] = []
        self._known: dict[StepShape, int] = {}
        self._ranks: dict[tuple[StepShape, int], int] = {}

    def total_ps(self, step: StepShape) -> int:
        """Duration of a step of all requests, on the busiest rank."""
        if step not in self._known:
            self._known[step] = self._cost(step)
        return self._known[step]

    def rank_ps(self, own: StepShape, everyone: int) -> int:
        """Duration of a step on a rank with these requests, where all ranks have so many tokens."""
        key = own, everyone
        if key not in self._ranks:
            whole = StepShape(((max(everyone, own.tokens), 0),))
            self._ranks[key] = self._cost_of(Shapes(own, whole))
        return self._ranks[key]

    def launches(self, step: StepShape) -> int:
        """Kernels of a step on the busiest rank, as the engine's list has them."""
        shapes = Shapes(step.split(self.question.layout.data), step)
        layers = self._deployment.recorded(shapes).layers
        return sum(layer.repeats * len(layer.demands) for layer in layers)

    def asked_ps(self) -> int:
        """Duration of the step that the question asks for."""
        return self.total_ps(step_of(self.question))

    def kernel_by_kernel_ps(self, step: StepShape) -> int:
        """The same as `total_ps`, from a graph of its own and kernel after kernel."""
        return self._one_by_one_ps(Shapes(step.split(self.question.layout.data), step))

    def _one_by_one_ps(self, shapes: Shapes) -> int:
        layout = self.question.layout
        whole = self._deployment.graph(shapes.own)
        graph = shard(whole, layout, shapes.whole.tokens)
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
        return self._cost_of(Shapes(step.split(self.question.layout.data), step))

    def _cost_of(self, shapes: Shapes) -> int:
        for place, batch in enumerate(self._batches):
            total_ps = batch.total_ps(shapes)
            if total_ps is not None:
                # The next step is likely to be of the same kind.
                self._batches.insert(0, self._batches.pop(place))
                return total_ps
        if len(self._batches) == _MOST_BATCHES:
            return self._one_by_one_ps(shapes)
        recorded = self._deployment.recorded(shapes)
        batch = StepBatch(recorded, self.target, by_tiles=self.question.fidelity == "tile")
        self._batches.insert(0, batch)
        total_ps = batch.total_ps(shapes)
        return self._one_by_one_ps(shapes) if total_ps is None else total_ps


def _whole_block(asked: AskedStep) -> ModelConfig:
    """The model, its draft's block as long as the drafts of a step ask for."""
    block = max(asked.config.dspark_block_size or 0, asked.question.draft_tokens)
    return asked.config.model_copy(update={"dspark_block_size": block})


def seed_layers(config: ModelConfig) -> tuple[ModelConfig, dict[str, int]]:
    """A model of one layer and all draft stages, of which only what seeds the stages counts."""
    last = config.num_hidden_layers - 1
    stages = config.mtp_layers
    small = config.cut(
        range(last, last + 1 + stages),
        num_hidden_layers=1,
        num_hash_layers=0,
        num_nextn_predict_layers=stages,
        dspark_target_layer_ids=(0,) * stages,
    )
    counted = {mtp_name(stage): 1 for stage in range(stages)}
    return small, {"embed": 0, layer_name(0): 0, "head": 0, **counted}


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
