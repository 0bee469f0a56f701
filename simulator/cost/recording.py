"""Arithmetic that is written down while it runs, to be run again with other numbers.

The shapes of a step enter as a few counts (tokens, visible entries, ...). Building its graph and
lowering it is long-winded, but what comes of it are formulas of these counts. A `Number` behaves as
an int or a float and notes every operation in its `Recording`; a comparison is noted with its
outcome. A replay with other counts gives the very values that the code would have given, as long as
every comparison comes out as it did: otherwise the code would have gone another way.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

# An operation of two operands; one of a single operand takes its second as it comes.
Operation = Callable[[Any, Any], Any]
# Gives a count of the steps that are replayed.
Source = Callable[[Any], Any]

# Place of the constant term of a sum.
CONSTANT = -1


def _rounded(value: float, digits: int | None) -> float:
    return round(value, digits)


def _ceiled(value: float, _: object) -> int:
    return math.ceil(value)


class Recording:
    """Operations in the order in which they ran, and the values that they had then."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._sources: list[tuple[int, Source]] = []
        self._steps: list[tuple[int, Operation, int, int, bool | None]] = []
        self._known: dict[object, Any] = {}

    def source(self, key: object, source: Source, steps: object) -> Number:
        """A count; equal keys are the same one."""
        if key not in self._known:
            number = self._number(source(steps))
            self._sources.append((number.place, source))
            self._known[key] = number
        found: Number = self._known[key]
        return found

    def whole_sum(self, left: Any, right: Any, factor: int) -> Any:
        """left + factor x right of whole numbers, as a sum of terms that are no sums themselves.

        Equal sums are one number, in whatever order they were added up.
        """
        terms = dict(_terms(left))
        for place, count in _terms(right).items():
            terms[place] = terms.get(place, 0) + factor * count
        return self._whole(terms)

    def whole_multiple(self, number: Number, factor: int) -> Any:
        """A whole number times a constant."""
        return self._whole({p: factor * count for p, count in _terms(number).items()})

    def _whole(self, terms: dict[int, int]) -> Any:
        constant = terms.pop(CONSTANT, 0)
        terms = {place: count for place, count in sorted(terms.items()) if count}
        if constant:
            terms[CONSTANT] = constant
        key = ("sum", tuple(terms.items()))
        if key not in self._known:
            total: Any = None
            for place, count in terms.items():
                if place == CONSTANT:
                    total = count if total is None else self.apply(operator.add, total, count)
                    continue
                term: Any = Number(self, place)
                term = term if count == 1 else self.apply(operator.mul, term, count)
                total = term if total is None else self.apply(operator.add, total, term)
            if isinstance(total, Number):
                total = Number(self, total.place, terms)
            self._known[key] = 0 if total is None else total
        return self._known[key]

    def apply(self, operation: Operation, left: object, right: object = None) -> Any:
        """Outcome of an operation, of which at least one operand is recorded."""
        key = (operation, self.place(left), self.place(right))
        if key not in self._known:
            value = operation(self._values[key[1]], self._values[key[2]])
            number = self._known[key] = self._number(value)
            self._steps.append((number.place, *key, None))
        return self._known[key]

    def decide(self, comparison: Operation, left: object, right: object) -> bool:
        """Outcome of a comparison, which every replay has to repeat."""
        key = (comparison, self.place(left), self.place(right))
        if key not in self._known:
            outcome = bool(comparison(self._values[key[1]], self._values[key[2]]))
            self._known[key] = outcome
            self._steps.append((-1, *key, outcome))
        decided: bool = self._known[key]
        return decided

    def place(self, value: object) -> int:
        """Where a number, or a constant, stands among the values of a replay."""
        if isinstance(value, Number):
            return value.place
        key = (type(value), value)
        if key not in self._known:
            self._known[key] = self._number(value)
        place: int = self._known[key].place
        return place

    def keep(self, places: Sequence[int]) -> None:
        """Forget what neither these places nor any comparison needs."""
        needed, steps = set(places), []
        for step in reversed(self._steps):
            place, _, left, right, outcome = step
            if outcome is not None or place in needed:
                needed.update((left, right))
                steps.append(step)
        self._steps = steps[::-1]
        self._known = {}

    def replay(self, counted: object) -> list[Any] | None:
        """Values by place for other steps; None where a comparison comes out otherwise."""
        values = self._values.copy()
        for place, source in self._sources:
            values[place] = source(counted)
        for place, operation, left, right, outcome in self._steps:
            value = operation(values[left], values[right])
            if outcome is None:
                values[place] = value
            elif value is not outcome:
                return None
        return values

    def _number(self, value: object) -> Number:
        self._values.append(value)
        return Number(self, len(self._values) - 1)

    @property
    def values(self) -> Sequence[Any]:
        """Values by place, as they were recorded."""
        return self._values


