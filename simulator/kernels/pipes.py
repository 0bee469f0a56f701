"""Pipes that work at the same time: the longest one sets the pace and is the cause of the time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator.kernels.parts import Floats

TINY = np.finfo(float).tiny


def overlapped(pipes: Mapping[str, Floats]) -> dict[str, Floats]:
    """Seconds by cause of pipes that overlap fully: the longest owns the time, the others none.

    Assumes: enough stages in flight that no pipe waits for another beyond the longest.
    """
    names = list(pipes)
    stacked = np.stack(np.broadcast_arrays(*(np.asarray(pipes[n], float) for n in names)))
    longest = stacked.argmax(axis=0)
    return {name: np.where(longest == i, stacked[i], 0.0) for i, name in enumerate(names)}


def imperfectly_overlapped(*pipes: Floats) -> tuple[Floats, ...]:
    """Time of each of several pipes in a total of the root of the sum of their squares.

    The total is close to the longest pipe where one dominates and 1.4 times it where two are
    equal; each pipe owns its square's share of it, so that the returned times add up.

    Assumes: pipes of like length cover each other only partly (start, end and jitter in between).
    """
    squares = [pipe**2 for pipe in pipes]
    total = np.maximum(np.sqrt(sum(squares[1:], squares[0])), TINY)
    return tuple(square / total for square in squares)


def exposed(seconds: Floats, cover: Floats) -> Floats:
    """What is left of a time that runs beside another."""
    return np.maximum(seconds - cover, 0.0)
