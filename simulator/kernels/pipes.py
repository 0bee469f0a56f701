"""Pipes that work at the same time: the longest one sets the pace and is the cause of the time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator.kernels.parts import Floats


def overlapped(pipes: Mapping[str, Floats]) -> dict[str, Floats]:
    """Seconds by cause of pipes that overlap fully: the longest owns the time, the others none.

    Assumes: enough stages in flight that no pipe waits for another beyond the longest.
    """
    names = list(pipes)
    stacked = np.stack(np.broadcast_arrays(*(np.asarray(pipes[n], float) for n in names)))
    longest = stacked.argmax(axis=0)
    return {name: np.where(longest == i, stacked[i], 0.0) for i, name in enumerate(names)}


def exposed(seconds: Floats, cover: Floats) -> Floats:
    """What is left of a time that runs beside another."""
    return np.maximum(seconds - cover, 0.0)
