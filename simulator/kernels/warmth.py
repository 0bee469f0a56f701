"""Which share of an operand is still in the last-level cache when a kernel reads it again."""

from __future__ import annotations

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.kernels.parts import Floats


def warm_share(footprint: Floats, chip: ChipSpec) -> Floats:
    """Share of reads that hit when a footprint of bytes is read in turn, over and over.

    One up to the cache's capacity, falling in a line to none at twice the capacity.

    Assumes: a cache between least-recently-used (none left past capacity) and random replacement.
    """
    return np.clip(2.0 - footprint / chip.llc_bytes, 0.0, 1.0)


def rotated_warm_share(operand: Floats, copies: float | Floats, chip: ChipSpec) -> Floats:
    """Warm share of an operand of which a benchmark rotates `copies`, to keep it out of cache."""
    return warm_share(operand * copies, chip)
