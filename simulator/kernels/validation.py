"""Predictions beside measured rows: error statistics, interval coverage and the worst rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.kernels.calibration import FEWEST_ROWS, by_architecture, covered_rows
from simulator.kernels.constants_file import (
    check_constants,
    constants_for,
    constants_path,
    read_constants,
)
from simulator.kernels.dispatch import NOT_COVERED, DispatchedTable
from simulator.kernels.family import Family
from simulator.kernels.fit import absolute_errors, chip_of, core_architecture, cross_validate
from simulator.kernels.interval import interval_of, out_of_fold_factors
from simulator.kernels.measured import TEXT, MeasuredTable
from simulator.kernels.parts import Floats
from simulator.kernels.registry import FAMILIES

# Measured on a ladder of 2.05 us steps: an error under one microsecond is none there.
LADDER_BELOW_S, LADDER_ERROR_S = 20e-6, 1e-6


@dataclass(frozen=True, slots=True)
class Row:
    """One measured row and its prediction; `low_s` to `high_s` is the predicted interval."""

    file: str
    line: int
    op: str
    engine: str
    chip: str
    family: str
    call: str
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float
    cause: str

    @property
    def on_timer_ladder(self) -> bool:
        """True for Blackwell rows of vLLM under 20 us."""
        return (
            core_architecture(chip_of(self.chip)) == "blackwell"
            and self.engine.startswith("vllm")
            and self.measured_s < LADDER_BELOW_S
        )

    @property
    def log_error(self) -> float:
        """Logarithm of predicted over measured; 0 where the timer cannot tell them apart."""
        near = abs(self.predicted_s - self.measured_s) < LADDER_ERROR_S
        return 0.0 if near and self.on_timer_ladder else _log_ratio(self)

    @property
    def holds(self) -> bool:
        """Whether the interval holds the measured time."""
        return self.low_s <= self.measured_s <= self.high_s


def _log_ratio(row: Row) -> float:
    return float(np.log(row.predicted_s / row.measured_s))


@dataclass(frozen=True, slots=True)
class Statistics:
    """Errors of some rows; absolute errors are of measured time, the bias is a mean logarithm."""

    n: int
    median_abs_error: float
    mean_abs_error: float
    p90_abs_error: float
    bias_log: float
    coverage: float


def statistics_of(rows: Sequence[Row]) -> Statistics:
    """Errors and coverage of at least one row."""
    residuals = np.array([row.log_error for row in rows])
    errors = absolute_errors(residuals)
    return Statistics(
        n=len(rows),
        median_abs_error=float(np.median(errors)),
        mean_abs_error=float(errors.mean()),
        p90_abs_error=float(np.quantile(errors, 0.9)),
        bias_log=float(residuals.mean()),
        coverage=float(np.mean([row.holds for row in rows])),
    )


def grouped(
    rows: Iterable[Row], key: Callable[[Row], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Row]]:
    """Rows by a key, sorted by it."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return dict(sorted(groups.items()))


def worst(rows: Sequence[Row], count: int = 10) -> list[Row]:
    """Rows that are furthest off, worst first."""
    return sorted(rows, key=lambda row: -abs(row.log_error))[:count]


def not_covered(table: DispatchedTable) -> dict[tuple[str, str, str], int]:
    """How many rows no family covers, by op, engine and kernel."""
    counts: dict[tuple[str, str, str], int] = {}
    for index in table.rows_of(NOT_COVERED):
        texts = table.table.texts(int(index))
        kernel = texts.get("kernel", texts.get("kernel_source", ""))
        kind = (texts["op"], texts["engine"], kernel)
        counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items()))


def predicted_rows(family: Family, table: DispatchedTable) -> list[Row]:
    """Rows of a table that a family covers, predicted with its stored constants."""
    covered = covered_rows(family, [table])
    if covered is None:
        return []
    check_constants(read_constants(family.name), family.constants, constants_path(family.name))
    lines = table.rows_of(family.name) + 2
    rows: list[Row] = []
    for chip in np.unique(covered.columns["chip"]):
        own = np.flatnonzero(covered.columns["chip"] == chip)
        calls = covered.take(own)
        spec = chip_of(str(chip))
        stored = constants_for(family.name, spec)
        interval = interval_of(stored)
        parts = family.parts(calls.columns, spec, stored.values)
        total = parts.total
        limits = total * interval.low, total * interval.high
        rows += _rows(family.name, calls, lines[own], (total, *limits), parts.dominant)
    return rows


