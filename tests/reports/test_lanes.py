"""Slices of one track follow one another, also after rounding down."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from reports.perfetto import lanes_of


def test_what_follows_stays_on_one_lane() -> None:
    assert lanes_of([(5, 9), (0, 5), (9, 9), (9, 12)]) == [[1, 0, 2, 3]]


def test_what_overlaps_gets_another() -> None:
    assert lanes_of([(0, 10), (2, 4), (4, 12)]) == [[0], [1, 2]]


@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 3000)), max_size=30))
def test_no_lane_overlaps_in_whole_nanoseconds(rows: list[tuple[int, int]]) -> None:
    intervals = [(start, start + length) for start, length in rows]
    lanes = lanes_of(intervals)
    assert sorted(index for lane in lanes for index in lane) == list(range(len(intervals)))
    for lane in lanes:
        ends = [(intervals[i][0] // 1000, intervals[i][1] // 1000) for i in lane]
        assert all(a[1] <= b[0] for a, b in pairwise(ends))
