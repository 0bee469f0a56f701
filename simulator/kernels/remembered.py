"""Remembers what a program computed for the same columns on the same chip.

A fit evaluates a module thousands of times with new constants; its GEMMs do not depend on them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from hwmodels.chip import ChipSpec

KEPT = 32
T = TypeVar("T")


class Remembered:
    """The last results, by content of the columns and identity of the chip."""

    def __init__(self) -> None:
        self._found: OrderedDict[Hashable, tuple[ChipSpec, Any]] = OrderedDict()

    def get(self, columns: tuple[object, ...], chip: ChipSpec, compute: Callable[[], T]) -> T:
        """What `compute` gives for these columns, computed once."""
        key = (id(chip), *(_content(column) for column in columns))
        if key not in self._found:
            # The chip is kept with its result, so that its id is not given to another.
            self._found[key] = (chip, compute())
            while len(self._found) > KEPT:
                self._found.popitem(last=False)
        self._found.move_to_end(key)
        result: T = self._found[key][1]
        return result


def _content(column: object) -> Hashable:
    if isinstance(column, np.ndarray):
        return (column.dtype.str, column.shape, column.tobytes())
    return str(column)
