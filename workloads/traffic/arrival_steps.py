"""The step that a source rounded its arrival times to, and a seeded spread within it."""

from __future__ import annotations

import numpy as np

from workloads.traffic.trace import Ints

# Rounding below half a second does not matter to a queue that serves in tenths of a second.
_STEPS_MS = (3_600_000, 600_000, 300_000, 60_000, 30_000, 15_000, 10_000, 5_000, 3_000, 2_000,
             1_000, 500)  # fmt: skip
# Mooncake's steps of 3 s are off by up to 3 ms.
_JITTER_NS = 5_000_000
_LEAST_TIMES = 3
SPREAD = "spread evenly within that step"


def arrival_step_ns(arrival_ns: Ints) -> int:
    """Largest common step that all arrival times lie on, to 5 ms; 0 if none or fewer than 3."""
    times = _distinct(arrival_ns[arrival_ns >= 0])
    if len(times) < _LEAST_TIMES:
        return 0
    for step_ms in _STEPS_MS:
        step = step_ms * 10**6
        if np.abs(times - _rounded(times, step)).max() <= _JITTER_NS:
            return step
    return 0


def spread_arrivals(arrival_ns: Ints, seed: int | None, notes: list[str]) -> None:
    """Spread arrivals evenly within their step, in place; the order of requests stays.

    Assumes: a rounded arrival time stands for a moment within the step that follows it, all equally
    likely; done only when a seed is given, and noted.
    """
    step = arrival_step_ns(arrival_ns)
    if not step:
        if seed is not None:
            notes.append("nothing to spread: arrival times are not rounded to 0.5 s or more")
        return
    timed = np.flatnonzero(arrival_ns >= 0)
    distinct = len(_distinct(arrival_ns[timed]))
    what = f"arrival times are rounded to {step / 1e9:g} s ({distinct:,} distinct)"
    if seed is None:
        notes.append(f"{what}, kept as they are; a spread seed spreads them within that step")
        return
    base = _rounded(arrival_ns[timed], step)
    within = np.random.default_rng(seed).integers(0, step, size=len(timed))
    # Sorted within each step, so that requests of one step keep their order.
    order = np.argsort(base, kind="stable")
    arrival_ns[timed[order]] = base[order] + within[np.lexsort((within, base))]
    notes.append(f"{what}, {SPREAD} with seed {seed}")


def _distinct(times: Ints) -> Ints:
    """Different values in order; sorting is faster here than `np.unique`, which hashes."""
    ordered = np.sort(times)
    return ordered[np.diff(ordered, prepend=-1) != 0]


def _rounded(times: Ints, step: int) -> Ints:
    return (times + step // 2) // step * step
