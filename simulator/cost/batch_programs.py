"""Recorded demands that an engine's programs price: equal questions are asked once a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwmodels.machine import to_ps
from simulator.cost.batch_floor import Floors, pipe_shares
from simulator.cost.batch_modules import ModuleBatch
from simulator.cost.family_call import FamilyCall, parts_of
from simulator.cost.filling import filled_by, numbers_in
from simulator.cost.layer_time import Cost
from simulator.cost.price import Target
from simulator.cost.programs import CALLS, PROGRAMS
from simulator.kernels.causes import part_of
from simulator.kernels.constants_file import FamilyFile, held_constants
from simulator.lower.kernel import Demand, ProgramCall

# Seconds of a kernel by cause.
Seconds = Mapping[str, float]
# Calls whose seconds are kept.
MOST_KNOWN = 4096
# Programs that look at products, or at bytes and not only at the call.
_BY_PRODUCTS = ("gemm", "moe")
_BY_BYTES = ("elementwise",)


class ProgramBatch:
    """Prices of some demands by the programs that their engine names."""

    def __init__(self, demands: Sequence[Demand], target: Target) -> None:
        self._target = target
        modules = [demand for demand in demands if _program(demand) == "attention"]
        self._modules = ModuleBatch(modules, target)
        asked = [_asked(demand) for demand in demands]
        questions = [q for q in dict.fromkeys(asked) if isinstance(q, Demand)]
        self._fills = [filled_by(question) for question in questions]
        everything = (*self._modules.kernels, *questions)
        self.places = [number.place for number in numbers_in(everything)]
        place = {question: i for i, question in enumerate(everything)}
        self._answers = [place[question] for question in asked]
        # Seconds of the calls of earlier steps: many depend on nothing but the number of tokens.
        self._known: dict[FamilyCall, Seconds] = {}
        # A timer keeps to the constants that it has begun with.
        self._files: dict[tuple[str, Path], FamilyFile] = {}
        self._contends = [isinstance(question, Demand) for question in asked]

    def costs(self, floors: Floors, launch_ps: int, values: Sequence[Any]) -> list[Cost] | None:
        """Price of each demand in a replay; None where a program leaves one to the tile model."""
        with held_constants(self._files):
            found = self._answered([fill(values) for fill in self._fills])
            if found is None:
                return None
            answers = [*self._modules.seconds(values), *found]
        timed = [_timed(seconds) for seconds in answers]
        busy = floors.busy_ps.astype(int).T.tolist()
        return [
            _cost(*timed[at], launch_ps, own, contends)
            for at, own, contends in zip(self._answers, busy, self._contends, strict=True)
        ]

    def _answered(self, questions: Sequence[Demand]) -> list[Seconds] | None:
        """Seconds of each, where a program answers all; calls of one family are made at once."""
        tables: dict[object, list[tuple[int, FamilyCall]]] = {}
        # Where a question's calls begin and end; an answer, where it is not made of calls.
        spans: list[range] = []
        others: dict[int, Seconds] = {}
        count = 0
        for at, question in enumerate(questions):
            rule = CALLS.get(_program(question))
            calls = rule(question, self._target) if rule else None
            for place, call in enumerate(calls or (), start=count):
                tables.setdefault(call.key, []).append((place, call))
            spans.append(range(count, count + len(calls or ())))
            count = spans[-1].stop
            if not calls:
                found = answer(question, self._target)
                if found is None:
                    return None
                others[at] = found
        parts = self._tabled(tables.values(), count)
        joined = [_joined([parts[i] for i in span]) for span in spans]
        return [others.get(at, seconds) for at, seconds in enumerate(joined)]

    def _tabled(
        self, tables: Iterable[Sequence[tuple[int, FamilyCall]]], count: int
    ) -> list[Seconds]:
        """Seconds of calls by their place; each table has the rows of one family."""
        found: list[Seconds] = [{}] * count
        for rows in tables:
            new = [call for _, call in rows if call not in self._known]
            if new:
                parts = parts_of(new, self._target.chip)
                columns = {cause: value.tolist() for cause, value in parts.seconds.items()}
                for row, call in enumerate(new):
                    self._known[call] = {c: column[row] for c, column in columns.items()}
            for place, call in rows:
                found[place] = self._known[call]
        while len(self._known) > MOST_KNOWN:
            self._known.pop(next(iter(self._known)))
        return found


def _joined(parts: Sequence[Seconds]) -> Seconds:
    """Seconds of calls one after the other."""
    if len(parts) == 1:
        return parts[0]
    seconds: dict[str, float] = {}
    for part in parts:
        for cause, value in part.items():
            seconds[cause] = seconds[cause] + value if cause in seconds else value
    return seconds


def answer(question: Demand, target: Target) -> Seconds | None:
    """Seconds by cause; None where no family covers the kernel."""
    priced = PROGRAMS[_program(question)](question, target)
    if priced is None:
        return None
    return {cause: float(value[0]) for cause, value in priced.parts.seconds.items()}


def _asked(demand: Demand) -> Demand | ProgramCall:
    """What tells the answers to demands apart."""
    return _named(demand) if _program(demand) == "attention" else question_of(demand)


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
    return _named(demand).program


def _named(demand: Demand) -> ProgramCall:
    assert demand.priced_as is not None
    return demand.priced_as


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
