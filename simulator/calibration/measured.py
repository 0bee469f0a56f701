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
from numpy.typing import NDArray

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


# Beyond these a cell is a slip: a size of 10^15, and a quarter of an hour.
LARGEST, LONGEST_US, SHORTEST_US = 1e15, 1e9, 1e-6
# Sizes that graphs are built of: whole, and none of them 0 but where it is said.
SIZES = dict.fromkeys(
    (
        *("m", "n", "k", "batch", "new_tokens", "num_tokens", "local_heads", "tp", "ratio"),
        *("num_sites", "hc_mult", "hidden_size", "sinkhorn_iters", "inter_size", "topk"),
        *("num_experts", "moe_tp_size", "moe_ep_size", "num_gpus", "message_size"),
    ),
    1,
) | {"past_tokens": 0}
LARGEST_SIZE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """Rows of one file. `columns` without the time; `seconds` measured; `lines` of the file."""

    path: Path
    columns: Columns
    seconds: Floats
    lines: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.seconds)

    def texts(self, index: int) -> dict[str, str]:
        """Text columns of a row."""
        return {n: str(c[index]) for n, c in self.columns.items() if n in TEXT}

    def take(self, rows: Sequence[int] | np.ndarray) -> MeasuredTable:
        """Some of the rows."""
        index = np.asarray(rows, dtype=np.int64)
        columns = {name: column[index] for name, column in self.columns.items()}
        return MeasuredTable(self.path, columns, self.seconds[index], self.lines[index])


def read_measured(path: Path, faults: list[FileFormatError] | None = None) -> MeasuredTable:
    """One CSV file. Rows that cannot be read are left out where their `faults` are asked for.

    Without them the first is raised, as what is wrong with the file itself always is.
    """
    header, rows = _cells(path)
    lines, kept = [], []
    for line, row in rows:
        fault = _row_fault(path, line, header, row)
        if fault is None:
            lines.append(line)
            kept.append(row)
        elif faults is None:
            raise fault
        else:
            faults.append(fault)
    columns = {
        name: np.array([row[i] for row in kept], dtype=str if name in TEXT else np.float64)
        for i, name in enumerate(header)
    }
    seconds = columns.pop(TIME) * 1e-6
    return MeasuredTable(path, columns, seconds, np.array(lines, dtype=np.intp))


def _cells(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Header of a file, checked, and its rows with their lines."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            rows = [(reader.line_num, row) for row in reader if row]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: cannot be read as CSV text ({error})") from None
    for name in REQUIRED:
        if name not in header:
            raise FileFormatError(
                f"{path}:1: column {name!r} is missing; a measured table needs "
                f"{', '.join(REQUIRED)} and has {', '.join(header) or 'none'}"
            )
    if len(set(header)) != len(header):
        raise FileFormatError(f"{path}:1: a column is named twice in {', '.join(header)}")
    return header, rows


def _row_fault(
    path: Path, line: int, header: Sequence[str], row: Sequence[str]
) -> FileFormatError | None:
    """What is wrong with a row; None where it can be read."""
    if len(row) != len(header):
        return FileFormatError(
            f"{path}:{line}: {len(row)} values, expected {len(header)} as in the header"
        )
    for name, value in zip(header, row, strict=True):
        if name not in TEXT:
            problem = _number_fault(name, value)
            if problem:
                return FileFormatError(f"{path}:{line}: {problem}")
    return None


def _number_fault(name: str, value: str) -> str:
    """What is wrong with a cell that should be a number; empty where nothing is."""
    try:
        number = float(value)
    except ValueError:
        return f"column {name!r} is {value!r}, expected a number"
    if not np.isfinite(number):
        return f"column {name!r} is {value!r}, not finite"
    if name == TIME and not number > 0:
        return f"{TIME} must be above 0"
    if name == TIME and number < SHORTEST_US:
        return f"column {name!r} is {value!r}, expected at least {SHORTEST_US:g}: a picosecond"
    if name in SIZES and name != "message_size":
        if not SIZES[name] <= number <= LARGEST_SIZE or number % 1:
            return (
                f"column {name!r} is {value!r}, expected a whole number from {SIZES[name]} to "
                f"{LARGEST_SIZE:,}"
            )
    elif name == "message_size" and number < 1:
        return f"column {name!r} is {value!r}, expected at least 1 element"
    most = LONGEST_US if name == TIME else LARGEST
    if abs(number) > most:
        return f"column {name!r} is {value!r}, expected at most {most:g}"
    return ""
