"""Fits constants of kernel families to measured rows: least squares on log time, robust loss.

Constants are fitted in log space within their bounds, one set an architecture; chips enter by
their facts alone. Families that appear in each other's rows are fitted together, so that one
physical thing has one constant. Folds are fixed by row order: a fit is the same every time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.calibration.dispatch import RowSet, situation_of
from simulator.calibration.measured_rows import FrozenCalls
from simulator.kernels.constant import Constant
from simulator.kernels.folds import folds_of
from simulator.kernels.parts import Floats
from simulator.kernels.regime import Situation
from simulator.kernels.registry import FAMILIES, find_family

# Residuals beyond this (in log time) count linearly, not squared.
ROBUST_SCALE = 0.05
# Families that are fitted together: FlashMLA's core has the same constants wherever it runs.
TOGETHER = (("sparse_core_flashmla", "attention_module_sglang", "attention_module_vllm"),)
Values = Mapping[str, Mapping[str, float]]


# What a row is off by, in log time, and how far a chip's constants may lie from its architecture's:
# the two decide how much a few rows may move a constant that is known from elsewhere. Of the
# spreads, none at all among them, the one serves whose rows left out are predicted best.
ROW_ERROR = 0.05
SPREADS = (0.3, 0.1, 0.03)
# A fit takes the place of what is known where rows left out are better by this, divided by the
# square root of their number: by a tenth for a hundred rows.
BETTER_OF_ONE_ROW = 1.0
# A constant whose logarithm is not known better than this is not identified by its rows.
NOT_IDENTIFIED = 0.5
# A constant that rows say nothing of has this standard error of its logarithm, or more.
UNKNOWN_ERROR = 10.0


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants of a family, and log residuals (predicted over measured) of the rows judged
    under it, each under constants that were not fitted to it.

    `standard_errors` are of the logarithms of constants; `not_identified` names those that the rows
    alone do not fix. `situations` are those of the rows.
    """

    constants: dict[str, float]
    standard_errors: Mapping[str, float]
    not_identified: tuple[str, ...]
    rows: int
    residuals: Floats
    situations: tuple[Situation, ...]
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prior:
    """Constants that are known from elsewhere, and by how much (in log) others may differ."""

    of: Mapping[str, Mapping[str, float]]
    spread: float


@dataclass(frozen=True, slots=True)
class _Solution:
    """Constants, the standard errors of their logarithms, and those that follow from rows alone."""

    values: Values
    errors: Values
    errors_of_rows: Values


def fit_groups() -> Iterator[tuple[str, ...]]:
    """Families to be fitted together, those first whose constants others take."""
    joined = {name: group for group in TOGETHER for name in group}
    seen: set[tuple[str, ...]] = set()
    later = []
    for name in FAMILIES:
        group = joined.get(name, (name,))
        if group in seen:
            continue
        seen.add(group)
        if len(group) > 1:
            later.append(group)
        else:
            yield group
    yield from later


def group_of(family: str) -> tuple[str, ...]:
    """Families that are fitted with one."""
    return next((group for group in TOGETHER if family in group), (family,))


def fit(
    families: Sequence[str],
    rows: RowSet,
    calls: FrozenCalls,
    used: np.ndarray,
    start: Mapping[str, Mapping[str, float]] | None = None,
    prior: Prior | None = None,
) -> _Solution:
    """Constants that fit the used rows best, from several starts where none is given.

    With a `prior` they are drawn towards its values, the more the fewer rows there are.

    Assumes: a row is off by 5 % of itself.
    """
    from scipy.optimize import least_squares

    names = [(family, c) for family in families for c in find_family(family).constants]
    if not names:
        nothing: Values = {family: {} for family in families}
        return _Solution(nothing, nothing, nothing)
    low = np.log([c.low for _, c in names])
    high = np.log([c.high for _, c in names])
    target = np.log(rows.seconds)

    centre = None if prior is None else np.log([prior.of[family][c.name] for family, c in names])

    def residuals(log_constants: Floats) -> Floats:
        values = _named(names, np.exp(log_constants))
        own = (np.log(calls.seconds(values)) - target)[used]
        if prior is None or centre is None:
            return own
        return np.concatenate([own, (log_constants - centre) * (ROW_ERROR / prior.spread)])

    best = None
    for begin in _starts(names, start or (prior.of if prior else None)):
        inside = np.clip(begin, low + 1e-9, np.maximum(high - 1e-9, low + 1e-9))
        found = least_squares(
            residuals, inside, bounds=(low, high + 2e-9), loss="soft_l1", f_scale=ROBUST_SCALE
        )
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    count = int(used.sum())
    whole, alone = (
        _named(names, _standard_errors(jacobian, best.cost, count))
        for jacobian in (best.jac, best.jac[:count])
    )
    return _Solution(_named(names, np.exp(best.x)), whole, alone)


def _standard_errors(jacobian: Floats, cost: float, rows: int) -> Floats:
    """Of the parameters at the best fit, from the curvature of its cost."""
    count = jacobian.shape[1]
    variance = 2 * cost / max(rows - count, 1)
    values, vectors = np.linalg.eigh(jacobian.T @ jacobian)
    inverse = 1 / np.maximum(values, variance / UNKNOWN_ERROR**2)
    return np.minimum(np.sqrt(variance * (vectors**2 @ inverse)), UNKNOWN_ERROR)