class Number:
    """An int or a float of a recording. It has no plain value: `int` and `float` refuse it."""

    __slots__ = ("place", "recording", "terms")
    _salt: ClassVar[object] = object()

    def __init__(
        self, recording: Recording, place: int, terms: Mapping[int, int] | None = None
    ) -> None:
        self.recording = recording
        self.place = place
        # The number as a sum: how often it has the numbers at these places.
        self.terms: Mapping[int, int] = terms or {place: 1}

    @property
    def whole(self) -> bool:
        """Whether it is an int."""
        return isinstance(self.recording.values[self.place], int)

    def __add__(self, other: object) -> Any:
        if _whole(self, other):
            return self.recording.whole_sum(self, other, 1)
        return self.recording.apply(operator.add, self, other)

    def __radd__(self, other: object) -> Any:
        if _whole(self, other):
            return self.recording.whole_sum(other, self, 1)
        # What `sum` starts with.
        return self if _is(other, 0) else self.recording.apply(operator.add, other, self)

    def __sub__(self, other: object) -> Any:
        if _whole(self, other):
            return self.recording.whole_sum(self, other, -1)
        return self.recording.apply(operator.sub, self, other)

    def __rsub__(self, other: object) -> Any:
        if _whole(self, other):
            return self.recording.whole_sum(other, self, -1)
        return self.recording.apply(operator.sub, other, self)

    def __mul__(self, other: object) -> Any:
        if self.whole and isinstance(other, int):
            return self.recording.whole_multiple(self, other)
        return self.recording.apply(operator.mul, self, other)

    def __rmul__(self, other: object) -> Any:
        if self.whole and isinstance(other, int):
            return self.recording.whole_multiple(self, other)
        return self.recording.apply(operator.mul, other, self)

    def __truediv__(self, other: object) -> Any:
        return self.recording.apply(operator.truediv, self, other)

    def __rtruediv__(self, other: object) -> Any:
        return self.recording.apply(operator.truediv, other, self)

    def __floordiv__(self, other: object) -> Any:
        return self if _is(other, 1) else self.recording.apply(operator.floordiv, self, other)

    def __rfloordiv__(self, other: object) -> Any:
        return self.recording.apply(operator.floordiv, other, self)

    def __mod__(self, other: object) -> Any:
        return self.recording.apply(operator.mod, self, other)

    def __pow__(self, other: object) -> Any:
        return self.recording.apply(operator.pow, self, other)

    def __rpow__(self, other: object) -> Any:
        return self.recording.apply(operator.pow, other, self)

    def __neg__(self) -> Any:
        return 0 - self

    def __round__(self, digits: int | None = None) -> Any:
        return self.recording.apply(_rounded, self, digits)

    def __ceil__(self) -> Any:
        return self.recording.apply(_ceiled, self)

    def __lt__(self, other: object) -> bool:
        return self.recording.decide(operator.lt, self, other)

    def __le__(self, other: object) -> bool:
        return self.recording.decide(operator.le, self, other)

    def __gt__(self, other: object) -> bool:
        return self.recording.decide(operator.gt, self, other)

    def __ge__(self, other: object) -> bool:
        return self.recording.decide(operator.ge, self, other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Number) and other.place == self.place:
            return True
        if not isinstance(other, Number | int | float):
            return False
        return self.recording.decide(operator.eq, self, other)

    def __bool__(self) -> bool:
        return self.recording.decide(operator.ne, self, 0)

    def __hash__(self) -> int:
        return hash((Number._salt, self.place))

    def __repr__(self) -> str:
        return repr(self.recording.values[self.place])


def _is(value: object, whole: int) -> bool:
    """Whether a value is an int that changes nothing: floats could turn ints into floats."""
    return type(value) is int and value == whole


def _whole(left: Number, right: object) -> bool:
    if isinstance(right, Number):
        return left.whole and right.whole
    return left.whole and isinstance(right, int)


def _terms(value: Number | int) -> Mapping[int, int]:
    return value.terms if isinstance(value, Number) else {CONSTANT: value}
