"""Fits constants of kernel families to measured rows: least squares on log time, robust loss.

Constants are fitted in log space within their bounds, one set an architecture; chips enter by
their facts alone. Families that appear in each other's rows are fitted together, so that one
physical thing has one constant. Folds are fixed by row order: a fit is the same every time.
"""

from __future__ import annotations

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
Values = dict[str, dict[str, float]]


# What a row is off by, in log time, and how far a chip's constants lie from its architecture's: the
# two decide how much a few rows may move a constant that is known from elsewhere.
ROW_ERROR = 0.05
PRIOR_SPREAD = 0.3
# A constant that rows say nothing of has this standard error of its logarithm, or more.
UNKNOWN_ERROR = 10.0


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants of a family, and log residuals (predicted over measured) of the rows judged
    under it, each under constants that were not fitted to it.

    `standard_errors` are of the logarithms of constants; `situations` are those of the rows.
    """

    constants: dict[str, float]
    standard_errors: dict[str, float]
    rows: int
    residuals: Floats
    situations: tuple[Situation, ...]
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Solution:
    values: Values
    errors: Values


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
    prior: Mapping[str, Mapping[str, float]] | None = None,
) -> _Solution:
    """Constants that fit the used rows best, from several starts where none is given.

    With a `prior` they are drawn towards its values, the more the fewer rows there are.

    Assumes: constants of a chip differ from those of its architecture by 30 % (one standard
        deviation), and a row is off by 5 % of itself.
    """
    from scipy.optimize import least_squares

    names = [(family, c) for family in families for c in find_family(family).constants]
    if not names:
        nothing: Values = {family: {} for family in families}
        return _Solution(nothing, nothing)
    low = np.log([c.low for _, c in names])
    high = np.log([c.high for _, c in names])
    target = np.log(rows.seconds)

    centre = None if prior is None else np.log([prior[family][c.name] for family, c in names])

    def residuals(log_constants: Floats) -> Floats:
        values = _named(names, np.exp(log_constants))
        own = (np.log(calls.seconds(values)) - target)[used]
        if centre is None:
            return own
        return np.concatenate([own, (log_constants - centre) * (ROW_ERROR / PRIOR_SPREAD)])

    best = None
    for begin in _starts(names, start or prior):
        inside = np.clip(begin, low + 1e-9, np.maximum(high - 1e-9, low + 1e-9))
        found = least_squares(
            residuals, inside, bounds=(low, high + 2e-9), loss="soft_l1", f_scale=ROBUST_SCALE
        )
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    errors = _standard_errors(best.jac, best.cost, int(used.sum()))
    return _Solution(_named(names, np.exp(best.x)), _named(names, errors))


def _standard_errors(jacobian: Floats, cost: float, rows: int) -> Floats:
    """Of the parameters at the best fit, from the curvature of its cost."""
    count = jacobian.shape[1]
    variance = 2 * cost / max(rows - count, 1)
    values, vectors = np.linalg.eigh(jacobian.T @ jacobian)
    inverse = 1 / np.maximum(values, variance / UNKNOWN_ERROR**2)
    return np.minimum(np.sqrt(variance * (vectors**2 @ inverse)), UNKNOWN_ERROR)


def _named(names: Sequence[tuple[str, Constant]], values: Floats) -> Values:
    found: Values = {}
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
    prior: Mapping[str, Mapping[str, float]] | None = None,
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
    causes = rows.calls.parts(whole.values).dominant
    situations = [
        situation_of(row, float(seconds), cause)
        for row, seconds, cause in zip(
            rows.rows, rows.seconds * np.exp(residuals), causes, strict=True
        )
    ]
    return {
        family: Fit(
            constants=whole.values[family],
            standard_errors=whole.errors[family],
            rows=len(own),
            residuals=residuals[own],
            situations=tuple(situations[i] for i in own),
            causes=tuple(causes[i] for i in own),
        )
        for family in families
        for own in (rows.of(family),)
    }


def absolute_errors(residuals: Floats) -> Floats:
    """|predicted - measured| / measured from log residuals."""
    return np.abs(np.expm1(residuals))
