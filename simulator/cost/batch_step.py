"""A recorded step priced for steps of other shapes: all its kernels at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.machine import to_ps
from simulator.cost.batch_floor import FloorBatch, Floors, pipe_shares
from simulator.cost.batch_programs import ProgramBatch, answer, question_of
from simulator.cost.batch_tile import TileBatch
from simulator.cost.filling import filled_by
from simulator.cost.layer_time import Cost, layer_ps
from simulator.cost.price import Target
from simulator.cost.recorded_shape import Shapes
from simulator.cost.recorded_step import RecordedStep
from simulator.lower.kernel import Demand

# Costs of some of the demands in a replay; None where they cannot be told this way.
_Pricing = Callable[[Floors, int, Sequence[Any]], list[Cost] | None]


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
        programs = {
            i for i, d in enumerate(step.demands) if by_tiles and _programmed(d, step, target)
        }
        tiled = set(range(len(step.demands))) - programs if by_tiles else set()
        if tiled:
            demands = [step.demands[i] for i in sorted(tiled)]
            tiles = TileBatch(step.recording, demands, target)
            places += tiles.places
            self._parts.append((np.array(sorted(tiled)), tiles.costs))
        if programs:
            batch = ProgramBatch([step.demands[i] for i in sorted(programs)], target)
            places += batch.places
            self._parts.append((np.array(sorted(programs)), batch.costs))
        step.recording.keep(places)

    def total_ps(self, shapes: Shapes) -> int | None:
        """Duration of a step; None where it lowers in another way, or is priced in another way."""
        values = self._step.recording.replay(shapes)
        if values is None:
            return None
        costs = self._costs(values)
        if costs is None:
            return None
        return sum(
            layer.repeats * layer_ps([costs[i] for i in layer.demands], layer.streams, layer.after)
            for layer in self._step.layers
        )

    def _costs(self, values: Sequence[Any]) -> list[Cost] | None:
        floors = self._floors.floors(values)
        if not self._parts:
            busy = floors.busy_ps.astype(np.int64).T.tolist()
            return [Cost(self._launch_ps, max(b), pipe_shares(max(b), b)) for b in busy]
        costs: dict[int, Cost] = {}
        for own, pricing in self._parts:
            found = pricing(floors.of(own), self._launch_ps, values)
            if found is None:
                return None
            costs.update(zip(own.tolist(), found, strict=True))
        return [costs[i] for i in range(len(costs))]


def _programmed(demand: Demand, step: RecordedStep, target: Target) -> bool:
    """Whether a program prices the demand; chip and kernel decide that, not the step's shapes."""
    if demand.priced_as is None:
        return False
    plain = filled_by(demand)(step.recording.values)
    return answer(question_of(plain), target) is not None
