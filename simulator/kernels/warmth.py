"""What of an operand is still in the last-level cache, and how fast memory gives the rest."""

from __future__ import annotations

import numpy as np

from hwmodels.bandwidth.efficiency import edited_stream_share, memory_efficiency
from hwmodels.chip import ChipSpec
from simulator.kernels.parts import Floats

# Capacity over which the hits of a footprint larger than the cache vanish, as a share of it.
FADE = 1.0
# The same for a few large buffers read one after the other: nearly least-recently-used.
ROTATION_FADE = 0.25


def warm_share(footprint: Floats, chip: ChipSpec, fade: float = FADE) -> Floats:
    """Share of reads that hit when a footprint of bytes is read in turn, over and over.

    One up to the cache's capacity, falling in a line to none at (1 + fade) times the capacity.

    Assumes: a cache between least-recently-used (none left past capacity) and random replacement.
    """
    hits = 1.0 + (1.0 - footprint / chip.llc_bytes) / fade
    return np.minimum(np.maximum(hits, 0.0), 1.0)


def memory_bytes_per_s(chip: ChipSpec) -> float:
    """Peak of memory as fitted constants take shares of it.

    Assumes: where a chip replaces numbers of its memory's preset, every kernel's share of the peak
        changes as that of a stream does.
    """
    edited = edited_stream_share(chip)
    peak = chip.hbm_bandwidth_bytes_per_s
    return peak if edited is None else peak * edited


def run_share(run_bytes: Floats, chip: ChipSpec) -> Floats:
    """Rate of memory for scattered runs of so many bytes each, over that of streams.

    Assumes: constants were fitted where rows lie in runs of the engine's own pages, whose rate is
        within 2 % of a stream's.
    """
    stream = memory_efficiency(chip)
    sizes, place = np.unique(np.maximum(run_bytes, 1.0), return_inverse=True)
    shares = np.array([memory_efficiency(chip, int(size)) / stream for size in sizes])
    return np.asarray(shares[place].reshape(np.shape(run_bytes)))


def rotated_warm_share(operand: Floats, copies: float | Floats, chip: ChipSpec) -> Floats:
    """Warm share of an operand of which a benchmark rotates `copies`, to keep it out of cache."""
    return warm_share(operand * copies, chip, ROTATION_FADE)
