"""Calibration of one family: rows it covers, cross-validated fit, and the figures that are kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.basis.errors import FileFormatError
from simulator.kernels.constants_file import ArchitectureFit, FamilyFile
from simulator.kernels.dispatch import DispatchedTable
from simulator.kernels.family import Family
from simulator.kernels.fit import (
    FOLDS,
    Fit,
    absolute_errors,
    chip_of,
    core_architecture,
    cross_validate,
)
from simulator.kernels.measured import MeasuredTable

LOW, HIGH = 0.1, 0.9
# Fewer rows than this cannot carry five constants and five folds.
FEWEST_ROWS = 2 * FOLDS


def covered_rows(family: Family, tables: Sequence[DispatchedTable]) -> MeasuredTable | None:
    """Rows of all tables that a family covers, as one table; None where there are none.

    A column that the family needs and a file lacks is an error that names both.
    """
    found = []
    for whole in tables:
        table, rows = whole.table, whole.rows_of(family.name)
        if len(rows):
            missing = [name for name in family.needs if name not in table.columns]
            if missing:
                raise FileFormatError(
                    f"{table.path}:1: column {missing[0]!r} is missing; kernel family "
                    f"{family.name} needs {', '.join(family.needs)}"
                )
            found.append(table.take(rows))
    return joined_tables(found) if found else None


def joined_tables(tables: Sequence[MeasuredTable]) -> MeasuredTable:
    """Tables one below the other, with the columns that all of them have."""
    common = set.intersection(*(set(table.columns) for table in tables))
    columns = {
        name: np.concatenate([table.columns[name] for table in tables])
        for name in tables[0].columns
        if name in common
    }
    seconds = np.concatenate([table.seconds for table in tables])
    return MeasuredTable(tables[0].path, columns, seconds)


def by_architecture(table: MeasuredTable) -> dict[str, MeasuredTable]:
    """Rows by core architecture of their chip, sorted by its name."""
    chips = {str(name) for name in table.columns["chip"]}
    cores = {name: core_architecture(chip_of(name)) for name in chips}
    each = np.array([cores[str(name)] for name in table.columns["chip"]])
    return {str(name): table.take(np.flatnonzero(each == name)) for name in np.unique(each)}


def calibrate_family(family: Family, table: MeasuredTable) -> tuple[FamilyFile, dict[str, Fit]]:
    """Constants of every architecture with enough rows, and the fits with their residuals."""
    fits = {
        architecture: cross_validate(family, rows)
        for architecture, rows in by_architecture(table).items()
        if len(rows) >= FEWEST_ROWS
    }
    return FamilyFile(
        family=family.name,
        architectures={architecture: summary(found) for architecture, found in fits.items()},
    ), fits


def summary(found: Fit) -> ArchitectureFit:
    """What is kept of a fit: constants, and errors of rows that it was not fitted to."""
    errors = absolute_errors(found.residuals)
    return ArchitectureFit(
        constants=found.constants,
        rows=found.rows,
        median_error=float(np.median(errors)),
        p90_error=float(np.quantile(errors, HIGH)),
        bias=float(found.residuals.mean()),
        log_error_p10=float(np.quantile(found.residuals, LOW)),
        log_error_p90=float(np.quantile(found.residuals, HIGH)),
    )
