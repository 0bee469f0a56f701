"""The tables in a folder, told apart by their header: measured kernels, DRAM runs, or unknown."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from simulator.basis.errors import FileFormatError, InputError
from simulator.calibration.measured import MeasuredTable, read_measured

# Columns that only tables of DRAM runs have.
DRAM_COLUMNS = {"sim", "config", "pattern"}
# Columns that only tables of steps and operators of Ascend machines have.
NPU_COLUMNS = {"n_chips", "precision", "parallel", "metric"}


@dataclass(frozen=True, slots=True)
class FolderTables:
    """Measured tables read, paths of DRAM tables, and of tables of Ascend machines."""

    measured: tuple[MeasuredTable, ...]
    dram: tuple[Path, ...]
    npu: tuple[Path, ...] = ()


def read_folder(folder: Path, faults: list[FileFormatError] | None = None) -> FolderTables:
    """All CSV files of a folder, or one CSV file; none at all is an InputError.

    A file that is neither kind of table is read as a measured one, whose error names what it lacks.
    Rows that cannot be read are left out where their `faults` are asked for.
    """
    if folder.is_file():
        paths = [folder]
    elif folder.is_dir():
        paths = sorted(folder.glob("*.csv"))
    else:
        raise InputError(f"{folder}: no such folder or CSV file")
    if not paths:
        raise InputError(
            f"{folder}: the folder has no .csv file, expected tables of measured times"
        )
    headers = {path: _header(path) for path in paths}
    dram = tuple(path for path in paths if headers[path] >= DRAM_COLUMNS)
    npu = tuple(path for path in paths if headers[path] >= NPU_COLUMNS)
    others = [path for path in paths if path not in {*dram, *npu}]
    measured = tuple(read_measured(path, faults) for path in others)
    for table in measured:
        if not len(table):
            own = [fault for fault in faults or () if fault.message.startswith(f"{table.path}:")]
            if own:
                raise own[0]
            raise FileFormatError(f"{table.path}:2: the table has a header and no row")
    return FolderTables(measured, dram, npu)


def _header(path: Path) -> set[str]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = (line for line in file if not line.startswith("#"))
            return set(next(csv.reader(lines), []))
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path}: cannot be read as CSV text ({error})") from None
