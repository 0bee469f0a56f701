"""Intervals onto tracks on which they never overlap.

A timeline draws one track a lane, and a slice may not begin before the one ahead of it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence


def lanes_of(intervals: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Indexes of (start, end) intervals by lane, each lane in order of time.

    The first lane takes all that follow one another; only what overlaps needs another one.
    """
    order = sorted(range(len(intervals)), key=lambda i: intervals[i])
    lanes: list[list[int]] = []
    ends: list[int] = []
    for index in order:
        start, end = intervals[index]
        for lane, busy_until in enumerate(ends):
            if start >= busy_until:
                lanes[lane].append(index)
                ends[lane] = end
                break
        else:
            lanes.append([index])
            ends.append(end)
    return lanes
