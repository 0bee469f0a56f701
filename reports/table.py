"""Tables of exact values: typed columns with units, on their way to a frame, CSV or Parquet.

Picoseconds, bytes and FLOP are int64 from end to end; a number that does not fit is refused.
"""

from __future__ import annotations

import csv
import io
import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simulator.basis.atomic import write_bytes, write_text

if TYPE_CHECKING:
    import pandas as pd

ColumnType = Literal["string", "int64", "float64"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: `unit` as text (`ps`, `B`, `FLOP`), empty for names."""

    name: str
    type: ColumnType
    values: Sequence[Any]
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns of equal length, and what they are about: text by name, such as the question."""

    columns: tuple[Column, ...]
    about: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert len({len(column.values) for column in self.columns}) <= 1, "columns differ in length"
        names = [column.name for column in self.columns]
        assert len(set(names)) == len(names), f"a column name occurs twice in {names}"

    @property
    def units(self) -> dict[str, str]:
        """Unit by column name, of the columns that have one."""
        return {column.name: column.unit for column in self.columns if column.unit}

    def rows(self) -> list[tuple[Any, ...]]:
        """The table row by row."""
        return list(zip(*(column.values for column in self.columns), strict=True))


def to_frame(table: Table) -> pd.DataFrame:
    """The table as a DataFrame; `attrs` holds what it is about and the units."""
    import numpy as np
    import pandas as pd

    arrays: dict[str, object] = {}
    for column in table.columns:
        is_text = column.type == "string"
        values = np.array(column.values, dtype=object) if is_text else np.array(_numbers(column))
        arrays[column.name] = values
    frame = pd.DataFrame(arrays)
    frame.attrs.update(table.about)
    frame.attrs["units"] = table.units
    return frame


def write_csv(path: Path | str, table: Table) -> None:
    """The table as CSV with a header line; units are in the column names."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    writer.writerows(table.rows())
    write_text(path, text.getvalue())


def write_parquet(path: Path | str, table: Table) -> None:
    """The table as Parquet: integers stay int64.

    The file's metadata holds `about` under `v4sim.<name>` and the units under `v4sim.units`;
    every column with a unit has it as its own metadata, too.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            pa.field(column.name, getattr(pa, column.type)(), nullable=False).with_metadata(
                {"unit": column.unit}
            )
            for column in table.columns
        ],
        metadata={
            **{f"v4sim.{name}": text for name, text in table.about.items()},
            "v4sim.units": json.dumps(table.units),
        },
    )
    arrays = [_arrow_array(column) for column in table.columns]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), buffer, compression="zstd")
    write_bytes(path, buffer.getvalue())


def _arrow_array(column: Column) -> Any:
    """The column's values as Arrow buffers; `pyarrow.array` would load pandas to look at a list."""
    import pyarrow as pa

    if column.type == "string":
        texts = [str(value).encode() for value in column.values]
        offsets = pa.py_buffer(array("i", accumulate(map(len, texts), initial=0)))
        return pa.StringArray.from_buffers(len(texts), offsets, pa.py_buffer(b"".join(texts)))
    numbers = pa.py_buffer(_numbers(column))
    arrow_type = getattr(pa, column.type)()
    return pa.Array.from_buffers(arrow_type, len(column.values), [None, numbers])


def _numbers(column: Column) -> array[Any]:
    """A typed array: it refuses a float among integers, and an integer beyond 64 bits."""
    return array("q" if column.type == "int64" else "d", column.values)