def cross_validated_rows(family: Family, tables: Sequence[DispatchedTable]) -> list[Row]:
    """Rows of all tables that a family covers, each predicted by a fit that did not see it."""
    rows: list[Row] = []
    whole = covered_rows(family, tables)
    for part in by_architecture(whole).values() if whole is not None else ():
        if len(part) < FEWEST_ROWS:
            continue
        found = cross_validate(family, part)
        predicted = part.seconds * np.exp(found.residuals)
        low, high = out_of_fold_factors(found.residuals)
        causes = np.full(len(part), "", dtype=object)
        for chip in np.unique(part.columns["chip"]):
            own = np.flatnonzero(part.columns["chip"] == chip)
            parts = family.parts(part.take(own).columns, chip_of(str(chip)), found.constants)
            causes[own] = parts.dominant
        times = predicted, predicted * low, predicted * high
        rows += _rows(family.name, part, part.columns["line"].astype(int), times, list(causes))
    return rows


def too_few(tables: Sequence[DispatchedTable]) -> dict[tuple[str, str], int]:
    """Rows by family and architecture that are too few to be cross-validated."""
    counts = {}
    for family in FAMILIES.values():
        whole = covered_rows(family, tables)
        for architecture, part in by_architecture(whole).items() if whole is not None else ():
            if len(part) < FEWEST_ROWS:
                counts[family.name, architecture] = len(part)
    return counts


def _rows(
    family: str,
    calls: MeasuredTable,
    lines: np.ndarray,
    times: tuple[Floats, Floats, Floats],
    causes: Sequence[str],
) -> list[Row]:
    predicted, low, high = times
    return [
        Row(
            file=str(calls.columns["file"][i]) if "file" in calls.columns else calls.path.name,
            line=int(lines[i]),
            op=str(calls.columns["op"][i]),
            engine=str(calls.columns["engine"][i]),
            chip=str(calls.columns["chip"][i]),
            family=family,
            call=_call(calls, i),
            measured_s=float(calls.seconds[i]),
            predicted_s=float(predicted[i]),
            low_s=float(low[i]),
            high_s=float(high[i]),
            cause=causes[i],
        )
        for i in range(len(calls))
    ]


def _call(calls: MeasuredTable, index: int) -> str:
    """The row's own columns in words: what distinguishes the call."""
    shown = []
    for name, column in calls.columns.items():
        if name in ("chip", "engine", "op", "file", "line"):
            continue
        value = str(column[index]) if name in TEXT else f"{column[index]:.10g}"
        if value:
            shown.append(f"{name} {value}")
    return ", ".join(shown)


def validate_tables(
    tables: Sequence[DispatchedTable], *, cross: bool, progress: Callable[[str], None]
) -> list[Row]:
    """Predictions of all rows that some family covers, in the order of families.

    `cross` predicts every row with constants fitted to the other folds instead of the stored ones.
    """
    rows: list[Row] = []
    marked = [_with_origin(table) for table in tables]
    for number, family in enumerate(FAMILIES.values(), start=1):
        word = "cross-validating" if cross else "predicting"
        progress(f"{word} {family.name}, {number} of {len(FAMILIES)}")
        if cross:
            rows += cross_validated_rows(family, marked)
        else:
            rows += [row for table in tables for row in predicted_rows(family, table)]
    return rows


def _with_origin(whole: DispatchedTable) -> DispatchedTable:
    """A table whose rows carry their file and line, to be told apart once tables are joined."""
    table = whole.table
    origin = {
        "file": np.full(len(table), table.path.name),
        "line": np.arange(len(table)) + 2.0,
    }
    marked = MeasuredTable(table.path, {**table.columns, **origin}, table.seconds)
    return DispatchedTable(marked, whole.families)
