"""Values with recorded numbers in them, and the same values with the numbers of a replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from simulator.cost.recording import Number

T = TypeVar("T")
Fill = Callable[[Sequence[Any]], T]


def numbers_in(value: object) -> Iterator[Number]:
    """Recorded numbers of a tuple or a dataclass, however deep."""
    if isinstance(value, Number):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from numbers_in(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from numbers_in(getattr(value, field.name))


def filled_by(template: T) -> Fill[T]:
    """Makes the value of a replay: plain numbers in the place of recorded ones."""
    value: Any = template
    if isinstance(value, Number):
        place = value.place
        return lambda values: values[place]
    if next(numbers_in(value), None) is None:
        return lambda _: template
    if isinstance(value, tuple):
        items = [filled_by(item) for item in value]
        return lambda values: tuple(fill(values) for fill in items)  # type: ignore[return-value]
    given = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    parts = [(name, filled_by(v)) for name, v in given.items() if any(True for _ in numbers_in(v))]
    make = type(value)

    def filled(values: Sequence[Any]) -> T:
        found: T = make(**given | {name: fill(values) for name, fill in parts})
        return found

    return filled
