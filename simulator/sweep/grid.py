"""A grid over the fields of a scenario, from texts like `parallel.tp=4,8`."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.basis.errors import InputError
from simulator.basis.yaml_nodes import compose_text

MOST_POINTS = 20_000


@dataclass(frozen=True, slots=True)
class Axis:
    """One field and its values, as plain data."""

    keys: tuple[str, ...]
    values: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The field as it is typed: `parallel.tp`."""
        return ".".join(self.keys)


def parse_axis(text: str) -> Axis:
    """Axis of a text `key=a,b,c`; values are typed as in YAML, so `[1, 2]` or `{tp: 4}` is one.

    A value that is given twice counts once.
    """
    name, equals, given = text.partition("=")
    keys = tuple(key.strip() for key in name.split("."))
    if not equals or not all(keys):
        raise InputError(
            f"--grid {text}: expected a field of the scenario and its values, such as "
            "parallel.tp=4,8"
        )
    if not given.strip():
        raise InputError(f"--grid {text}: no value after '=', expected such as {name}=a,b")
    try:
        data, _ = compose_text(f"[{given}]", Path("values"))
    except InputError as error:
        reason = error.message.partition(": ")[2]
        raise InputError(f"--grid {text}: the values cannot be read, {reason}") from None
    return Axis(keys, tuple({json.dumps(value, sort_keys=True): value for value in data}.values()))


def parse_grid(texts: Sequence[str]) -> tuple[Axis, ...]:
    """Axes of a grid; two that set the same field are refused."""
    axes = tuple(parse_axis(text) for text in texts)
    if not axes:
        raise InputError("a sweep needs a grid: --grid FIELD=A,B with a field of the scenario")
    for first, second in itertools.combinations(axes, 2):
        shorter = min(len(first.keys), len(second.keys))
        if first.keys[:shorter] == second.keys[:shorter]:
            raise InputError(
                f"--grid {first.name} and --grid {second.name} both set "
                f"{max(first.name, second.name, key=len)!r}; give all its values to one of them"
            )
    points = math.prod(len(axis.values) for axis in axes)
    if points > MOST_POINTS:
        raise InputError(
            f"the grid spans {points:,} points, {points - MOST_POINTS:,} more than the "
            f"{MOST_POINTS:,} that are swept at once; give fewer values"
        )
    return axes


def text_of(value: Any) -> str:
    """A value in one line: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
