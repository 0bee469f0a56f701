"""Rows of a validation as a table: measured, predicted, its interval, and where time goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.basis.atomic import atomic_file
from simulator.basis.errors import InputError
from simulator.kernels.causes import CAUSES

if TYPE_CHECKING:
    import pandas as pd

    from simulator.calibration.validation import Row

MICRO = 1e6
SUFFIXES = (".csv", ".parquet")
# A column of more different numbers than this is grouped by factors of four.
MOST_VALUES = 12
# First letters that a spreadsheet takes for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def check_rows_file(path: Path) -> None:
    """Refuse a name that says no format, and a folder that is not there, before any work."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--rows {path}: expected a name that ends in {' or '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; make it first")


def rows_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One line a row: its own columns, then times in microseconds and shares by cause."""
    import pandas as pd

    return pd.DataFrame([_line(row) for row in rows])


def _line(row: Row) -> dict[str, Any]:
    own = {
        name: value for name, value in row.columns.items() if name not in ("chip", "engine", "op")
    }
    causes = {
        f"{cause}_us": row.causes_s[cause] * MICRO for cause in CAUSES if cause in row.causes_s
    }
    tile = {"tile_us": row.tile_s * MICRO} if row.tile_s else {}
    return {
        "file": row.file,
        "line": row.line,
        "chip": row.chip,
        "engine": row.engine,
        "op": row.op,
        "family": row.family,
        **own,
        "measured_us": row.measured_s * MICRO,
        "predicted_us": row.predicted_s * MICRO,
        "p10_us": row.low_s * MICRO,
        "p90_us": row.high_s * MICRO,
        "held": row.holds,
        "log_error": row.log_error,
        "cause": row.cause,
        **tile,
        **causes,
    }


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """CSV or Parquet, whole or not at all. Text that a spreadsheet would run is quoted by a `'`."""
    frame = rows_frame(rows)
    with atomic_file(path) as file:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(file)
            return
        for name in frame.columns:
            if frame[name].dtype == object:
                frame[name] = [_safe(value) for value in frame[name]]
        file.write(frame.to_csv(index=False).encode())


def _safe(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def group_keys(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[str, ...]]:
    """Of every row the values of some columns as text; many numbers as ranges of a factor four.

    An unknown column is an InputError that lists the known.
    """
    frame = rows_frame(rows)
    if "batch" in frame and "new_tokens" in frame:
        frame["tokens"] = frame["batch"] * frame["new_tokens"]
    unknown = [name for name in names if name not in frame]
    if unknown:
        raise InputError(
            f"--by {unknown[0]}: the rows have no such column, only {', '.join(frame.columns)}"
        )
    columns = [list(_texts(frame[name])) for name in names]
    return list(zip(*columns, strict=True))


def _texts(column: pd.Series[Any]) -> Iterable[str]:
    numeric = column.dtype.kind in "fi"
    many = numeric and column.nunique() > MOST_VALUES
    for value in column:
        if value is None or value != value:
            yield "-"
        elif many:
            yield _range(float(value))
        else:
            yield f"{value:g}" if numeric else str(value)


def _range(value: float) -> str:
    """The range from a power of four to the next that a number lies in."""
    if value <= 0:
        return "0"
    low = 1.0
    while low > value:
        low /= 4
    while low * 4 <= value:
        low *= 4
    return f"{low:g} to {low * 4:g}"
