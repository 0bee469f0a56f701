"""Misses of the hot buffer: from stated statistics in closed form, or from recorded picks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workloads.run_stats import RecordedChoices

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


class Misses(Protocol):
    """How often a pick is not in the buffer."""

    def a_query(self, entries: int, top_k: int, buffer_entries: int) -> float:
        """Expected misses of one query of one request and layer, the buffer being warm.

        `entries` exist, of which `top_k` (all, if there are fewer) are picked.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedMisses:
    """Picks that move at random.

    Assumes: of a query's picks the share `overlap` (by default 0.95: adjacent decode steps of V4
        were measured at 95 % or more, vLLM pull 51209) are those of the query before, and each of
        them is as likely to leave.
    Assumes: of the picks that come in, the share `returns` are drawn from the `return_entries`
        entries that left last, the others from all entries that are not picked. By default none
        return sooner than by chance, since no recording of V4's picks was found: an upper bound of
        the misses at that overlap.
    """

    overlap: float
    returns: float = 0.0
    return_entries: int = 1

    def a_query(self, entries: int, top_k: int, buffer_entries: int) -> float:
        """(1 - overlap) k picks come in; what left last and is still buffered is a hit.

        Besides the k picks the buffer holds the g = buffer - k entries that left last. A pick from
        anywhere is one of them with chance g / (entries - k), a returning one with g / return
        entries.
        """
        others = entries - top_k
        if others <= 0:
            return 0.0
        kept = min(buffer_entries, entries) - top_k
        recent = min(self.return_entries, others)
        hit = self.returns * min(1.0, kept / recent) + (1 - self.returns) * kept / others
        return (1 - self.overlap) * top_k * (1 - hit)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMisses:
    """Picks of a run, replayed through a buffer that is exactly least recently used.

    Assumes: the last query of a request has `context_tokens` of context and the others one token
        less each; the first half of a request's queries warms the buffer and does not count.
    Assumes: at other contexts the same share of picks misses as at the recorded one.
    """

    choices: RecordedChoices
    context_tokens: int
    ratio: int = 4

    def a_query(self, entries: int, top_k: int, buffer_entries: int) -> float:
        """Mean over queries, requests and layers, as a share of the picks, times top-k."""
        if entries <= min(top_k, buffer_entries):
            return 0.0
        return top_k * _replayed(self, buffer_entries)

    @property
    def overlap(self) -> float:
        """Share of its picks that a query has in common with the one before."""
        found = self.choices.overlap()
        return 1.0 if found is None else found

    @property
    def counted_overlap(self) -> float:
        """The same over the queries that count."""
        shares = [
            len(np.intersect1d(before[before >= 0], after[after >= 0])) / (after >= 0).sum()
            for queries in self.choices.queries()
            for before, after in pairwise(queries[len(queries) // 2 - 1 :])
        ]
        return float(np.mean(shares))

    def share(self, buffer_entries: int) -> float:
        """Share of picks that miss."""
        return _replayed(self, buffer_entries)


@lru_cache(maxsize=64)
def _replayed(recorded: RecordedMisses, buffer_entries: int) -> float:
    missed = picked = 0
    for queries in recorded.choices.queries():
        count = len(queries)
        tokens = recorded.context_tokens - np.arange(count - 1, -1, -1)
        by_query = misses_by_query(queries, buffer_entries, map(int, tokens // recorded.ratio))
        missed += int(by_query[count // 2 :].sum())
        picked += int((queries[count // 2 :] >= 0).sum())
    return missed / picked


def implied_returns(
    missed_share: float, overlap: float, *, entries: int, top_k: int, buffer_entries: int
) -> float:
    """Share of incoming picks that return from the last buffer - k left, which explains the misses.

    From 0 (as by chance, or rarer) to 1.
    """
    kept, others = min(buffer_entries, entries) - top_k, entries - top_k
    incoming = 1 - overlap
    if kept <= 0 or kept >= others or incoming <= 0:
        return 0.0
    by_chance = kept / others
    hit = 1 - missed_share / incoming
    return min(1.0, max(0.0, (hit - by_chance) / (1 - by_chance)))
