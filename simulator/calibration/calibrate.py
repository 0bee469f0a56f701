"""Calibration: cross-validated fits of all families with rows, and the figures that are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.calibration.dispatch import RowSet
from simulator.calibration.fit import Fit, absolute_errors, cross_validate, drawn_fit, fit_groups
from simulator.calibration.regimes import regimes_of
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constants_file import constants_for, read_constants
from simulator.kernels.fitted import FamilyFile, Fitted
from simulator.kernels.folds import FOLDS

# Fewer rows than this cannot carry five constants and five folds.
FEWEST_ROWS = 2 * FOLDS


def groups_with_rows(rows: RowSet) -> Iterator[tuple[tuple[str, ...], RowSet]]:
    """Families that are fitted together, and their rows; those without any are left out."""
    for families in fit_groups():
        named = set(families)
        own = rows.chosen(lambda row, named=named: row.family in named)  # type: ignore[misc]
        if len(own):
            yield families, own


def calibrate_group(
    families: Sequence[str], rows: RowSet
) -> tuple[list[FamilyFile], dict[tuple[str, str], Fit]]:
    """Constants of every architecture with enough rows, and the fits by family and architecture.

    A family with too few rows on an architecture is left out there.
    """
    fits: dict[tuple[str, str], Fit] = {}
    for architecture, part in rows.by_architecture().items():
        enough = [family for family in families if len(part.of(family)) >= FEWEST_ROWS]
        if not enough:
            continue
        own = part.chosen(lambda row, enough=enough: row.family in enough)  # type: ignore[misc]
        for family, found in cross_validate(enough, own).items():
            fits[family, architecture] = found
    files = [
        FamilyFile(
            family=family,
            architectures={a: summary(found) for (f, a), found in fits.items() if f == family},
        )
        for family in families
    ]
    return files, fits


def summary(found: Fit) -> Fitted:
    """What is kept of a fit: constants, and errors of rows that it was not fitted to."""
    errors = absolute_errors(found.residuals)
    return Fitted(
        constants=found.constants,
        standard_errors=dict(found.standard_errors),
        not_identified=found.not_identified,
        rows=found.rows,
        median_error=float(np.median(errors)),
        p90_error=float(np.quantile(errors, 0.9)),
        bias=float(found.residuals.mean()),
        regimes=regimes_of(found.residuals, found.situations),
    )


def calibrate_chip(
    chip: ChipSpec, families: Sequence[str], rows: RowSet
) -> tuple[list[FamilyFile], list[str]]:
    """Constants of families on one chip, drawn towards its architecture's, and families left out.

    All rows are of the chip. A family with too few rows is left out; its constants stay as they
    are for the families that build on it.
    """
    few = [family for family in families if 0 < len(rows.of(family)) < FEWEST_ROWS]
    enough = [family for family in families if len(rows.of(family)) >= FEWEST_ROWS]
    own = rows.chosen(lambda row: row.family in enough)
    if not enough:
        return [], few
    known = {family: constants_for(family, chip) for family in enough}
    values = {family: stored.values for family, stored in known.items()}
    same = all(stored.architecture == core_architecture(chip) for stored in known.values())
    fits = drawn_fit(enough, own, values) if same else cross_validate(enough, own)
    name = chip.plain_name
    return [
        FamilyFile(family=family, chips={name: summary(found)}) for family, found in fits.items()
    ], few


def layered(content: FamilyFile) -> FamilyFile:
    """A family's constants with those of a chip before them, for families that build on them."""
    return read_constants(content.family).model_copy(update={"chips": content.chips})
