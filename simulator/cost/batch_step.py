"""A recorded step priced for steps of other shapes: all its kernels at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.machine import to_ps
from simulator.cost.batch_programs import ProgramBatch
from simulator.cost.layer_time import Cost, layer_ps
from simulator.cost.price import Target
from simulator.cost.programs import program_calls
from simulator.cost.recorded_shape import Shapes
from simulator.cost.recorded_step import RecordedStep
from simulator.cost.roofline import FloorBatch, Floors, pipe_shares
from simulator.cost.tile import TileBatch

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
