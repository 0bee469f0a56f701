"""Formats of stored weights by name: lines of `weight_formats.yaml`, with any group size.

`weight_format("w4a16")` is W4A16 in groups of 128, `weight_format("w4a16-g64")` in groups of 64.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from simulator.basis.errors import InputError, unknown_name
from simulator.basis.yaml_loader import StrictModel, compose_yaml, validate_data
from workloads.dtype import DType

_FILE = Path(__file__).parent / "weight_formats.yaml"
# Columns of a block that is as long as the row.
WHOLE_ROW = 2**31
LARGEST_GROUP = 2**16
# Other names that users and checkpoints have for a line.
ALIASES = {"mxfp4": "fp4", "w8a8": "int8"}
_GROUPED = re.compile(r"(?P<line>.+)-g(?P<group>\d+)")
Positive = Annotated[int, Field(gt=0)]


class WeightFormat(StrictModel):
    """One line of the table; see its head for the keys."""

    bits: Annotated[int, Field(gt=0, le=32)]
    rows: Positive = 1
    columns: Positive | Literal["row"] | None = None
    scale_bits: Annotated[int, Field(ge=0, le=64)] = 0
    math: str
    grouped: bool = False
    about: str
    source: str


class _Table(StrictModel):
    """The lines of the file, as its values."""

    formats: dict[str, WeightFormat]


@lru_cache(maxsize=1)
def weight_format_table() -> dict[str, WeightFormat]:
    """All lines by name."""
    data, lines = compose_yaml(_FILE)
    return validate_data({"formats": data}, lines, _Table).formats


@lru_cache(maxsize=256)
def weight_format(name: str) -> DType:
    """Number format of a line, or of a line with its group size: `w4a16-g64`.

    Raises InputError for a name that is no line, and for a group of a line that has none.
    """
    table, word = weight_format_table(), ALIASES.get(name, name)
    if word in table:
        return _dtype(word, table[word], None)
    match = _GROUPED.fullmatch(word)
    line = ALIASES.get(match["line"], match["line"]) if match else ""
    if match is None or line not in table:
        raise InputError(unknown_name("weight format", name, table))
    group = int(match["group"])
    if not table[line].grouped:
        raise InputError(
            f"weight format {name!r} names a group of {group}, but {line} has none "
            f"({table[line].about}); leave -g{group} out"
        )
    if not 1 <= group <= LARGEST_GROUP:
        raise InputError(
            f"weight format {name!r} has groups of {group:,} weights, expected 1 to "
            f"{LARGEST_GROUP:,}"
        )
    return _dtype(line, table[line], group)


def grouped_name(line: str, group: int | None) -> str:
    """Name of a line with a group size; the line alone where that is its own.

    Raises InputError for a size that no group has.
    """
    own = weight_format_table()[line]
    if group is None or not own.grouped or group == own.columns:
        return line
    if isinstance(group, bool) or not 1 <= group <= LARGEST_GROUP:
        raise InputError(f"a group has {group} weights, expected 1 to {LARGEST_GROUP:,}")
    return f"{line}-g{group}"


def _dtype(name: str, line: WeightFormat, group: int | None) -> DType:
    columns = line.columns if group is None else group
    if columns is None:
        return DType(grouped_name(name, group), line.bits, line.math)
    width = WHOLE_ROW if columns == "row" else int(columns)
    return DType(
        grouped_name(name, group), line.bits, line.math, (line.rows, width), line.scale_bits
    )
