"""Recorded demands that an engine's programs price: equal questions are asked once a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hwmodels.machine import to_ps
from simulator.cost.batch_floor import Floors, pipe_shares
from simulator.cost.filling import filled_by, numbers_in
from simulator.cost.layer_time import Cost
from simulator.cost.price import Target
from simulator.cost.programs import PROGRAMS
from simulator.kernels.causes import shared_out
from simulator.lower.kernel import Demand

# Programs that look at nothing but the call, and at products or at bytes too.
_BY_PRODUCTS = ("gemm", "moe")
_BY_BYTES = ("elementwise",)


class ProgramBatch:
    """Prices of some demands by the programs that their engine names."""

    def __init__(self, demands: Sequence[Demand], target: Target) -> None:
        self._target = target
        asked = [question_of(demand) for demand in demands]
        self.questions = list(dict.fromkeys(asked))
        place = {question: i for i, question in enumerate(self.questions)}
        self._asked = [place[question] for question in asked]
        self._contends = [_program(demand) != "attention" for demand in demands]
        self._fills = [filled_by(question) for question in self.questions]
        self.places = [number.place for number in numbers_in(tuple(self.questions))]

    def costs(self, floors: Floors, launch_ps: int, values: Sequence[Any]) -> list[Cost] | None:
        """Price of each demand in a replay; None where a program leaves one to the tile model."""
        seconds = []
        for fill in self._fills:
            found = answer(fill(values), self._target)
            if found is None:
                return None
            seconds.append(found)
        totals = [to_ps(sum(parts.values())) for parts in seconds]
        launches = [
            shared_out(total, parts).get("launch", 0)
            for total, parts in zip(totals, seconds, strict=True)
        ]
        busy = floors.busy_ps.astype(int).T.tolist()
        return [
            _cost(totals[asked], launches[asked], launch_ps, own, contends)
            for asked, own, contends in zip(self._asked, busy, self._contends, strict=True)
        ]


def answer(question: Demand, target: Target) -> dict[str, float] | None:
    """Seconds by cause; None where no family covers the kernel."""
    priced = PROGRAMS[_program(question)](question, target)
    if priced is None:
        return None
    return {cause: float(value[0]) for cause, value in priced.parts.seconds.items()}


def question_of(demand: Demand) -> Demand:
    """The demand with only what its program looks at."""
    program = _program(demand)
    if program in _BY_BYTES:
        return demand
    return replace(
        demand,
        products=demand.products if program in _BY_PRODUCTS else (),
        vector_ops=0,
        special_ops=0,
        inputs=(),
        outputs=(),
        weight_bytes=0,
        cache_read_bytes=0,
        cache_touch_bytes=0,
        cache_write_bytes=0,
        cache_runs=(),
    )


def _program(demand: Demand) -> str:
    assert demand.priced_as is not None
    return demand.priced_as.program


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
