"""A recorded step priced for steps of other shapes: all its kernels at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.machine import to_ps
from simulator.cost.family_call import FamilyCall, kernel_of
from simulator.cost.layer_time import Cost, layer_ps
from simulator.cost.price import Target
from simulator.cost.programs import program_calls
from simulator.cost.recorded_step import RecordedStep, Shapes
from simulator.cost.recording import Number, Recording
from simulator.cost.roofline import FloorBatch, Floors, pipe_shares
from simulator.cost.tile import TileBatch
from simulator.engine.kernel import Demand
from simulator.kernels.causes import part_of
from simulator.kernels.constants_file import FamilyFile, held_constants

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
        self._contends = [not kernel_of(demand, target).stage for demand in demands]
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
            return [Cost(self._launch_ps, max(b), pipe_shares(max(b), b)) for b in busy]
        costs: dict[int, Cost] = {}
        for own, pricing in self._parts:
            found = pricing(floors.of(own), self._launch_ps, values)
            costs.update(zip(own.tolist(), found, strict=True))
        return [costs[i] for i in range(len(costs))]
