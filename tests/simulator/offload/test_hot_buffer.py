"""The buffer against a plain list in order of use."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.offload.misses import HotBuffer, misses_by_query


class PlainBuffer:
    """Entries from the one used longest ago to the newest, those of a step by arrival."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.arrived: list[int] = []
        self.used: dict[int, int] = {}
        self.step = 0

    def use(self, picks: list[int]) -> int:
        self.step += 1
        missing = [p for p in picks if p not in self.used]
        self.arrived += missing
        for pick in picks:
            self.used[pick] = self.step
        while len(self.used) > self.capacity:
            oldest = min(self.used.values())
            victim = next(p for p in self.arrived if self.used[p] == oldest)
            self.arrived.remove(victim)
            del self.used[victim]
        return len(missing)


@given(
    st.lists(st.lists(st.integers(0, 20), min_size=0, max_size=5, unique=True), max_size=30),
    st.integers(5, 12),
)
@settings(max_examples=200)
def test_misses_are_those_of_a_plain_list(steps: list[list[int]], capacity: int) -> None:
    ours, plain = HotBuffer(capacity), PlainBuffer(capacity)
    for picks in steps:
        assert ours.use(np.array(picks, dtype=np.int64)) == plain.use(picks)
        assert len(ours) == len(plain.used) <= capacity


@given(st.lists(st.lists(st.integers(0, 20), max_size=5, unique=True), max_size=20))
@settings(max_examples=100)
def test_a_larger_buffer_never_misses_more(steps: list[list[int]]) -> None:
    queries = [np.array(picks, dtype=np.int64) for picks in steps]
    totals = [
        int(misses_by_query(queries, capacity, [21] * len(queries)).sum())
        for capacity in (5, 8, 13, 21)
    ]
    assert totals == sorted(totals, reverse=True)


def test_hits_and_evictions_by_hand() -> None:
    queries = [np.array(q) for q in ([0, 1], [1, 2], [2, 3], [0, 3], [4, -1])]
    # A buffer of three: 0 1 | 0 1 2 | 1 leaves after 0: 1 2 3 | 0 again a miss | 4 a miss.
    assert misses_by_query(queries, 3, [10] * 5).tolist() == [2, 1, 1, 1, 1]


def test_new_entries_are_in_the_buffer() -> None:
    queries = [np.array(q) for q in ([0, 1], [0, 5], [6, 7])]
    assert misses_by_query(queries, 4, [5, 6, 8]).tolist() == [2, 0, 0]
    assert misses_by_query(queries, 4, [8, 8, 8]).tolist() == [2, 1, 2]
