"""Packed-batch metadata of one step, as attention kernels take it.

Example: requests in rows 5 and 9 add 6 tokens (past 0) and 3 tokens (past 3): query ends [6, 9],
boundaries [0, 6, 9], sequence lengths [6, 6].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from simulator.cache.pool_spec import TOKEN
from simulator.evaluate.request_table import RequestTable
from workloads.batch import Batch, pack

Ints = NDArray[np.int64]
TokenIds = Sequence[int] | Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetadata:
    """Tables of one step; R requests, T packed rows.

    `request_rows` [R] are request-pool indices; `page_tables` [R, pages], -1 padded;
    `token_slots` [T] are the slots that the packed rows fill. `pool_page_tables` are those of the
    compressed pools that have pages of their own.
    """

    batch: Batch
    request_rows: Ints
    page_tables: Ints
    token_slots: Ints
    pool_page_tables: Mapping[str, Ints]

    @property
    def boundaries(self) -> Ints:
        """Query boundaries [R + 1]."""
        return self.batch.boundaries

    @property
    def query_ends(self) -> Ints:
        """Packed row after each request's last [R]."""
        return self.batch.boundaries[1:]

    @property
    def lengths(self) -> Ints:
        """Sequence lengths after the step [R]."""
        return self.batch.lengths

    @property
    def positions(self) -> Ints:
        """Position of every packed row [T]."""
        return self.batch.positions


def build_metadata(
    table: RequestTable,
    additions: Sequence[tuple[int, TokenIds]],
    next_ids: Sequence[TokenIds] | None = None,
) -> StepMetadata:
    """Extend each (row, new token ids) in the table, all or none, and pack the step."""
    rows = [row for row, _ in additions]
    if len(set(rows)) != len(rows):
        raise InputError(f"a request may appear once in a step, but rows {rows} were given")
    for row, ids in additions:
        if len(ids) == 0:
            raise InputError(f"row {row} adds no token; leave it out of the step")
    table.extend_all([(row, len(ids)) for row, ids in additions])
    past = [int(table.lengths[row]) - len(ids) for row, ids in additions]
    batch = pack(
        [(ids, p) for (_, ids), p in zip(additions, past, strict=True)],
        None if next_ids is None else list(next_ids),
    )
    owner = np.repeat(np.array(rows), np.diff(batch.boundaries))
    return StepMetadata(
        batch=batch,
        request_rows=np.array(rows, dtype=np.int64),
        page_tables=_padded([table.page_table(row) for row in rows]),
        token_slots=table.request_to_token[owner, batch.positions],
        pool_page_tables={
            pool: _padded([table.page_table(row, pool) for row in rows])
            for pool in table.allocator.tables
            if pool != TOKEN
        },
    )


class MetadataError(AssertionError):
    """Metadata that contradict the tables they were made from."""


def check_metadata(table: RequestTable, metadata: StepMetadata) -> None:
    """Raise MetadataError where a step's metadata contradict each other or the request table.

    Boundaries, lengths, positions and slots all say where packed rows stand; two requests never
    write to one slot.
    """
    batch, rows = metadata.batch, metadata.request_rows
    new = np.diff(batch.boundaries)
    known = table.lengths[rows]
    _hold(batch.boundaries[0] == 0 and (new > 0).all(), "boundaries do not ascend from 0")
    _hold(batch.boundaries[-1] == len(batch.positions), "boundaries do not end at the last row")
    _hold(
        np.array_equal(metadata.lengths, known),
        f"lengths {metadata.lengths.tolist()} are stale: the table has {known.tolist()}",
    )
    wanted = [np.arange(p, p + n) for p, n in zip(batch.past, new, strict=True)]
    _hold(np.array_equal(batch.positions, np.concatenate(wanted)), "positions do not follow past")
    owner = np.repeat(rows, new)
    slots = table.request_to_token[owner, batch.positions]
    _hold(np.array_equal(metadata.token_slots, slots), "slots are not those of the request's rows")
    _hold(len(np.unique(slots)) == len(slots), "two packed rows write to one slot")
    for row, pages in zip(rows, metadata.page_tables, strict=True):
        own = table.page_table(int(row))
        _hold(np.array_equal(pages[: len(own)], own), f"page table of row {row} is another's")


def _hold(law: object, sentence: str) -> None:
    if not law:
        raise MetadataError(sentence)


def _padded(tables: Sequence[Ints]) -> Ints:
    """Tables of all requests [R, pages], -1 behind the shorter ones."""
    width = max(len(pages) for pages in tables)
    padded = np.full((len(tables), width), -1, dtype=np.int64)
    for row, pages in zip(padded, tables, strict=True):
        row[: len(pages)] = pages
    return padded