def _named(names: Sequence[tuple[str, Constant]], values: Floats) -> Values:
    found: dict[str, dict[str, float]] = {}
    for (family, constant), value in zip(names, values, strict=True):
        found.setdefault(family, {})[constant.name] = float(value)
    return found


def _starts(
    names: Sequence[tuple[str, Constant]], start: Mapping[str, Mapping[str, float]] | None
) -> list[Floats]:
    if start is not None:
        return [np.log([start[family][c.name] for family, c in names])]
    return [np.log([c.start * factor for _, c in names]) for factor in (1.0, 0.7, 1.4)]


def cross_validate(
    families: Sequence[str],
    rows: RowSet,
    prior: Prior | None = None,
) -> dict[str, Fit]:
    """Constants fitted to all rows, and residuals of each fold under a fit to the others.

    Rows are dealt to folds family by family.
    """
    calls = rows.calls.frozen(families)
    everything = np.ones(len(rows), dtype=bool)
    whole = fit(families, rows, calls, everything, prior=prior)
    fold = np.empty(len(rows), dtype=int)
    for family in families:
        own = rows.of(family)
        for number, held_out in enumerate(folds_of(len(own))):
            fold[own[held_out]] = number
    residuals = np.empty(len(rows))
    for number in np.unique(fold):
        found = fit(families, rows, calls, fold != number, start=whole.values, prior=prior)
        held = fold == number
        residuals[held] = np.log(calls.seconds(found.values) / rows.seconds)[held]
    return _fits(families, rows, whole, residuals, prior)


def _fits(
    families: Sequence[str],
    rows: RowSet,
    whole: _Solution,
    residuals: Floats,
    prior: Prior | None,
) -> dict[str, Fit]:
    """A solution and the residuals of rows left out, family by family."""
    causes = rows.calls.parts(whole.values).dominant
    predicted = rows.seconds * np.exp(residuals)
    situations = [
        situation_of(row, float(seconds), cause)
        for row, seconds, cause in zip(rows.rows, predicted, causes, strict=True)
    ]
    return {
        family: Fit(
            constants=dict(whole.values[family]),
            standard_errors=whole.errors[family],
            not_identified=_not_identified(whole.errors_of_rows[family], prior),
            rows=len(own),
            residuals=residuals[own],
            situations=tuple(situations[i] for i in own),
            causes=tuple(causes[i] for i in own),
        )
        for family in families
        for own in (rows.of(family),)
    }


def drawn_fit(families: Sequence[str], rows: RowSet, known: Values) -> dict[str, Fit]:
    """Fits that are drawn towards known constants as much as predicts rows left out best.

    Where no fit is clearly better than what is known, that stays, with its errors on these rows.
    Families that are fitted together stay together if that is better for each of them; or else
    those whose constants no other takes are fitted alone.
    """
    stays = _staying(families, rows, known)
    best, score = stays, sum(_least(fit) * fit.rows for fit in stays.values())
    for spread in SPREADS:
        found = cross_validate(families, rows, Prior(known, spread))
        whole = sum(_typical(fit) * fit.rows for fit in found.values())
        if whole < score and all(_typical(found[f]) <= _least(stays[f]) for f in families):
            best, score = found, whole
    if best is not stays or len(families) == 1:
        return best
    alone = [family for family in families if _only_its_own(family, families, rows)]
    for family in alone:
        own = rows.chosen(lambda row, name=family: row.family == name)  # type: ignore[misc]
        best = {**best, **drawn_fit([family], own, {family: known[family]})}
    return best


def _staying(families: Sequence[str], rows: RowSet, known: Values) -> dict[str, Fit]:
    """Known constants as they are, with their errors on rows, to which nothing is fitted."""
    residuals = np.log(rows.calls.frozen(families).seconds(known) / rows.seconds)
    errors = {family: dict.fromkeys(known[family], 0.0) for family in families}
    return _fits(families, rows, _Solution(known, errors, errors), residuals, None)


def _only_its_own(family: str, families: Sequence[str], rows: RowSet) -> bool:
    """Whether no row of the other families takes a family's constants."""
    others = rows.chosen(lambda row: row.family != family and row.family in families)
    return family not in others.calls.families


def _typical(fit: Fit) -> float:
    """What is judged: the median of absolute errors, and their mean, which fewer rows decide."""
    errors = absolute_errors(fit.residuals)
    return float(np.median(errors) + errors.mean()) / 2


def _least(stays: Fit) -> float:
    """How good a fit has to be to take the place of what is known; few rows prove little."""
    return _typical(stays) * (1 - BETTER_OF_ONE_ROW / math.sqrt(stays.rows))


def _not_identified(errors: Mapping[str, float], prior: Prior | None) -> tuple[str, ...]:
    """Constants that rows fix worse than what is known of them without."""
    limit = prior.spread if prior else NOT_IDENTIFIED
    return tuple(name for name, error in errors.items() if error > limit)


def absolute_errors(residuals: Floats) -> Floats:
    """|predicted - measured| / measured from log residuals."""
    return np.abs(np.expm1(residuals))
