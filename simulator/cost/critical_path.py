"""Which launch the end of the step waits for at each instant: a partition of the step's time.

Walking back from the end, the launch that ended last is what the next one waited for; where none
ran, the step waited for launches. The parts add up to the step, to the picosecond.

Assumes: a launch waits for the one that ended last before it started, on whatever stream.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.cost.result import KernelRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalSpan:
    """A stretch of the step that one launch decides; `kernel` None where no launch ran."""

    kernel: int | None
    start_ps: int
    end_ps: int

    @property
    def duration_ps(self) -> int:
        """Length of the stretch."""
        return self.end_ps - self.start_ps


def critical_path(kernels: Sequence[KernelRecord], total_ps: int) -> tuple[CriticalSpan, ...]:
    """Spans that cover the step from 0 to `total_ps` without overlap, in order of time."""
    # A launch of no length decides no instant, and would stop the walk.
    order = [i for i, kernel in enumerate(kernels) if kernel.duration_ps > 0]
    order.sort(key=lambda i: kernels[i].end_ps)
    ends = [kernels[i].end_ps for i in order]
    assert not ends or ends[-1] <= total_ps, "a launch ends after the step"
    assert all(kernels[i].start_ps >= 0 for i in order), "a launch starts before the step"
    spans: list[CriticalSpan] = []
    now, stream = total_ps, None
    while now > 0:
        after = bisect_right(ends, now)
        if after == 0:
            spans.append(CriticalSpan(kernel=None, start_ps=0, end_ps=now))
            break
        end = ends[after - 1]
        if end < now:
            spans.append(CriticalSpan(kernel=None, start_ps=end, end_ps=now))
        latest = _latest(kernels, order[bisect_left(ends, end, 0, after) : after], stream)
        now, stream = kernels[latest].start_ps, kernels[latest].stream
        spans.append(CriticalSpan(kernel=latest, start_ps=now, end_ps=end))
    return tuple(reversed(spans))


def critical_ps_of(kernels: Sequence[KernelRecord], total_ps: int) -> tuple[list[int], int]:
    """Time that each launch decides, and the time between launches; together the step."""
    of_kernel, between = [0] * len(kernels), 0
    for span in critical_path(kernels, total_ps):
        if span.kernel is None:
            between += span.duration_ps
        else:
            of_kernel[span.kernel] += span.duration_ps
    return of_kernel, between


def _latest(kernels: Sequence[KernelRecord], ties: list[int], stream: int | None) -> int:
    """Of launches that end together: one on the waiting stream, then the longest."""
    return max(ties, key=lambda i: (kernels[i].stream == stream, kernels[i].duration_ps, -i))
