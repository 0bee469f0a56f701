"""What a program asks of a calibrated family, as one row of columns that others may join."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.cost.priced import Borrowable, Priced
from simulator.kernels.parts import Parts, joined

Columns = Mapping[str, np.ndarray]
# Seconds by cause of calls in columns, one value a call, on a chip with these constants.
Form = Callable[[Columns, ChipSpec, Mapping[str, float]], Parts]


@dataclass(frozen=True, slots=True, eq=False)
class FamilyCall:
    """One row of a form's columns. Rows of equal forms and constants may be worked out at once.

    `row` has names and values. Constants are equal where they come from one reading of a file.
    `derived`: the form was never fitted itself.
    """

    form: Form
    constants: Borrowable
    row: tuple[tuple[str, Any], ...]
    derived: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for rows of the same table."""
        return self.form, id(self.constants.stored.fit), *map(_name, self.row)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FamilyCall):
            return NotImplemented
        same = self.constants.stored.fit is other.constants.stored.fit
        return same and self.form == other.form and self.row == other.row

    def __hash__(self) -> int:
        return hash((self.form, id(self.constants.stored.fit), self.row))


def _name(size: tuple[str, float | str]) -> object:
    """Name of a size; with a number format, one table has one format."""
    return size if size[0] == "math" else size[0]


def parts_of(calls: Sequence[FamilyCall], chip: ChipSpec) -> Parts:
    """Seconds by cause of calls with equal keys, one value a call."""
    first = calls[0]
    columns = {
        name: np.array([call.row[i][1] for call in calls]) for i, (name, _) in enumerate(first.row)
    }
    return first.form(columns, chip, first.constants.values)


def priced_calls(calls: Sequence[FamilyCall] | None, chip: ChipSpec) -> Priced | None:
    """A kernel that takes as long as its calls one after the other; None without calls."""
    if not calls:
        return None
    found = [call.constants.priced(parts_of([call], chip), derived=call.derived) for call in calls]
    if len(found) == 1:
        return found[0]
    return Priced(joined(*(p.parts for p in found)), found[0].interval, found[0].family)
