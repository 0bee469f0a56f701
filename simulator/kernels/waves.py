"""Tiles over cores in waves: a kernel ends when the fullest core ends."""

from __future__ import annotations

import numpy as np

from simulator.kernels.parts import Floats


def tiles_of(size: Floats, tile: float | Floats) -> Floats:
    """Tiles that cover a dimension; the last one may be partly empty."""
    return np.ceil(np.maximum(size, 1) / tile)


def waves_of(tiles: Floats, slots: float | Floats) -> Floats:
    """Tiles on the fullest of `slots` places that work at the same time (at least one).

    Assumes: tiles of one kernel take equally long, so the greedy order hands them out evenly.
    """
    return np.maximum(np.ceil(tiles / slots), 1.0)


def idle_share(tiles: Floats, slots: float | Floats) -> Floats:
    """Share of the waves' places that no tile fills: the tail, 0 where the last wave is full."""
    return 1.0 - tiles / (waves_of(tiles, slots) * slots)
