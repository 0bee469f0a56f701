"""Bytes of a stored cache row by format name, derived from bits, scales and padding."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.basis.errors import InputError, unknown_name
from simulator.basis.whole import ceil_div, round_up
from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml

Whole = Annotated[int, Field(gt=0)]
_FILE = Path(__file__).parent / "entry_bytes.yaml"


class RowFormat(StrictModel):
    """One row: `bits` a value, `rope_bits` a rotary value (default: the same), scales, padding."""

    bits: Whole
    rope_bits: Whole | None = None
    group: Whole | None = None
    scale_bytes: Whole | None = None
    pad_bytes: Whole = 1
    source: Annotated[str, Field(min_length=1)]

    def nbytes(self, values: int, rope: int = 0) -> int:
        """Bytes of a row of `values` values, `rope` of them rotary."""
        wide = rope if self.rope_bits is not None else 0
        narrow = values - wide
        bits = narrow * self.bits + wide * (self.rope_bits or 0)
        scales = ceil_div(narrow, self.group) * (self.scale_bytes or 0) if self.group else 0
        return round_up(ceil_div(bits, 8) + scales, self.pad_bytes)

    def scaled_values(self, values: int, rope: int = 0) -> int:
        """Values of a row stored with scales, narrower than they are multiplied."""
        return values - (rope if self.rope_bits is not None else 0) if self.bits < 16 else 0


class RowFormats(StrictModel):
    """All formats that ship, by name."""

    formats: dict[str, RowFormat]


@cache
def row_formats() -> dict[str, RowFormat]:
    """Formats by name."""
    return load_yaml(_FILE, RowFormats).formats


def find_row_format(name: str) -> RowFormat:
    """Format by name, or an error that lists the known."""
    known = row_formats()
    if name not in known:
        raise InputError(unknown_name("row format", name, known))
    return known[name]


def check_row_format(keys: tuple[str, ...], name: str | None) -> None:
    """For validators of schemas: refuses a name that is not a row format, at the key given."""
    if name is not None and name not in row_formats():
        raise KeyFaultError(keys, unknown_name("row format", name, row_formats()))
