"""Fits constants of kernel families to measured rows: least squares on log time, robust loss.

Constants are fitted in log space within their bounds, one set an architecture; chips enter by
their facts alone. Families that appear in each other's rows are fitted together, so that one
physical thing has one constant. Folds are fixed by row order: a fit is the same every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.calibration.dispatch import RowSet
from simulator.calibration.measured_rows import FrozenCalls
from simulator.kernels.constant import Constant
from simulator.kernels.folds import folds_of
from simulator.kernels.parts import Floats
from simulator.kernels.registry import FAMILIES, find_family

# Residuals beyond this (in log time) count linearly, not squared.
ROBUST_SCALE = 0.05
# Families that are fitted together: FlashMLA's core has the same constants wherever it runs.
TOGETHER = (("sparse_core_flashmla", "attention_module_sglang", "attention_module_vllm"),)
Values = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants of a family, and log residuals (predicted over measured) of the rows judged
    under it, each under constants that were not fitted to it."""

    constants: dict[str, float]
    rows: int
    residuals: Floats


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
) -> Values:
    """Constants that fit the used rows best, from several starts where none is given."""
    from scipy.optimize import least_squares

    names = [(family, c) for family in families for c in find_family(family).constants]
    if not names:
        return {family: {} for family in families}
    low = np.log([c.low for _, c in names])
    high = np.log([c.high for _, c in names])
    target = np.log(rows.seconds)

    def residuals(log_constants: Floats) -> Floats:
        values = _named(names, np.exp(log_constants))
        return (np.log(calls.seconds(values)) - target)[used]

    best = None
    for begin in _starts(names, start):
        inside = np.clip(begin, low + 1e-9, np.maximum(high - 1e-9, low + 1e-9))
        found = least_squares(
            residuals, inside, bounds=(low, high + 2e-9), loss="soft_l1", f_scale=ROBUST_SCALE
        )
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    return _named(names, np.exp(best.x))


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


def cross_validate(families: Sequence[str], rows: RowSet) -> dict[str, Fit]:
    """Constants fitted to all rows, and residuals of each fold under a fit to the others.

    Rows are dealt to folds family by family.
    """
    calls = rows.calls.frozen(families)
    everything = np.ones(len(rows), dtype=bool)
    whole = fit(families, rows, calls, everything)
    fold = np.empty(len(rows), dtype=int)
    for family in families:
        own = rows.of(family)
        for number, held_out in enumerate(folds_of(len(own))):
            fold[own[held_out]] = number
    residuals = np.empty(len(rows))
    for number in np.unique(fold):
        constants = fit(families, rows, calls, fold != number, start=whole)
        held = fold == number
        residuals[held] = np.log(calls.seconds(constants) / rows.seconds)[held]
    return {
        family: Fit(whole[family], len(rows.of(family)), residuals[rows.of(family)])
        for family in families
    }


def absolute_errors(residuals: Floats) -> Floats:
    """|predicted - measured| / measured from log residuals."""
    return np.abs(np.expm1(residuals))
