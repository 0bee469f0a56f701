"""One packed row in one layer: slots written and read, tables that led there, what is not seen.

A query at position t sees positions t-window+1 .. t, itself included, and of m-fold compressed
entries those below (t+1)//m: all of them (HCA), or the indexer's top-k (CSA). Entries that a step
completes are written before its queries read. Source: DeepSeek's inference code, model.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulator.address.result import LayerAddress, Pick, PoolAccess, Run, Unseen
from simulator.cache.pool_spec import TOKEN
from simulator.evaluate.metadata import StepMetadata
from simulator.evaluate.request_table import RequestTable
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.layer_kinds import LayerAttention
from workloads.op import Array

Ints = NDArray[np.int64]

BEYOND = "beyond the window"
LATER = "later than the query"
INCOMPLETE = "not complete at this position"
NOT_PICKED = "visible, not in the top-k"


@dataclass(frozen=True)
class RowAddressing:
    """Addresses of one packed row."""

    config: ModelConfig
    table: RequestTable
    metadata: StepMetadata
    packed_row: int

    @cached_property
    def request(self) -> int:
        """Place of the row's request in the batch."""
        ends = self.metadata.query_ends
        return int(np.searchsorted(ends, self.packed_row, side="right"))

    @property
    def request_row(self) -> int:
        """Row of the request pool."""
        return int(self.metadata.request_rows[self.request])

    @property
    def position(self) -> int:
        """Position of the query."""
        return int(self.metadata.positions[self.packed_row])

    @property
    def past(self) -> int:
        """Tokens of the request before the step."""
        return int(self.metadata.batch.past[self.request])

    @property
    def context(self) -> int:
        """Tokens of the request after the step."""
        return int(self.metadata.lengths[self.request])

    def layer(self, layer: int, picked: tuple[Array, Sequence[Array]] | None) -> LayerAddress:
        """Everything in one layer; `picked` are ids and scores of its indexer, where it ran."""
        attention = self.config.layers[layer]
        ratio, pool = attention.ratio, attention.pool
        accesses, unseen, notes = self._window()
        pick = None
        if ratio:
            accesses += self._compressor(f"{pool}_state", attention)
            visible = (self.position + 1) // ratio
            ids: Ints | None = np.arange(visible)
            if attention.indexed:
                pick = self._pick(visible, picked)
                ids = None if pick.ids is None else np.array(pick.ids, dtype=np.int64)
                accesses += self._compressor(f"{pool}_index_state", attention)
                accesses += self._entries(f"{pool}_index", ratio, np.arange(visible))
                unseen += self._not_complete(f"{pool}_index", ratio)
            accesses += self._entries(pool, ratio, ids)
            unseen += self._not_complete(pool, ratio)
            if ids is not None and len(ids) < visible:
                left = np.setdiff1d(np.arange(visible), ids)
                unseen.append(
                    Unseen(pool=pool, unit="entry", reason=NOT_PICKED, ranges=_ranges(left))
                )
        first_own = max(self.past, self.position - self.config.sliding_window + 1)
        return LayerAddress(
            layer=layer,
            kind=attention.kind,
            ratio=ratio,
            accesses=tuple(accesses),
            own_positions=(first_own, self.position - first_own + 1),
            unseen=tuple(unseen),
            pick=pick,
            notes=tuple(notes),
        )

    def _window(self) -> tuple[list[PoolAccess], list[Unseen], list[str]]:
        window, t = self.config.sliding_window, self.position
        accesses, notes = [], []
        if self.context - t <= window:
            accesses.append(self._ring("window", window, np.array([t]), write=True))
        else:
            notes.append(
                f"its key is not written to the window ring: {self.context - t - 1} rows of the "
                f"same chunk follow, and the ring keeps {window}"
            )
        cached = np.arange(max(t - window + 1, 0), self.past)
        if len(cached):
            accesses.append(self._ring("window", window, cached, write=False))
        parts = (
            (BEYOND, np.arange(0, max(t - window + 1, 0))),
            (LATER, np.arange(t + 1, self.context)),
        )
        unseen = [
            Unseen(pool="window", unit="position", reason=reason, ranges=_ranges(positions))
            for reason, positions in parts
            if len(positions)
        ]
        return accesses, unseen, notes

    def _compressor(self, pool: str, attention: LayerAttention) -> list[PoolAccess]:
        """Rows of the compressor: its own kept, earlier ones read when it completes an entry."""
        ratio, t = attention.ratio, self.position
        tail = attention.halves * ratio
        accesses = []
        if self.context - t <= tail:
            accesses.append(self._ring(pool, tail, np.array([t]), write=True))
        if (t + 1) % ratio == 0:
            support = np.arange(max(t + 1 - tail, 0), self.past)
            if len(support):
                accesses.append(self._ring(pool, tail, support, write=False))
        return accesses

    def _entries(self, pool: str, ratio: int, read: Ints | None) -> list[PoolAccess]:
        """The entry that the row completes, and those it reads; None: not known."""
        accesses = []
        if (self.position + 1) % ratio == 0:
            own = np.array([self.position // ratio])
            accesses.append(self._paged(pool, ratio, own, write=True))
        if read is not None and len(read):
            accesses.append(self._paged(pool, ratio, read, write=False))
        return accesses

    def _not_complete(self, pool: str, ratio: int) -> list[Unseen]:
        first, last = (self.position + 1) // ratio, -(-self.context // ratio)
        if first == last:
            return []
        ranges = ((first, last - first),)
        return [Unseen(pool=pool, unit="entry", reason=INCOMPLETE, ranges=ranges)]

    def _pick(self, visible: int, picked: tuple[Array, Sequence[Array]] | None) -> Pick:
        top_k = self.config.index_topk
        if picked is None:
            ids = tuple(range(visible)) if visible <= top_k else None
            return Pick(visible=visible, top_k=top_k, ids=ids, scored=False)
        row_ids, scores = picked[0][self.packed_row], picked[1][self.packed_row]
        chosen = row_ids[row_ids >= 0]
        left = np.delete(scores, chosen)
        return Pick(
            visible=visible,
            top_k=top_k,
            ids=tuple(int(i) for i in chosen),
            scored=True,
            lowest_picked=float(scores[chosen].min()) if len(chosen) else None,
            best_left=float(left.max()) if len(left) else None,
        )

    def _ring(self, pool: str, length: int, positions: Ints, *, write: bool) -> PoolAccess:
        row = self.request_row
        slots = row * length + positions % length
        return PoolAccess(
            pool=pool,
            write=write,
            unit="position",
            table=f"state slot {row}: slot = {row} x {length} + position mod {length}",
            runs=_runs(positions, slots),
        )

    def _paged(self, pool: str, ratio: int, entries: Ints, *, write: bool) -> PoolAccess:
        row, allocator = self.request_row, self.table.allocator
        size = allocator.page_entries(pool)
        slots = allocator.entry_slots(pool, row, entries)
        own = pool in allocator.tables
        name = pool if own else TOKEN
        rule = f"page x {size} + entry mod {size}" if own else f"token slot // {ratio}"
        return PoolAccess(
            pool=pool,
            write=write,
            unit="entry",
            table=f"{name} page table of row {row}: slot = {rule}",
            runs=_runs(entries, slots, size),
        )


def _runs(entries: Ints, slots: Ints, page_entries: int | None = None) -> tuple[Run, ...]:
    """Runs of consecutive entries in consecutive slots, broken at pages."""
    broken = (np.diff(entries) != 1) | (np.diff(slots) != 1)
    if page_entries:
        broken |= entries[1:] % page_entries == 0
    starts = np.concatenate([[0], np.flatnonzero(broken) + 1])
    counts = np.diff(np.concatenate([starts, [len(entries)]]))
    runs = []
    for start, count in zip(starts, counts, strict=True):
        first, slot = int(entries[start]), int(slots[start])
        places = (first // page_entries, slot // page_entries) if page_entries else (None, None)
        runs.append(Run(first, int(count), slot, *places))
    return tuple(runs)


def _ranges(numbers: Ints) -> tuple[tuple[int, int], ...]:
    """Sorted numbers as (first, count) of consecutive ones."""
    return tuple((run.first, run.count) for run in _runs(numbers, numbers))
