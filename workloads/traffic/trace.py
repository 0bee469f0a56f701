"""A request trace in columns: arrivals, lengths, and the block ids of every prompt as ranges.

Block ids stand for the prompt's text: equal leading ids mean an equal prefix. They are kept as runs
of consecutive ids, so that a prompt of a million tokens is a few numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

NO_TIME = -1
NO_REQUEST = -1
# Ids of a session-private trace are offset by this times the session number, so that equal ids of
# two sessions stay apart.
SESSION_STRIDE = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """N requests in order of arrival (or of the file, where nothing arrives by the clock).

    `arrival_ns` [N]: absolute arrival, or -1 where the request follows its parent's reply.
    `delay_ns` [N]: wait after the parent's reply (think or tool time); 0 where arrival is absolute.
    `input_tokens`, `output_tokens` [N].
    `session` [N]: dense session number. `parent` [N]: request whose reply must come first, or -1.
    `run_offsets` [N + 1], `run_first`, `run_count`: runs of block ids of request i are
    `run_offsets[i]:run_offsets[i + 1]`. Ids are unique over the whole trace (private ids are moved
    apart by SESSION_STRIDE). `block_tokens` is 0 where the trace has no ids.
    `observed_cached_tokens` [N]: cached tokens that the source measured, or None.
    `start_ns` [N]: recorded start of a request from its session's, -1 where it follows from waits.
    `tenant` [N]: place of its tenant in `tenants`, whose block ids are its own; None for one.
    `warm_up`: requests that fill a cache first and are left out of its figures. `order`: how
    requests were put in order, where it is not that of the source.
    `notes`: a sentence for all that was dropped, rounded, sorted or spread. `format`: the source's.
    """

    name: str
    block_tokens: int
    arrival_ns: Ints
    delay_ns: Ints
    input_tokens: Ints
    output_tokens: Ints
    session: Ints
    parent: Ints
    run_offsets: Ints
    run_first: Ints
    run_count: Ints
    observed_cached_tokens: Ints | None = None
    start_ns: Ints | None = None
    tenant: Ints | None = None
    tenants: tuple[str, ...] = ()
    warm_up: int = 0
    order: str = ""
    notes: tuple[str, ...] = ()
    format: str = ""

    def __len__(self) -> int:
        return len(self.input_tokens)

    def runs(self, request: int) -> Ints:
        """Runs of a request's block ids [runs, 2]: first id and count."""
        span = slice(self.run_offsets[request], self.run_offsets[request + 1])
        return np.stack([self.run_first[span], self.run_count[span]], axis=1)

    def block_ids(self, request: int) -> Ints:
        """All block ids of a request, expanded; the last block may be partial."""
        return expand_runs(self.runs(request))

    def head(self, count: int) -> Trace:
        """The first `count` requests; those whose parent is among them stay linked."""
        taken = self.take(np.arange(min(count, len(self))))
        text = f"only the first {len(taken):,} of {len(self):,} requests"
        return replace(taken, notes=(*self.notes, text))

    def take(self, rows: Ints) -> Trace:
        """Some requests in the order of `rows`; one whose parent is not before it has none."""
        place = np.full(len(self) + 1, NO_REQUEST, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        parent = place[self.parent[rows]]
        parent[parent >= np.arange(len(rows))] = NO_REQUEST
        lengths = np.diff(self.run_offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        runs = np.repeat(self.run_offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        observed, start, tenant = self.observed_cached_tokens, self.start_ns, self.tenant
        return replace(
            self,
            arrival_ns=self.arrival_ns[rows],
            delay_ns=self.delay_ns[rows],
            input_tokens=self.input_tokens[rows],
            output_tokens=self.output_tokens[rows],
            session=np.unique(self.session[rows], return_inverse=True)[1].astype(np.int64),
            parent=parent,
            run_offsets=offsets,
            run_first=self.run_first[runs],
            run_count=self.run_count[runs],
            observed_cached_tokens=None if observed is None else observed[rows],
            start_ns=None if start is None else start[rows],
            tenant=None if tenant is None else tenant[rows],
        )

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return int(self.session.max()) + 1 if len(self) else 0


def expand_runs(runs: Ints) -> Ints:
    """Ids of runs [n, 2] one by one."""
    if not len(runs):
        return np.empty(0, dtype=np.int64)
    return np.concatenate([np.arange(first, first + count) for first, count in runs])


def as_runs(ids: Sequence[int] | Ints) -> Ints:
    """Runs [n, 2] of consecutive ids."""
    array = np.asarray(ids, dtype=np.int64)
    if not len(array):
        return np.empty((0, 2), dtype=np.int64)
    starts = np.flatnonzero(np.diff(array, prepend=array[0] - 2) != 1)
    counts = np.diff(starts, append=len(array))
    return np.stack([array[starts], counts], axis=1)


def pack_runs(requests: Iterable[Ints]) -> tuple[Ints, Ints, Ints]:
    """Offsets, first ids and counts of the runs of many requests."""
    parts = list(requests)
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    joined = np.concatenate(parts) if parts else np.empty((0, 2), dtype=np.int64)
    return offsets, np.ascontiguousarray(joined[:, 0]), np.ascontiguousarray(joined[:, 1])
