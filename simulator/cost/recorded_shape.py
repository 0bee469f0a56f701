"""A step's shapes whose counts are recorded, for graphs that are replayed with other steps."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from simulator.cost.recording import Recording
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
