"""Kernels of an attention module joined to its time: stages in order, streams side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from simulator.kernels.parts import Parts, joined
from simulator.lower.kernel_section import FusedKernel


def staged(
    kernels: Mapping[str, Parts],
    places: Mapping[str, FusedKernel],
    overlaps: Callable[[FusedKernel], np.ndarray],
) -> Parts:
    """Time of kernels by part; `places` give their stage and stream.

    A stage takes as long as its longest stream in the calls where its side streams are used
    (`overlaps`), else as long as all its kernels.

    Assumes: streams side by side do not slow each other down.
    """
    stages: dict[int, dict[int, list[str]]] = {}
    beside: dict[int, np.ndarray] = {}
    for part in kernels:
        place = places[part]
        stages.setdefault(place.stage, {}).setdefault(place.stream, []).append(part)
        if place.stream:
            beside[place.stage] = overlaps(place)
    found = []
    for stage, streams in sorted(stages.items()):
        branches = [joined(*(kernels[part] for part in parts)) for parts in streams.values()]
        if stage in beside and len(branches) > 1:
            found.append(either(beside[stage], longest(*branches), joined(*branches)))
        else:
            found.append(joined(*branches))
    return joined(*found)


def only(rows: np.ndarray, parts: Parts) -> Parts:
    """Parts of some of the calls, nothing of the others."""
    return Parts({cause: np.where(rows, value, 0.0) for cause, value in parts.seconds.items()})


def either(rows: np.ndarray, parts: Parts, others: Parts) -> Parts:
    """One set of parts for some of the calls, another for the rest."""
    return joined(only(rows, parts), only(~rows, others))


def longest(*branches: Parts) -> Parts:
    """Branches side by side: each call waits for its longest, which owns the time."""
    totals = np.stack([branch.total for branch in branches])
    chosen = totals.argmax(axis=0)
    return joined(*(only(chosen == i, branch) for i, branch in enumerate(branches)))
