"""Where predictions are biased: a search for slices of measured rows that are off to one side.

A tree of few splits over a family's columns and largest cause, on the logarithm of predicted over
measured. A slice counts when rows that the search did not see are off to the same side there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.calibration.measured import TEXT
from simulator.calibration.validation import Row
from simulator.kernels.folds import folds_of
from simulator.kernels.parts import Floats

LEAST_ROWS = 20
MOST_DEEP = 3
# A slice is told where its bias is at least this, on rows seen and not seen.
LEAST_BIAS = 0.03
# How many standard errors a bias has to be away from zero on the rows not seen.
LEAST_SIGMAS = 3.0
_NOT_FEATURES = {"chip", "engine", "latency_us"}
_CUTS = np.linspace(0.1, 0.9, 9)

Mask = NDArray[np.bool_]
# Conditions of a slice: column, relation (`=`, `<` or `>=`) and value.
Condition = tuple[str, str, str | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Rows of a family on a chip that are off to one side; `bias` is of log predicted / measured.

    `bias_unseen` is by how much rows are off to the side that a search without them expects,
    `error_share` the part of the family's squared errors that the bias makes. `cause` is where the
    model says that time goes.
    """

    family: str
    engine: str
    chip: str
    conditions: tuple[Condition, ...]
    rows: int
    bias: float
    bias_unseen: float
    error_share: float
    cause: str

    @property
    def words(self) -> str:
        """The conditions as text."""
        shown = [f"{name} {sign} {value}" for name, sign, value in self.conditions]
        return ", ".join(shown) or "all rows"


def biased_slices(rows: Sequence[Row]) -> list[Slice]:
    """Slices in which a family is biased, those first that cost it most."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.family, row.engine, row.chip), []).append(row)
    found = [
        part
        for key, own in sorted(groups.items())
        if len(own) >= 2 * LEAST_ROWS
        for part in _slices_of(key, own)
    ]
    return sorted(found, key=lambda part: -part.error_share * part.rows)


def _slices_of(key: tuple[str, str, str], rows: Sequence[Row]) -> Iterator[Slice]:
    errors = np.array([row.log_error for row in rows])
    features = _features(rows)
    unseen = _towards_unseen(errors, features)
    whole = float((errors**2).sum())
    for conditions, mask in _leaves(errors, features, np.ones(len(rows), dtype=bool)):
        count, bias = int(mask.sum()), float(errors[mask].mean())
        held, spread = float(unseen[mask].mean()), float(errors[mask].std())
        sure = held > LEAST_SIGMAS * spread / np.sqrt(count)
        if min(abs(bias), held) < LEAST_BIAS or not sure:
            continue
        inside = [row.cause for row, mine in zip(rows, mask, strict=True) if mine]
        family, engine, chip = key
        yield Slice(
            family=family,
            engine=engine,
            chip=chip,
            conditions=conditions,
            rows=count,
            bias=bias,
            bias_unseen=float(np.copysign(held, bias)),
            error_share=count * bias**2 / whole if whole else 0.0,
            cause=max(sorted(set(inside)), key=inside.count),
        )


def _features(rows: Sequence[Row]) -> dict[str, NDArray[np.generic]]:
    """Columns that differ among rows, and the largest cause."""
    found: dict[str, NDArray[np.generic]] = {"cause": np.array([row.cause for row in rows])}
    names = dict.fromkeys(name for row in rows for name in row.columns)
    for name in names:
        if name in _NOT_FEATURES or any(name not in row.columns for row in rows):
            continue
        kind = str if name in TEXT else np.float64
        found[name] = np.array([row.columns[name] for row in rows], dtype=kind)
    derived = _derived(found)
    return {n: c for n, c in {**found, **derived}.items() if len(np.unique(c)) > 1}


def _derived(columns: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """Tokens of the step, which batch and new tokens make."""
    if "batch" in columns and "new_tokens" in columns:
        product = columns["batch"].astype(np.float64) * columns["new_tokens"].astype(np.float64)
        return {"tokens": product}
    return {}


def _towards_unseen(errors: Floats, features: Mapping[str, NDArray[np.generic]]) -> Floats:
    """Errors of rows, positive where they are to the side that a tree grown without them expects.

    Of noise the mean is none.
    """
    found = np.zeros(len(errors))
    for held in folds_of(len(errors)):
        seen = np.ones(len(errors), dtype=bool)
        seen[held] = False
        for conditions, mask in _leaves(errors, features, seen):
            inside = _meets(features, conditions, len(errors)) & ~seen
            found[inside] = errors[inside] * np.sign(errors[mask].mean())
    return found


def _leaves(
    errors: Floats, features: Mapping[str, NDArray[np.generic]], own: Mask
) -> Iterator[tuple[tuple[Condition, ...], Mask]]:
    yield from _grown(errors, features, own, (), MOST_DEEP)


def _grown(
    errors: Floats,
    features: Mapping[str, NDArray[np.generic]],
    own: Mask,
    conditions: tuple[Condition, ...],
    depth: int,
) -> Iterator[tuple[tuple[Condition, ...], Mask]]:
    best: tuple[float, Condition, Condition] | None = None
    whole = _gain(errors[own])
    for yes, no in _splits(features, own) if depth else ():
        inside = own & _meets(features, (yes,), len(errors))
        outside = own & ~inside
        if min(inside.sum(), outside.sum()) < LEAST_ROWS:
            continue
        gain = _gain(errors[inside]) + _gain(errors[outside]) - whole
        if best is None or gain > best[0]:
            best = (gain, yes, no)
    spread = float(errors[own].var())
    # A split into two of noise gains about one variance, and the best of many a few.
    if best is None or best[0] < 8 * spread:
        yield conditions, own
        return
    _, yes, no = best
    inside = _meets(features, (yes,), len(errors))
    yield from _grown(errors, features, own & inside, (*conditions, yes), depth - 1)
    yield from _grown(errors, features, own & ~inside, (*conditions, no), depth - 1)


def _gain(errors: Floats) -> float:
    """Part of the squared errors that a mean of their own explains."""
    return float(len(errors) * errors.mean() ** 2) if len(errors) else 0.0


def _splits(
    features: Mapping[str, NDArray[np.generic]], own: Mask
) -> Iterator[tuple[Condition, Condition]]:
    """Conditions that can divide rows, each with its opposite."""
    for name, column in features.items():
        if column.dtype.kind in "US":
            for text in np.unique(column[own]):
                yield (name, "=", str(text)), (name, "is not", str(text))
            continue
        cuts = np.unique(np.quantile(column[own].astype(np.float64), _CUTS, method="nearest"))
        for value in cuts[1:]:
            yield (name, "<", float(value)), (name, ">=", float(value))


def _meets(
    features: Mapping[str, NDArray[np.generic]], conditions: Sequence[Condition], count: int
) -> Mask:
    mask = np.ones(count, dtype=bool)
    for name, sign, value in conditions:
        column = features[name]
        if sign in ("=", "is not"):
            mask &= (column == value) == (sign == "=")
        else:
            numbers = column.astype(np.float64)
            mask &= (numbers < float(value)) == (sign == "<")
    return mask
