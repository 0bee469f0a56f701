"""How fast a step moves something at each instant: a step function over all streams together.

A launch moves its amount evenly over its duration; launches that run together add up.

Assumes: within one launch, bytes and operations flow at a constant rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from simulator.cost.result import KernelRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSeries:
    """Rate i holds from `start_ps[i]` to the next start; the last start is the end of the step.

    `running[i]` are the launches of that stretch. `unplaced` is the amount of launches that take
    no time, which no rate can show.
    """

    start_ps: tuple[int, ...]
    per_second: tuple[float, ...]
    running: tuple[tuple[int, ...], ...]
    unplaced: int


def rate_series(
    kernels: Sequence[KernelRecord], amounts: Sequence[int], total_ps: int
) -> RateSeries:
    """Amount per second from 0 to `total_ps`; `amounts[i]` is what launch i moves."""
    changes: dict[int, list[int]] = {0: [], total_ps: []}
    unplaced = 0
    for index, kernel in enumerate(kernels):
        if kernel.duration_ps == 0:
            unplaced += amounts[index]
            continue
        changes.setdefault(kernel.start_ps, []).append(index)
        changes.setdefault(kernel.end_ps, []).append(index)
    starts, rates, running = [], [], []
    active: set[int] = set()
    for now in sorted(changes):
        active ^= set(changes[now])  # a launch enters at its start and leaves at its end
        together = tuple(sorted(active))
        starts.append(now)
        running.append(together)
        # Summed afresh: a running total would drift by the rounding of each change.
        rates.append(sum(amounts[i] * 10**12 / kernels[i].duration_ps for i in together))
    return RateSeries(
        start_ps=tuple(starts),
        per_second=tuple(rates),
        running=tuple(running),
        unplaced=unplaced,
    )


def mean_rates(series: RateSeries, edges_ps: Sequence[int]) -> list[float]:
    """Mean rate between each edge and the next; edges rise from 0 to the end of the step."""
    means, stretch = [], 0
    for low, high in pairwise(edges_ps):
        area, now = 0.0, low
        while now < high:
            while series.start_ps[stretch + 1] <= now:
                stretch += 1
            until = min(high, series.start_ps[stretch + 1])
            area += series.per_second[stretch] * (until - now)
            now = until
        means.append(area / (high - low))
    return means
