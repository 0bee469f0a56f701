"""Measured tables: CSV files with one kernel or module a row and its time in `latency_us`.

Columns keep the names of the files; numbers become float arrays, the rest text. A missing or
non-numeric column is one `FileFormatError` with file, line and column.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulator.basis.errors import FileFormatError, InputError
from simulator.kernels.family import Columns
from simulator.kernels.parts import Floats

TEXT = {
    "chip",
    "engine",
    "op",
    "kernel",
    "scores",
    "weights",
    "model",
    "kv_dtype",
    "gemm_dtype",
    "kernel_source",
    "nccl_dtype",
    "allreduce_dtype",
    "op_name",
    "distribution",
    "moe_dtype",
}
TIME = "latency_us"
REQUIRED = ("chip", "engine", "op", TIME)


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """Rows of one file. `columns` without the time; `seconds` measured."""

    path: Path
    columns: Columns
    seconds: Floats

    def __len__(self) -> int:
        return len(self.seconds)

    def texts(self, index: int) -> dict[str, str]:
        """Text columns of a row."""
        return {n: str(c[index]) for n, c in self.columns.items() if n in TEXT}

    def take(self, rows: Sequence[int] | np.ndarray) -> MeasuredTable:
        """Some of the rows."""
        index = np.asarray(rows, dtype=np.int64)
        columns = {name: column[index] for name, column in self.columns.items()}
        return MeasuredTable(self.path, columns, self.seconds[index])


def read_measured(path: Path) -> MeasuredTable:
    """One CSV file."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            rows = [row for row in reader if row]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path}: cannot be read as CSV text ({error})") from None
    for name in REQUIRED:
        if name not in header:
            raise FileFormatError(
                f"{path}:1: column {name!r} is missing; a measured table needs "
                f"{', '.join(REQUIRED)} and has {', '.join(header) or 'none'}"
            )
    if len(set(header)) != len(header):
        raise FileFormatError(f"{path}:1: a column is named twice in {', '.join(header)}")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise FileFormatError(
                f"{path}:{line}: {len(row)} values, expected {len(header)} as in the header"
            )
    columns = {name: _column(path, name, [row[i] for row in rows]) for i, name in enumerate(header)}
    seconds = columns.pop(TIME) * 1e-6
    if len(seconds) and not (seconds > 0).all():
        line = int(np.flatnonzero(~(seconds > 0))[0]) + 2
        raise FileFormatError(f"{path}:{line}: {TIME} must be above 0")
    return MeasuredTable(path, columns, seconds)


def _column(path: Path, name: str, values: list[str]) -> np.ndarray:
    if name in TEXT:
        return np.array(values, dtype=str)
    numbers = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            numbers[i] = float(value)
        except ValueError:
            raise FileFormatError(
                f"{path}:{i + 2}: column {name!r} is {value!r}, expected a number"
            ) from None
        if not np.isfinite(numbers[i]):
            raise FileFormatError(f"{path}:{i + 2}: column {name!r} is {value!r}, not finite")
    return numbers
