"""A CSV file as columns of text, each row with its line; the columns are read by type elsewhere."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from simulator.basis.errors import FileFormatError
from workloads.traffic.trace import Ints
from workloads.traffic.trace_file import TraceFile


@dataclass(frozen=True, slots=True)
class CsvTable:
    """Columns of text [rows] by name; an empty cell is "". `line` [rows]: where a row ends."""

    file: TraceFile
    line: Ints
    columns: dict[str, list[str]]

    def __len__(self) -> int:
        return len(self.line)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> list[str]:
        return self.columns[name]

    def at(self, row: int) -> str:
        """`file:line` of a row."""
        return self.file.at(int(self.line[row]))

    def wrong(self, name: str, row: int, allowed: str) -> FileFormatError:
        """The refusal of a cell."""
        cell = self.columns[name][row]
        if not cell:
            return FileFormatError(
                f"{self.at(row)}: no {name!r}, expected {allowed}; the line is truncated or damaged"
            )
        return FileFormatError(f"{self.at(row)}: {name!r} is {cell!r:.60}, expected {allowed}")


def csv_table(file: TraceFile, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> CsvTable:
    """Columns `needed`, and those of `optional` that are there; blank lines are passed over.

    Raises FileFormatError for a needed column that is missing and for rows longer than the header.
    """
    line: list[int] = []
    rows: list[tuple[str, ...]] = []
    number = 0
    try:
        with file.open() as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
            reader = csv.reader(text, strict=True)
            header = [name.strip() for name in next(reader, [])]
            file.see(header)
            names = _names(file, header, needed, optional)
            width, places = len(header), [header.index(name) for name in names]
            pick = itemgetter(*places, *places[:1])  # at least two, so that it gives a tuple
            for row in reader:
                number = reader.line_num
                if len(row) != width:
                    row = _padded(file, number, row, width)
                    if not row:
                        continue
                line.append(number)
                rows.append(pick(row))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise file.bad_gzip(number + 1) from error
    except csv.Error as error:
        raise FileFormatError(
            f"{file.at(number + 1)}: not a whole CSV row ({error}); fetch the file again"
        ) from error
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * len(names)
    found = dict(zip(names, columns, strict=False))
    return CsvTable(file, np.array(line, dtype=np.int64), found)


def _names(
    file: TraceFile, header: list[str], needed: tuple[str, ...], optional: tuple[str, ...]
) -> list[str]:
    missing = [name for name in needed if name not in header]
    if missing:
        raise FileFormatError(
            f"{file.at(1)}: no column {missing[0]!r}; the header has "
            f"{', '.join(map(repr, header)):.300}"
        )
    return [*needed, *(name for name in optional if name in header)]


def _padded(file: TraceFile, line: int, row: list[str], width: int) -> list[str]:
    """A short row with empty cells added; nothing for a blank line."""
    if len(row) > width:
        raise FileFormatError(f"{file.at(line)}: {len(row)} fields, expected {width} as the header")
    return [*row, *[""] * (width - len(row))] if any(cell.strip() for cell in row) else []
