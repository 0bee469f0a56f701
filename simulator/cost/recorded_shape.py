"""A step's shapes whose counts are recorded, for graphs that are replayed with other steps."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from simulator.cost.recording import Recording
from workloads.step_shape import StepShape

# The busiest rank's share of a step, and the step of all requests.
Shapes = tuple[StepShape, StepShape]


class RecordedShape(StepShape):
    """Takes the place of a rank's share of a step; all that it counts are recorded numbers."""

    _recording: Recording
    _shapes: Shapes

    def __init__(self, recording: Recording, shapes: Shapes) -> None:
        super().__init__(shapes[0].requests)
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
        own, whole = self._shapes
        if own is whole:
            return self.tokens
        return self._recording.source("all", lambda shapes: shapes[1].tokens, self._shapes)

    def _count(self, key: object, count: Callable[[StepShape], Any]) -> Any:
        return self._recording.source(key, lambda shapes: count(shapes[0]), self._shapes)


def _key(term: Callable[..., Any]) -> object:
    """Equal for functions of the same code that have captured the same values."""
    captured = (cell.cell_contents for cell in term.__closure__ or ())
    return term.__code__, tuple(_key(c) if hasattr(c, "__code__") else c for c in captured)
