"""The merged table of a sweep: one row a point, in the order of the grid."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.basis.atomic import write_bytes
from simulator.sweep.compute import Outcome
from simulator.sweep.grid import Axis, text_of
from simulator.sweep.parts import arrow_column
from simulator.sweep.point import Point
from simulator.sweep.row import Value


def merged_rows(
    axes: Sequence[Axis], points: Sequence[Point], outcomes: Mapping[str, Outcome]
) -> list[dict[str, Value]]:
    """Rows with the grid's fields by their dotted names, status, error and figures.

    Every row has all figures that some point has, None where it has not. A figure that is named
    like a field of the grid is called `run.<name>`.
    """
    fields = [axis.name for axis in axes]
    heads = (*fields, "status", "error", "part")
    figures = dict.fromkeys(n for point in points for n in outcomes[point.digest].row)
    names = {name: f"run.{name}" if name in heads else name for name in figures}
    rows: list[dict[str, Value]] = []
    for point in points:
        outcome = outcomes[point.digest]
        row: dict[str, Value] = {
            name: _cell(value) for name, value in zip(fields, point.values, strict=True)
        }
        row |= {"status": outcome.status, "error": outcome.error, "part": outcome.digest}
        row |= {shown: outcome.row.get(name) for name, shown in names.items()}
        rows.append(row)
    return rows


def write_merged(path: Path, rows: Sequence[Mapping[str, Value]], about: Mapping[str, Any]) -> None:
    """Write the rows as one Parquet file, `about` in its metadata as `v4sim.sweep`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(rows[0])
    table = pa.Table.from_arrays(
        [arrow_column([row[name] for row in rows]) for name in names], names=names
    ).replace_schema_metadata({"v4sim.sweep": json.dumps(about, sort_keys=True)})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_bytes(path, buffer.getvalue())


def _cell(value: Any) -> Value:
    return value if value is None or isinstance(value, bool | int | float) else text_of(value)
