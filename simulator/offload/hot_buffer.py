"""The buffer of one request and layer: entries used longest ago leave first, step by step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class HotBuffer:
    """Entries on the device; all picks of a step count as used at once.

    A step is as in SGLang's HiSparse: hit test of all picks, then the reordering, then the copies,
    for which the entries used longest ago leave (of those used in one step the first to have come).
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._held: Ids = np.empty(0, dtype=np.int64)
        self._used: Ids = np.empty(0, dtype=np.int64)
        self._clock = 0

    def __len__(self) -> int:
        return len(self._held)

    def use(self, picks: Ids) -> int:
        """Have these distinct picks in the buffer; returns how many were not."""
        assert len(picks) <= self.capacity, "the picks of a step must fit the buffer"
        self._clock += 1
        self._used[np.isin(self._held, picks)] = self._clock
        missing = picks[~np.isin(picks, self._held)]
        self._held = np.concatenate([self._held, missing])
        self._used = np.concatenate([self._used, np.full(len(missing), self._clock)])
        excess = len(self._held) - self.capacity
        if excess > 0:
            stay = np.sort(np.argsort(self._used, kind="stable")[excess:])
            self._held, self._used = self._held[stay], self._used[stay]
        return len(missing)


def misses_by_query(queries: Iterable[Ids], capacity: int, visible: Iterable[int]) -> Ids:
    """Misses [queries] of one request's picks [k] (-1: none) in order, from an empty buffer.

    `visible`: entries that exist at each query. Those made since the query before are in the
    buffer: a layer writes a new entry there, and its copy to the host follows.
    """
    buffer, known, misses = HotBuffer(capacity), None, []
    for picks, exist in zip(queries, visible, strict=True):
        for first in range(known if known is not None else exist, exist, capacity):
            buffer.use(np.arange(first, min(exist, first + capacity)))
        known = exist
        misses.append(buffer.use(picks[picks >= 0]))
    return np.array(misses, dtype=np.int64)
