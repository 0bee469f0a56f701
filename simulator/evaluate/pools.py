"""Storage of the cache regions: packed bytes in physical slots, found through the tables.

A fresh slot holds 0xFF in every byte, which reads as NaN in every float format that has one, so a
read of something never written shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.evaluate.request_table import RequestTable
from workloads.entry_format import EntryFormat
from workloads.op import Array
from workloads.state_layout import Every, Region


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access of a node to slots of a pool, for one request."""

    path: str
    region: str
    row: int
    slots: NDArray[np.int64]
    write: bool


class RegionPool:
    """All slots of one region of one layer, as bytes [slots, entry bytes]."""

    def __init__(self, region: Region, entry: EntryFormat, table: RequestTable) -> None:
        self.region = region
        self.format = entry
        self.table = table
        growth = region.growth
        slots = (
            table.token_slots // growth.tokens
            if isinstance(growth, Every)
            else table.rows * growth.tokens
        )
        self.data = np.full((slots, entry.nbytes), 0xFF, dtype=np.uint8)

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return self.data.nbytes

    def slots(self, row: int, entries: Array) -> NDArray[np.int64]:
        """Physical slots of logical entries: through the token map, or round the row's ring."""
        growth = self.region.growth
        if isinstance(growth, Every):
            return self.table.request_to_token[row, entries * growth.tokens] // growth.tokens
        return row * growth.tokens + entries % growth.tokens


class BoundRegion:
    """A pool as one node of one step sees it (`workloads.op.CacheRegion`)."""

    def __init__(
        self, pool: RegionPool, rows: NDArray[np.int64], path: str, log: list[Access] | None
    ) -> None:
        self._pool = pool
        self._rows = rows
        self._path = path
        self._log = log

    def read(self, request: int, entries: Array) -> Array:
        """Values [entries, dim]."""
        slots = self._slots(request, entries, write=False)
        return self._pool.format.decode(self._pool.data[slots])

    def write(self, request: int, entries: Array, values: Array) -> None:
        """Round, pack and store."""
        slots = self._slots(request, entries, write=True)
        self._pool.data[slots] = self._pool.format.encode(values)

    def rounded(self, values: Array) -> Array:
        """Rotated where the format rotates, then through the format and back."""
        entry = self._pool.format
        return entry.decode(entry.encode(entry.rotate(values))).astype(values.dtype, copy=False)

    def _slots(self, request: int, entries: Array, write: bool) -> NDArray[np.int64]:
        row = int(self._rows[request])
        slots = self._pool.slots(row, entries)
        if self._log is not None:
            region = self._pool.region.name
            self._log.append(
                Access(path=self._path, region=region, row=row, slots=slots, write=write)
            )
        return slots
