"""Points of a sweep: the scenarios that a grid spans over one file, each with its hash."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwmodels.node import find_node
from simulator.basis.data_files import find_data_file
from simulator.basis.errors import InputError, V4SimError
from simulator.basis.yaml_loader import LineMap, compose_yaml, validate_data
from simulator.basis.yaml_nodes import Keys, dotted
from simulator.engine.profile import find_profile, layout_of
from simulator.prefix.tier import Tier, load_tiers
from simulator.serve.money import prices_for
from simulator.serve.scenario import Scenario, names_file, resolved
from simulator.serve.scenario_file import SCENARIOS
from simulator.sweep.grid import Axis, text_of
from simulator.sweep.inputs import canonical, digest_of, inputs_of, with_whole_paths
from workloads.deepseek_v4.config import find_model


def _tiers(asked: Scenario) -> tuple[Tier, ...]:
    cache = asked.prefix_cache
    return load_tiers(cache.tiers) if cache is not None and cache.tiers is not None else ()


# Facts that a scenario names are read when points are laid out, each fault told at its key.
_FINDERS: dict[tuple[str, ...], Callable[[Scenario], object]] = {
    ("model",): lambda asked: find_model(asked.model),
    ("chip",): lambda asked: find_node(asked.chip),
    ("engine",): lambda asked: layout_of(find_profile(asked.engine)),
    ("prices",): prices_for,
    ("prefix_cache", "tiers"): _tiers,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Values of a point, one an axis, and its scenario, or the error why there is none.

    `inputs` is the canonical text of everything that decides the point, `digest` its hash.
    """

    values: tuple[Any, ...]
    scenario: Scenario | None
    inputs: str
    digest: str
    error: str = ""


def span(name_or_path: str | Path, axes: Sequence[Axis]) -> tuple[Point, ...]:
    """All points of a grid over a shipped scenario or a file, the last axis running fastest.

    Files that the scenario names are found beside it, those that the grid names from here.
    A value that makes no valid scenario in any of its points raises InputError; one that only some
    combinations exclude leaves these without a scenario.
    """
    path = find_data_file("scenario", name_or_path, SCENARIOS)
    data, lines = compose_yaml(path)
    points: list[Point] = []
    faults: dict[tuple[int, int], V4SimError] = {}
    valid: set[tuple[int, int]] = set()
    for places in itertools.product(*(range(len(axis.values)) for axis in axes)):
        values = tuple(axis.values[i] for axis, i in zip(axes, places, strict=True))
        here = _GridLines(lines, axes, values)
        try:
            points.append(_point(path, data, here, axes, values))
            valid.update(enumerate(places))
        except V4SimError as error:
            points.append(_invalid(data, axes, values, error))
            for held in enumerate(places):
                faults.setdefault(held, error)
    for held, fault in faults.items():
        if held not in valid:
            raise fault
    return tuple(points)


def _point(
    path: Path, data: dict[str, Any], here: LineMap, axes: Sequence[Axis], values: tuple[Any, ...]
) -> Point:
    for axis, value in zip(axes, values, strict=True):
        if names_file(axis.keys, value):
            value = str(Path(value).expanduser().absolute())
        data = _with(data, axis.keys, value, here)
    scenario = with_whole_paths(resolved(validate_data(data, here, Scenario), path))
    for keys, find in _FINDERS.items():
        try:
            find(scenario)
        except InputError as error:
            raise here.error(keys, error.message) from None
    try:
        inputs = canonical(inputs_of(scenario))
    except InputError as error:
        raise here.error(("traffic", "trace"), error.message) from None
    return Point(values=values, scenario=scenario, inputs=inputs, digest=digest_of(inputs))


def _invalid(
    data: dict[str, Any], axes: Sequence[Axis], values: tuple[Any, ...], error: V4SimError
) -> Point:
    names = [axis.name for axis in axes]
    inputs = canonical({"file": data, "grid": dict(zip(names, values, strict=True))})
    return Point(
        values=values,
        scenario=None,
        inputs=inputs,
        digest=digest_of(inputs),
        error=error.message,
    )


def _with(data: dict[str, Any], keys: Keys, value: Any, lines: LineMap) -> dict[str, Any]:
    """A copy of the data with one field set; sections on the way are made where they are not."""
    first, rest = str(keys[0]), keys[1:]
    if not rest:
        return {**data, first: value}
    inner = data.get(first)
    if inner is not None and not isinstance(inner, dict):
        sentence = f"{first!r} is {text_of(inner)} in {lines.path}, it has no field {rest[0]!r}"
        raise lines.error(keys, sentence)
    return {**data, first: _with(inner or {}, rest, value, lines)}


class _GridLines(LineMap):
    """Faults point at the file's line, or at the grid where that set the field."""

    def __init__(self, lines: LineMap, axes: Sequence[Axis], values: Sequence[Any]) -> None:
        super().__init__(lines.path, lines.lines)
        self.set = {axis.keys: value for axis, value in zip(axes, values, strict=True)}

    def error(
        self, keys: Sequence[str | int], sentence: str, kind: type[InputError] = InputError
    ) -> InputError:
        """The error, beginning with `--grid key=value:` or `file:line:`."""
        place = tuple(keys)
        for axis, value in self.set.items():
            shorter = min(len(axis), len(place))
            if shorter and axis[:shorter] == place[:shorter]:
                return kind(f"--grid {dotted(axis)}={text_of(value)}: {sentence}")
        if place in self.lines:
            return super().error(keys, sentence, kind)
        given = " ".join(f"{dotted(axis)}={text_of(value)}" for axis, value in self.set.items())
        return kind(f"{self.path} with --grid {given}: {sentence}")
