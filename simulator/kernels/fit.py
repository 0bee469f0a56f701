"""Fits a family's constants to measured rows: least squares on log time with a robust loss.

Constants are fitted in log space within their bounds, one set an architecture; chips enter by
their facts alone. Folds are fixed by row order, so a fit is the same every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hwmodels.chip import ChipSpec, find_chip
from simulator.kernels.family import Family
from simulator.kernels.measured import MeasuredTable
from simulator.kernels.parts import Floats

FOLDS = 5
# Residuals beyond this (in log time) count linearly, not squared.
ROBUST_SCALE = 0.05


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants and log residuals (predicted over measured) of rows not fitted to."""

    constants: dict[str, float]
    rows: int
    residuals: Floats


def predict(family: Family, table: MeasuredTable, constants: Mapping[str, float]) -> Floats:
    """Predicted seconds of every row; rows of several chips are grouped by chip."""
    seconds = np.empty(len(table))
    for chip in np.unique(table.columns["chip"]):
        rows = np.flatnonzero(table.columns["chip"] == chip)
        calls = {name: column[rows] for name, column in table.columns.items()}
        seconds[rows] = family.parts(calls, chip_of(str(chip)), constants).total
    return seconds


def chip_of(name: str) -> ChipSpec:
    """Chip of a table's `chip` column."""
    return find_chip(name)


# Architectures whose cores are those of another, which their constants come from.
SAME_CORES = {"blackwell-ultra": "blackwell"}


def core_architecture(chip: ChipSpec) -> str:
    """Architecture under which constants of the chip are kept."""
    return SAME_CORES.get(chip.architecture, chip.architecture)


def fit(
    family: Family, table: MeasuredTable, start: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Constants that fit the rows best, from several starts where none is given."""
    from scipy.optimize import least_squares

    names = [c.name for c in family.constants]
    if not names:
        return {}
    low = np.log([c.low for c in family.constants])
    high = np.log([c.high for c in family.constants])
    target = np.log(table.seconds)

    def residuals(log_constants: Floats) -> Floats:
        values = dict(zip(names, np.exp(log_constants), strict=True))
        return np.log(predict(family, table, values)) - target

    best = None
    for begin in _starts(family, start):
        inside = np.clip(begin, low + 1e-9, np.maximum(high - 1e-9, low + 1e-9))
        found = least_squares(
            residuals, inside, bounds=(low, high + 2e-9), loss="soft_l1", f_scale=ROBUST_SCALE
        )
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    return dict(zip(names, (float(v) for v in np.exp(best.x)), strict=True))


def _starts(family: Family, start: Mapping[str, float] | None) -> list[Floats]:
    if start is not None:
        return [np.log([start[c.name] for c in family.constants])]
    middle = np.log([c.start for c in family.constants])
    spread = np.log([[c.start * 0.7, c.start * 1.4] for c in family.constants])
    return [middle, spread[:, 0], spread[:, 1]]


def folds_of(count: int) -> list[np.ndarray]:
    """Row numbers of each fold, dealt from a fixed shuffle."""
    order = np.random.default_rng(0).permutation(count)
    return [np.sort(order[fold::FOLDS]) for fold in range(FOLDS)]


def cross_validate(family: Family, table: MeasuredTable) -> Fit:
    """Constants fitted to all rows, and residuals of each fold under a fit to the others."""
    whole = fit(family, table)
    residuals = np.empty(len(table))
    for held_out in folds_of(len(table)):
        others = np.setdiff1d(np.arange(len(table)), held_out)
        constants = fit(family, table.take(others), start=whole)
        predicted = predict(family, table.take(held_out), constants)
        residuals[held_out] = np.log(predicted / table.seconds[held_out])
    return Fit(whole, len(table), residuals)


def rows_of(family: Family, table: MeasuredTable, architecture: str | None = None) -> MeasuredTable:
    """Rows of a table that the family covers, of one architecture if named."""
    rows: Sequence[int] = [
        i
        for i in range(len(table))
        if family.covers(table.texts(i))
        and architecture in (None, core_architecture(chip_of(table.texts(i)["chip"])))
    ]
    return table.take(rows)


def absolute_errors(residuals: Floats) -> Floats:
    """|predicted - measured| / measured from log residuals."""
    return np.abs(np.expm1(residuals))
