"""Storage of the cache regions: packed bytes in physical slots, found through the tables.

A fresh slot holds 0xFF in every byte, which reads as NaN in every float format that has one, so a
read of something never written shows; a slot that is freed holds 0xFF again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.evaluate.request_table import RequestTable
from simulator.evaluate.window_pages import WindowPages
from workloads.entry_format import EntryFormat
from workloads.op import Array
from workloads.state_layout import Every, Region, Sliding


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access of a node to slots of a pool, for one request.

    `entries` are the logical indices (positions, in a ring), `slots` where they lie.
    """

    path: str
    region: str
    row: int
    entries: NDArray[np.int64]
    slots: NDArray[np.int64]
    write: bool


FRESH = 0xFF


class RegionPool:
    """All slots of one region of one layer, as bytes [slots, entry bytes]."""

    def __init__(
        self,
        region: Region,
        entry: EntryFormat,
        table: RequestTable,
        window: WindowPages | None = None,
    ) -> None:
        self.region = region
        self.format = entry
        self.table = table
        self.window = window if isinstance(region.growth, Sliding) else None
        slots = (
            self.window.slots
            if self.window is not None
            else table.allocator.pool_slots(region.pool)
            if self.compressed
            else table.rows * region.growth.tokens
        )
        self.data = np.full((slots, entry.nbytes), FRESH, dtype=np.uint8)

    @property
    def compressed(self) -> bool:
        """In pages and growing with the context; else in the row's state slot."""
        return isinstance(self.region.growth, Every)

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return self.data.nbytes

    def slots(self, row: int, entries: Array) -> NDArray[np.int64]:
        """Physical slots of logical entries: through the page tables, or round the row's ring."""
        if self.compressed:
            return self.table.allocator.entry_slots(self.region.pool, row, entries)
        if self.window is not None:
            return self.window.slots_of(row, entries)
        length = self.region.growth.tokens
        return row * length + entries % length


class PoolStorage:
    """The pools of one rank, as the allocator reaches them (its `Storage`)."""

    def __init__(self, pools: Mapping[str, RegionPool], table: RequestTable) -> None:
        self._pages: dict[str, list[RegionPool]] = {}
        self._state = [
            pool for pool in pools.values() if not pool.compressed and pool.window is None
        ]
        self._page_entries: dict[str, int] = {}
        for pool in pools.values():
            if pool.compressed:
                name = pool.region.pool
                self._pages.setdefault(name, []).append(pool)
                self._page_entries[name] = table.allocator.page_entries(name)

    def copy_page(self, pool: str, source: int, target: int, entries: int) -> None:
        """In every layer that has the pool."""
        size = self._page_entries.get(pool, 0)
        for one in self._pages.get(pool, ()):
            old, new = source * size, target * size
            one.data[new : new + entries] = one.data[old : old + entries]

    def copy_state(self, source: int, target: int) -> None:
        """Rings and tails of every layer."""
        for one in self._state:
            size = one.region.growth.tokens
            rows = one.data.reshape(-1, size, one.data.shape[1])
            rows[target] = rows[source]

    def forget_page(self, pool: str, page: int) -> None:
        """Fresh again."""
        size = self._page_entries.get(pool, 0)
        for one in self._pages.get(pool, ()):
            one.data[page * size : (page + 1) * size] = FRESH

    def forget_state(self, slot: int) -> None:
        """Fresh again."""
        for one in self._state:
            size = one.region.growth.tokens
            one.data[slot * size : (slot + 1) * size] = FRESH


def allocate_pools(
    regions: Mapping[str, Region],
    table: RequestTable,
    entry: Callable[[Region], EntryFormat],
    window: WindowPages | None = None,
) -> dict[str, RegionPool]:
    """A pool for every region, attached to the table's allocator: it copies and frees in them."""
    pools = {
        name: RegionPool(region, entry(region), table, window) for name, region in regions.items()
    }
    table.allocator.attach(PoolStorage(pools, table))
    return pools


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
                Access(
                    path=self._path,
                    region=region,
                    row=row,
                    entries=entries,
                    slots=slots,
                    write=write,
                )
            )
        return slots
