"""The packed batch in logical terms: which rows belong to which request, and where they stand.

Rows of all requests are packed one after the other: request i owns rows
`boundaries[i]:boundaries[i+1]`, at positions `past[i] ...`. Physical tables (request-pool rows,
page tables, slots) belong to the evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.step_shape import StepShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Packed rows of one step.

    `token_ids` [tokens], `positions` [tokens], `boundaries` [requests + 1], `past` [requests],
    `lengths` [requests] = past + new. `next_ids` are wanted by draft (MTP) layers only: [tokens],
    or [layers, tokens] where there are several, the k-th of which reads the ids k + 1 ahead.
    `draft_from` [requests] is the first position whose rows a draft head's windows hold: later than
    0 where a request goes on from a prefix that was restored without them.
    """

    token_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    boundaries: NDArray[np.int64]
    past: NDArray[np.int64]
    next_ids: NDArray[np.int64] | None = None
    draft_from: NDArray[np.int64] | None = None

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each request after the step."""
        return self.past + np.diff(self.boundaries)

    @property
    def step(self) -> StepShape:
        """The shapes of this batch."""
        new = np.diff(self.boundaries)
        return StepShape(tuple((int(n), int(p)) for n, p in zip(new, self.past, strict=True)))

    def rows(self) -> Iterator[tuple[int, slice, int]]:
        """(request, its packed rows, its past tokens), in packed order."""
        for request, past in enumerate(self.past):
            start, stop = int(self.boundaries[request]), int(self.boundaries[request + 1])
            yield request, slice(start, stop), int(past)

    def emitted(self, ratio: int) -> list[range]:
        """Compressed entries that each request completes in this step."""
        return [
            range(int(past) // ratio, int(length) // ratio)
            for past, length in zip(self.past, self.lengths, strict=True)
        ]

    def entry_positions(self, ratio: int) -> NDArray[np.int64]:
        """Rotary position of every emitted entry, packed: the first token of its own block."""
        ids = [np.arange(r.start, r.stop, dtype=np.int64) for r in self.emitted(ratio)]
        return np.concatenate(ids) * ratio

    def entry_rows(self, ratio: int) -> Iterator[tuple[int, slice, range]]:
        """(request, its rows in a packed array of emitted entries, the entries)."""
        start = 0
        for request, entries in enumerate(self.emitted(ratio)):
            yield request, slice(start, start + len(entries)), entries
            start += len(entries)


def pack(requests: list[tuple[Any, int]], next_ids: list[Any] | None = None) -> Batch:
    """Pack (token ids, past tokens) of each request."""
    counts = [len(ids) for ids, _ in requests]
    past = np.array([p for _, p in requests], dtype=np.int64)
    boundaries = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    positions = [
        np.arange(p, p + n, dtype=np.int64) for n, (_, p) in zip(counts, requests, strict=True)
    ]
    return Batch(
        token_ids=np.concatenate([np.asarray(ids, dtype=np.int64) for ids, _ in requests]),
        positions=np.concatenate(positions),
        boundaries=boundaries,
        past=past,
        next_ids=None
        if next_ids is None
        else np.concatenate([np.asarray(ids, dtype=np.int64) for ids in next_ids], axis=-1),
    )
