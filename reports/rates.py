"""How fast a step moves something at each instant: a step function over all streams together.

A launch moves its amount in its stretches, at one speed in each and nothing while it is being
launched; launches that run together add up.

Assumes: within one stretch of a launch, bytes and operations flow at a constant rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    flows = [flow for i, kernel in enumerate(kernels) for flow in _flows(i, kernel, amounts[i])]
    changes: dict[int, list[_Flow]] = {0: [], total_ps: []}
    for flow in flows:
        changes.setdefault(flow.start_ps, []).append(flow)
        changes.setdefault(flow.end_ps, []).append(flow)
    unplaced = sum(amounts[i] for i, kernel in enumerate(kernels) if kernel.duration_ps == 0)
    starts, rates, running = [], [], []
    active: set[_Flow] = set()
    for now in sorted(changes):
        active ^= set(changes[now])  # a flow enters at its start and leaves at its end
        starts.append(now)
        running.append(tuple(sorted({flow.launch for flow in active})))
        # Summed afresh, in order: a running total would drift by the rounding of each change.
        rates.append(sum(f.per_second for f in sorted(active, key=lambda f: f.launch)))
    return RateSeries(
        start_ps=tuple(starts),
        per_second=tuple(rates),
        running=tuple(running),
        unplaced=unplaced,
    )


@dataclass(frozen=True, slots=True)
class _Flow:
    """One launch at one speed."""

    launch: int
    start_ps: int
    end_ps: int
    per_second: float


def _flows(launch: int, kernel: KernelRecord, amount: int) -> Iterator[_Flow]:
    if kernel.duration_ps == 0:
        return
    for start, end, share in kernel.stretches or ((kernel.start_ps, kernel.end_ps, 1.0),):
        if end > start:
            yield _Flow(launch, start, end, amount * share * 10**12 / (end - start))


def mean_rates(series: RateSeries, edges_ps: Sequence[int]) -> list[float]:
    """Mean rate between each edge and the next; edges rise from 0 to the end of the step."""
    return [
        sum(rate * length for rate, length in parts) / sum(length for _, length in parts)
        for parts in _between(series, edges_ps)
    ]


def rate_quantiles(series: RateSeries, edges_ps: Sequence[int], share: float) -> list[float]:
    """Rate that is not exceeded in that share of the time between each edge and the next."""
    quantiles = []
    for parts in _between(series, edges_ps):
        wanted, passed = share * sum(length for _, length in parts), 0
        for rate, length in sorted(parts):
            passed += length
            if passed >= wanted:
                quantiles.append(rate)
                break
    return quantiles


def _between(series: RateSeries, edges_ps: Sequence[int]) -> Iterator[list[tuple[float, int]]]:
    """(rate, its time in ps) of each stretch between each edge and the next."""
    stretch = 0
    for low, high in pairwise(edges_ps):
        parts, now = [], low
        while now < high:
            while series.start_ps[stretch + 1] <= now:
                stretch += 1
            until = min(high, series.start_ps[stretch + 1])
            parts.append((series.per_second[stretch], until - now))
            now = until
        yield parts
