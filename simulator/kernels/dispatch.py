"""Which kernel family predicts each row of a measured table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.basis.errors import FileFormatError, V4SimError, unknown_name
from simulator.kernels.fit import chip_of
from simulator.kernels.measured import TEXT, MeasuredTable
from simulator.kernels.registry import FAMILIES, KERNEL_SECTIONS

NOT_COVERED = ""


@dataclass(frozen=True, slots=True)
class DispatchedTable:
    """A table and the family of each of its rows."""

    table: MeasuredTable
    families: np.ndarray

    def rows_of(self, family: str) -> np.ndarray:
        """Numbers of the rows that a family (or `NOT_COVERED`) takes."""
        return np.flatnonzero(self.families == family)


def dispatched(table: MeasuredTable) -> DispatchedTable:
    """A table whose engines and chips are known, with the family of each row."""
    check_engines(table)
    check_chips(table)
    return DispatchedTable(table, families_of_rows(table))


def families_of_rows(table: MeasuredTable) -> np.ndarray:
    """Family name of every row, `NOT_COVERED` where no family takes it.

    Rows that agree in all text columns are asked for once.
    """
    names = [name for name in table.columns if name in TEXT]
    found = np.full(len(table), NOT_COVERED, dtype=object)
    if not len(table):
        return found
    texts = np.stack([table.columns[name] for name in names], axis=1).astype(str)
    _, first, group = np.unique(texts, axis=0, return_index=True, return_inverse=True)
    for number, row in enumerate(first):
        found[group.ravel() == number] = _family_of(table.texts(int(row)))
    return found


def _family_of(row: dict[str, str]) -> str:
    takers = [name for name, family in FAMILIES.items() if family.covers(row)]
    assert len(takers) <= 1, f"{row} is covered by {', '.join(takers)}"
    return takers[0] if takers else NOT_COVERED


def check_engines(table: MeasuredTable) -> None:
    """Every engine's kernel section (its name before the first `-`) is one that we know."""
    for line, engine in enumerate(table.columns["engine"], start=2):
        section = str(engine).partition("-")[0]
        if section not in KERNEL_SECTIONS:
            raise FileFormatError(
                f"{table.path}:{line}: {unknown_name('engine family', section, KERNEL_SECTIONS)} "
                f"(of engine {str(engine)!r})"
            )


def check_chips(table: MeasuredTable) -> None:
    """Every chip of a table is one that we know; the error names file and line."""
    for chip in np.unique(table.columns["chip"]):
        try:
            chip_of(str(chip))
        except V4SimError as error:
            line = int(np.flatnonzero(table.columns["chip"] == chip)[0]) + 2
            raise FileFormatError(f"{table.path}:{line}: {error.message}") from None
