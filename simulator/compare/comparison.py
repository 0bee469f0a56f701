"""Steps side by side: every picosecond of each belongs to one operation, kind of layer and cause.

Differences of the parts therefore add up to the difference of the totals, in whole picoseconds,
whichever way they are summed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.basis.errors import InputError
from simulator.cost.critical_path import critical_ps_of
from simulator.cost.result import StepResult
from simulator.kernels.causes import CAUSES, shared_out
from simulator.kernels.standing import Standing

BETWEEN_LAUNCHES = "(between launches)"
OPERATION, KIND, CAUSE = range(3)
Part = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One answer of a comparison: what was asked by name, and its time by part.

    `parts`: picoseconds by (operation, kind of layer, cause), which add up to `total_ps`;
    `amounts`: what one chip moves, computes and holds, by name with its unit; `notes`: what the
    times are taken as instead of what was asked.
    """

    name: str
    asked: Mapping[str, Any]
    total_ps: int
    low_ps: int
    high_ps: int
    tokens: int
    parts: Mapping[Part, int]
    amounts: Mapping[str, int]
    standing: Standing
    calibrated: bool
    notes: tuple[str, ...] = ()

    @property
    def tokens_per_s(self) -> float:
        """New tokens of all requests a second."""
        return self.tokens * 1e12 / self.total_ps if self.total_ps else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A name with its picoseconds on every side."""

    name: str
    times_ps: tuple[int, ...]

    @property
    def changes_ps(self) -> tuple[int, ...]:
        """Against the first side, which has 0."""
        return tuple(time_ps - self.times_ps[0] for time_ps in self.times_ps)

    @property
    def moved_ps(self) -> int:
        """The largest change, in either direction."""
        return max(abs(change_ps) for change_ps in self.changes_ps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides or more; differences are against the first."""

    sides: tuple[Side, ...]

    @property
    def total(self) -> Row:
        """The whole steps."""
        return Row(name="step", times_ps=tuple(side.total_ps for side in self.sides))

    def asked(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Fields of the questions that are not the same on all sides, with their values."""
        names = dict.fromkeys(name for side in self.sides for name in side.asked)
        found = [(name, tuple(side.asked.get(name) for side in self.sides)) for name in names]
        return [(name, values) for name, values in found if any(v != values[0] for v in values)]

    def by(self, part: int) -> tuple[Row, ...]:
        """Rows by OPERATION, KIND or CAUSE, the largest change first; they add up to the steps."""
        sums: dict[str, list[int]] = {}
        for place, side in enumerate(self.sides):
            for key, time_ps in side.parts.items():
                sums.setdefault(key[part], [0] * len(self.sides))[place] += time_ps
        rows = [Row(name=name, times_ps=tuple(times)) for name, times in sums.items()]
        order = {name: place for place, name in enumerate(CAUSES)} if part == CAUSE else {}
        return tuple(
            sorted(
                rows, key=lambda r: (-r.moved_ps, -max(r.times_ps), order.get(r.name, 0), r.name)
            )
        )

    def cells(self) -> list[tuple[Part, tuple[int, ...]]]:
        """Every (operation, kind of layer, cause) with its picoseconds on every side."""
        keys = dict.fromkeys(key for side in self.sides for key in side.parts)
        return [(key, tuple(side.parts.get(key, 0) for side in self.sides)) for key in keys]

    @property
    def standings(self) -> dict[str, Standing]:
        """What times rest on, by the names of the sides that rest on the same."""
        names: dict[str, list[str]] = {}
        for side in self.sides:
            names.setdefault(side.standing.words, []).append(side.name)
        words = {side.standing.words: side.standing for side in self.sides}
        return {", ".join(own): words[said] for said, own in names.items()}


def compare(sides: Sequence[Side]) -> Comparison:
    """Sides checked to be steps of which a difference says something."""
    if len(sides) < 2:
        raise InputError(
            f"{len(sides)} answer is given, expected at least 2 to compare; give another run, or "
            "several values of an option such as --chip h200,b200"
        )
    phases = {side.asked.get("phase") for side in sides}
    if len(phases) > 1:
        raise InputError(
            f"steps of different phases ({', '.join(sorted(map(str, phases)))}) have no operations "
            "in common; compare decode with decode and prefill with prefill"
        )
    names = [side.name for side in sides]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two answers have the name {name!r}; name one of them otherwise")
    return Comparison(sides=tuple(sides))


def side_of(name: str, asked: Mapping[str, Any], result: StepResult) -> Side:
    """A costed step as a side; `asked` says by name what it was costed for."""
    critical_ps, between_ps = critical_ps_of(result.kernels, result.total_ps)
    launches = (
        (kernel.name, kernel.kind, part_ps, kernel.causes_ps)
        for kernel, part_ps in zip(result.kernels, critical_ps, strict=True)
    )
    return Side(
        name=name,
        asked=asked,
        total_ps=result.total_ps,
        low_ps=result.low_ps,
        high_ps=result.high_ps,
        tokens=result.tokens,
        parts=step_parts(launches, between_ps),
        amounts={
            "dram_bytes": sum(kernel.dram_bytes for kernel in result.kernels),
            "flops": sum(kernel.total_flops for kernel in result.kernels),
            "link_bytes": sum(kernel.link_bytes for kernel in result.kernels),
            "memory_bytes": result.memory.used_bytes,
            "launches": len(result.kernels),
        },
        standing=result.standing,
        calibrated=result.calibrated,
        notes=(*result.priced_as, *result.notes),
    )


def side_of_json(name: str, data: Mapping[str, Any], path: str) -> Side:
    """A step that a run left as JSON. Raises InputError for other files, and for parts that do not
    add up to its total.
    """
    try:
        kernels = data["kernels"]
        launches = [(k["name"], k["kind"], k["critical_ps"], k["causes_ps"]) for k in kernels]
        between_ps = data["total_ps"] - sum(part_ps for _, _, part_ps, _ in launches)
        totals = data["totals"]
        asked = dict(data["question"])
        if "constants" in data:
            asked["constants"] = data["constants"].get("name", "own")
        side = Side(
            name=name,
            asked={key: flat(value) for key, value in asked.items()},
            total_ps=data["total_ps"],
            low_ps=data["low_ps"],
            high_ps=data["high_ps"],
            tokens=data["tokens"],
            parts=step_parts(launches, between_ps),
            amounts={
                "dram_bytes": totals["dram_read_bytes"] + totals["dram_write_bytes"],
                "flops": sum(totals["flops"].values()),
                "link_bytes": totals["link_bytes"],
                "memory_bytes": data["memory"]["used_bytes"],
                "launches": totals["launches"],
            },
            standing=Standing(**data["standing"]),
            calibrated=data["calibrated"],
            notes=(*data["priced_as"], *data["notes"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: not the JSON of a step ({error} is missing or of another kind); v4sim step "
            "--out DIR or --json FILE write it"
        ) from None
    if between_ps < 0 or sum(side.parts.values()) != side.total_ps:
        raise InputError(
            f"{path}: its parts add up to {sum(side.parts.values()):,} ps, but the step takes "
            f"{side.total_ps:,}; the file was changed: write it anew"
        )
    return side


def step_parts(
    launches: Iterable[tuple[str, str, int, Mapping[str, int]]], between_ps: int
) -> dict[Part, int]:
    """Picoseconds by part, of launches (name, kind, part of the step, causes).

    Assumes: the part of a launch that nothing covers has the causes of the whole launch.
    """
    parts: dict[Part, int] = {}
    for name, kind, part_ps, causes_ps in launches:
        whole = sum(causes_ps.values()) == part_ps
        for cause, time_ps in (causes_ps if whole else shared_out(part_ps, causes_ps)).items():
            if time_ps:
                key = (name, kind, cause)
                parts[key] = parts.get(key, 0) + time_ps
    if between_ps:
        parts[(BETWEEN_LAUNCHES, BETWEEN_LAUNCHES, "launch")] = between_ps
    return parts


def flat(value: Any) -> Any:
    """A layout's degrees as one word: `tp8 dp1 ep1`."""
    if not isinstance(value, Mapping):
        return value
    return " ".join(f"{name} {degree}" for name, degree in value.items())
