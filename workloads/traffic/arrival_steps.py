"""The step that a source rounded its arrival times to, and a seeded spread within it."""

from __future__ import annotations

import numpy as np

from workloads.traffic.trace import Ints

# Rounding below this does not matter to a queue that serves in tenths of a second.
_NOTED_NS = 500_000_000


def arrival_step_ns(arrival_ns: Ints) -> int:
    """Largest step of which all arrival times are multiples; 0 if there are fewer than three."""
    times = np.unique(arrival_ns[arrival_ns >= 0])
    return int(np.gcd.reduce(times)) if len(times) >= 3 else 0


def spread_arrivals(arrival_ns: Ints, seed: int | None, notes: list[str]) -> None:
    """Spread arrivals evenly within their step, in place; the order of requests stays.

    Assumes: a rounded arrival time stands for a moment within the step that follows it, all equally
    likely; offered, not measured, and noted when used.
    """
    step = arrival_step_ns(arrival_ns)
    timed = np.flatnonzero(arrival_ns >= 0)
    if step < _NOTED_NS:
        if seed is not None:
            notes.append("nothing to spread: arrival times are not rounded to 0.5 s or more")
        return
    distinct = len(np.unique(arrival_ns[timed]))
    what = f"arrival times are multiples of {step / 1e9:g} s ({distinct:,} distinct)"
    if seed is None:
        notes.append(f"{what}, kept as they are; a spread seed would spread them within that step")
        return
    within = np.random.default_rng(seed).integers(0, step, size=len(timed))
    base = arrival_ns[timed]
    # Sorted within each step, so that requests of one step keep their order.
    order = np.argsort(base, kind="stable")
    arrival_ns[timed[order]] = base[order] + within[np.lexsort((within, base))]
    notes.append(f"{what}, spread evenly within that step with seed {seed}")
