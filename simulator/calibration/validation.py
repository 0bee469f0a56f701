"""Predictions beside measured rows: error statistics, interval coverage and the worst rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.calibration.calibrate import FEWEST_ROWS, groups_with_rows
from simulator.calibration.dispatch import NOT_COVERED, MeasuredRow, RowSet, chip_of, situation_of
from simulator.calibration.fit import absolute_errors, cross_validate
from simulator.calibration.measured import TEXT
from simulator.calibration.regimes import factors_of
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constants_file import (
    check_constants,
    constants_for,
    constants_path,
    read_constants,
)
from simulator.kernels.interval import interval_of
from simulator.kernels.parts import Floats, Parts
from simulator.kernels.registry import find_family

# Measured on a ladder of 2.05 us steps: an error under one microsecond is none there.
LADDER_BELOW_S, LADDER_ERROR_S = 20e-6, 1e-6


@dataclass(frozen=True, slots=True)
class Row:
    """One measured row and its prediction; `low_s` to `high_s` is the predicted interval.

    `tile_s` is what closed forms predict, where the prediction is another's; 0 where it is theirs.
    `causes_s` divide what closed forms predict; `columns` are the table's own.
    """

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
    tile_s: float = 0.0
    causes_s: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, str | float] = field(default_factory=dict)

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
    """Errors of some rows; absolute errors are of measured time, the bias is a mean logarithm.

    `median_width` is p90 / p10 - 1 of the predicted interval.
    """

    n: int
    median_abs_error: float
    mean_abs_error: float
    p90_abs_error: float
    bias_log: float
    coverage: float
    median_width: float


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
        median_width=float(np.median([row.high_s / row.low_s - 1 for row in rows])),
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


def not_covered(rows: RowSet) -> dict[tuple[str, str, str, str], int]:
    """How many rows no profile lowers, by file, op, engine and kernel."""
    counts: dict[tuple[str, str, str, str], int] = {}
    for row in rows.rows:
        if row.family == NOT_COVERED:
            kernel = row.text("kernel") or row.text("kernel_source")
            kind = (row.file, row.text("op"), row.text("engine"), kernel)
            counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items()))


def predicted_rows(rows: RowSet) -> list[Row]:
    """Rows of one group of families, predicted with the stored constants."""
    for name in sorted({row.family for row in rows.rows}):
        check_constants(read_constants(name), find_family(name).constants, constants_path(name))
    parts = rows.calls.parts()
    total, causes = parts.total, parts.dominant
    low, high = np.empty(len(rows)), np.empty(len(rows))
    for i, (row, chip) in enumerate(zip(rows.rows, rows.chips, strict=True)):
        call = situation_of(row, float(total[i]), causes[i])
        interval = interval_of(constants_for(row.family, chip), call, float(total[i]), alone=True)
        low[i], high[i] = interval.low, interval.high
    return _rows(rows.rows, (total, total * low, total * high), causes, parts)


def cross_validated_rows(families: Sequence[str], rows: RowSet) -> list[Row]:
    """Rows of families that are fitted together, each predicted by a fit that did not see it."""
    found: list[Row] = []
    for part in rows.by_architecture().values():
        enough = [family for family in families if len(part.of(family)) >= FEWEST_ROWS]
        own = part.chosen(lambda row, enough=enough: row.family in enough)  # type: ignore[misc]
        if not len(own):
            continue
        fits = cross_validate(enough, own)
        parts = own.calls.parts({name: fit.constants for name, fit in fits.items()})
        for family in enough:
            index = own.of(family)
            residuals = fits[family].residuals
            predicted = own.seconds[index] * np.exp(residuals)
            low, high = factors_of(residuals, fits[family].situations)
            judged = [own.rows[i] for i in index]
            times = predicted, predicted * low, predicted * high
            found += _rows(judged, times, fits[family].causes, parts, index)
    return found


def too_few(rows: RowSet) -> dict[tuple[str, str], int]:
    """Rows by family and architecture that are too few to be cross-validated."""
    counts = {}
    for families, own in groups_with_rows(rows):
        for architecture, part in own.by_architecture().items():
            for family in families:
                if 0 < len(part.of(family)) < FEWEST_ROWS:
                    counts[family, architecture] = len(part.of(family))
    return counts


def _rows(
    rows: Sequence[MeasuredRow],
    times: tuple[Floats, Floats, Floats],
    causes: Sequence[str],
    parts: Parts,
    index: NDArray[np.intp] | None = None,
) -> list[Row]:
    """Rows with their predictions; `index` says which of the parts' calls each of them is."""
    predicted, low, high = times
    index = np.arange(len(rows)) if index is None else index
    total = parts.total
    shares = {
        cause: np.broadcast_to(value, total.shape)[index] / total[index]
        for cause, value in parts.seconds.items()
    }
    return [
        Row(
            file=row.file,
            line=row.line,
            op=row.text("op"),
            engine=row.text("engine"),
            chip=row.chip,
            family=row.family,
            call=_call(row),
            measured_s=row.seconds,
            predicted_s=float(predicted[i]),
            low_s=float(low[i]),
            high_s=float(high[i]),
            cause=causes[i],
            causes_s={c: float(share[i] * predicted[i]) for c, share in shares.items() if share[i]},
            columns=row.columns,
        )
        for i, row in enumerate(rows)
    ]


def _call(row: MeasuredRow) -> str:
    """The row's own columns in words: what distinguishes the call."""
    shown = []
    for name, column in row.columns.items():
        if name not in ("chip", "engine", "op"):
            value = str(column) if name in TEXT else f"{column:.10g}"
            if value:
                shown.append(f"{name} {value}")
    return ", ".join(shown)


def validate_tables(rows: RowSet, *, cross: bool, progress: Callable[[str], None]) -> list[Row]:
    """Predictions of all rows that some profile lowers, in the order of families.

    `cross` predicts every row with constants fitted to the other folds instead of the stored ones.
    """
    found: list[Row] = []
    groups = list(groups_with_rows(rows))
    for number, (families, own) in enumerate(groups, start=1):
        word = "cross-validating" if cross else "predicting"
        progress(f"{word} {', '.join(families)}, {number} of {len(groups)}")
        found += cross_validated_rows(families, own) if cross else predicted_rows(own)
    return found
