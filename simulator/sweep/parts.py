"""Results of a sweep on disk: one Parquet file a point, named by the hash of its inputs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.basis.atomic import remove_abandoned, write_bytes
from simulator.basis.errors import InputError
from simulator.sweep.compute import Outcome
from simulator.sweep.row import Value

_ARROW = {bool: "bool_", int: "int64", float: "float64", str: "string"}


@dataclass(frozen=True, slots=True)
class PartFolder:
    """A folder of parts; every part is whole or absent."""

    folder: Path

    def path(self, digest: str) -> Path:
        """Where a point's part is or will be."""
        return self.folder / f"{digest}.parquet"

    def make(self) -> None:
        """Make the folder."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make folder {self.folder}: {error.strerror}") from None

    def write(self, outcome: Outcome, inputs: str) -> None:
        """Write a part of one row; the canonical inputs are in its metadata as `v4sim.inputs`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        head = {"digest": outcome.digest, "status": outcome.status, "error": outcome.error}
        metadata = {"v4sim.inputs": inputs}
        columns = {**head, **{f"row.{name}": value for name, value in outcome.row.items()}}
        arrays = [arrow_column([value]) for value in columns.values()]
        table = pa.Table.from_arrays(arrays, names=list(columns)).replace_schema_metadata(metadata)
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        write_bytes(self.path(outcome.digest), buffer.getvalue())

    def read(self, digest: str) -> Outcome | None:
        """The point's outcome, or None where there is no part or it cannot be read."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.path(digest)
        if not path.is_file():
            return None
        try:
            # In this thread: one of Arrow's own that lets go of our bytes while an interrupted
            # command ends would abort it.
            file = pq.ParquetFile(io.BytesIO(path.read_bytes()), pre_buffer=False)
            (values,) = file.read(use_threads=False).to_pylist()
            if values.pop("digest") != digest:
                return None
            status, error = values.pop("status"), values.pop("error")
        except (OSError, ValueError, KeyError, pa.ArrowException):
            return None
        row = {name.removeprefix("row."): value for name, value in values.items()}
        return Outcome(digest=digest, status=status, error=error, row=row)

    def kept(self, digests: Iterable[str]) -> dict[str, Outcome]:
        """Outcomes that need not be computed again; a point that failed is."""
        found = {digest: self.read(digest) for digest in digests}
        return {d: o for d, o in found.items() if o is not None and o.status != "failed"}

    def clear_temporaries(self) -> None:
        """Remove what processes that were killed had not finished writing."""
        remove_abandoned(self.folder)


def arrow_column(values: list[Value]) -> Any:
    """Arrow array of values of one type, whole and broken numbers counting as broken ones.

    None becomes null; a column of nothing else is one of floats.
    """
    import pyarrow as pa

    types = {type(value) for value in values if value is not None}
    beyond = any(type(value) is int and not -(2**63) <= value < 2**63 for value in values)
    if types == {int, float} or (types == {int} and beyond):
        types = {float}
    kind = _ARROW[types.pop()] if len(types) == 1 else "string" if types else "float64"
    if kind == "string":
        values = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
    if kind == "float64":
        values = [None if v is None else float(v) for v in values]
    return pa.array(values, type=getattr(pa, kind)())
