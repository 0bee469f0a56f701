"""Block ids of many requests packed into runs of consecutive ids, from lists or from ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from simulator.basis.errors import FileFormatError
from workloads.traffic.trace import SESSION_STRIDE, Ints

# Lists wait until so many ids are together: numpy calls are few and memory stays small.
_PENDING_IDS = 1 << 20
_LARGEST = 1 << 62

Where = Callable[[int], str]


class IdRuns:
    """Collects the ids of request after request; `where(i)` names the place of request i.

    `offset` of an `add` call moves private ids apart; such ids must lie below SESSION_STRIDE.
    Ids that do not fit (hashes of 64 bits, negative ones) are numbered anew, `renumbered` of them.
    """

    def __init__(self, where: Where) -> None:
        self._where = where
        self._lists: list[Sequence[int]] = []
        self._offsets: list[int] = []
        self._private: list[bool] = []
        self._pending = 0
        self._parts: list[tuple[Ints, Ints, Ints]] = []  # runs per request, first ids, counts
        self._numbers: dict[int, int] = {}
        self.done = 0

    @property
    def renumbered(self) -> int:
        """Distinct ids that were numbered anew."""
        return len(self._numbers)

    def add_list(self, ids: Sequence[int], offset: int = 0, private: bool = False) -> None:
        """One request's ids, each written out."""
        self._lists.append(ids)
        self._offsets.append(offset)
        self._private.append(private)
        self._pending += len(ids)
        if self._pending > _PENDING_IDS:
            self._flush()

    def add_ranges(self, requests: Sequence[Any], offset: int = 0, private: bool = False) -> None:
        """Ids of several requests, each a list of inclusive [first, last] pairs."""
        self._flush()
        counts, pairs = self._pairs(requests)
        first, count = pairs[:, 0], pairs[:, 1] - pairs[:, 0] + 1
        owner = np.repeat(np.arange(len(requests)), counts)
        limit = SESSION_STRIDE if private else _LARGEST
        bad = (count < 1) | (first < 0) | (pairs[:, 1] >= limit)
        if bad.any():
            place = int(np.argmax(bad))
            raise FileFormatError(
                f"{self._where(self.done + int(owner[place]))}: id range {pairs[place].tolist()}, "
                f"expected [first, last] with 0 <= first <= last < {limit:,}"
            )
        self._take(counts, first + offset, count)

    def finish(self) -> tuple[Ints, Ints, Ints]:
        """`run_offsets` [N + 1], `run_first`, `run_count`; the collector is empty afterwards."""
        self._flush()
        parts, self._parts = self._parts, []
        none = np.empty(0, dtype=np.int64)
        runs = np.concatenate([part[0] for part in parts]) if parts else none
        first = np.concatenate([part[1] for part in parts]) if parts else none
        count = np.concatenate([part[2] for part in parts]) if parts else none
        return np.concatenate([[0], np.cumsum(runs, dtype=np.int64)]), first, count

    def _flush(self) -> None:
        """Turn waiting lists into runs: a run ends where the id does not go up by one."""
        lists, self._lists = self._lists, []
        offsets, self._offsets = self._offsets, []
        private, self._private = self._private, []
        self._pending = 0
        if not lists:
            return
        lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        flat = self._flat(lists, private)
        ends = np.cumsum(lengths)
        breaks = np.ones(len(flat), dtype=bool)
        breaks[1:] = np.diff(flat) != 1
        breaks[(ends - lengths)[lengths > 0]] = True
        starts = np.flatnonzero(breaks)
        counts = np.diff(starts, append=len(flat))
        owner = np.searchsorted(ends, starts, side="right")
        runs = np.bincount(owner, minlength=len(lists)).astype(np.int64)
        moved = flat[starts] + np.asarray(offsets, dtype=np.int64)[owner]
        self._take(runs, moved, counts)

    def _take(self, runs: Ints, first: Ints, count: Ints) -> None:
        self._parts.append((runs, first, count))
        self.done += len(runs)

    def _flat(self, lists: list[Sequence[int]], private: list[bool]) -> Ints:
        try:
            flat = np.array(list(chain.from_iterable(lists)))
        except (ValueError, OverflowError, TypeError):
            flat = np.empty(0, dtype=object)
            self._refuse(lists)
        if not len(flat):
            return np.empty(0, dtype=np.int64)
        if flat.dtype != np.int64:
            self._refuse(lists)
            return self._renumber(lists)
        if any(private) and (flat.min() < 0 or flat.max() >= SESSION_STRIDE):
            place = next(i for i, ids in enumerate(lists) if ids and not _small(ids))
            raise FileFormatError(
                f"{self._where(self.done + place)}: a private id outside 0 to {SESSION_STRIDE:,}; "
                "ids of a session are expected to count up from a small number"
            )
        if not any(private) and (flat.min() < 0 or flat.max() >= _LARGEST or self._numbers):
            return self._renumber(lists)
        return flat

    def _refuse(self, lists: list[Sequence[int]]) -> None:
        """Name the first id that is no whole number."""
        for place, ids in enumerate(lists):
            for item in ids:
                if type(item) is not int:
                    raise FileFormatError(
                        f"{self._where(self.done + place)}: block id {item!r} is "
                        f"{type(item).__name__}, expected a whole number"
                    )

    def _renumber(self, lists: list[Sequence[int]]) -> Ints:
        """Odd ids in order of appearance above _LARGEST; those that fit stay."""
        numbers = self._numbers
        return np.array(
            [
                item if 0 <= item < _LARGEST else _LARGEST + numbers.setdefault(item, len(numbers))
                for item in chain.from_iterable(lists)
            ],
            dtype=np.int64,
        )

    def _pairs(self, requests: Sequence[Any]) -> tuple[Ints, Ints]:
        counts = np.fromiter(map(len, requests), dtype=np.int64, count=len(requests))
        flat = list(chain.from_iterable(requests))
        try:
            pairs = np.array(flat) if flat else np.empty((0, 2), dtype=np.int64)
        except (ValueError, OverflowError):
            pairs = np.empty(0, dtype=object)
        if pairs.dtype == np.int64 and pairs.shape == (len(flat), 2):
            return counts, pairs
        for place, ranges in enumerate(requests):
            for pair in ranges:
                if type(pair) is not list or list(map(type, pair)) != [int, int]:
                    raise FileFormatError(
                        f"{self._where(self.done + place)}: id range {pair!r}, expected "
                        "[first, last] in whole numbers"
                    )
        place = max(range(len(requests)), key=lambda i: max(map(max, requests[i]), default=0))
        raise FileFormatError(
            f"{self._where(self.done + place)}: an id range above {_LARGEST:,}, too large"
        )


def _small(ids: Sequence[int]) -> bool:
    return min(ids) >= 0 and max(ids) < SESSION_STRIDE
