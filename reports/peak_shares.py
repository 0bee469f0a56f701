"""How near launches come to what the chip can do: shares of the DRAM and of the matrix peak."""

from __future__ import annotations

from reports.breakdown import GroupTotal
from reports.quantity import share_text
from simulator.cost.result import ChipPeaks


def dram_share_text(group: GroupTotal, peaks: ChipPeaks, over_ps: int) -> str:
    """DRAM traffic over a time, of what the chip's DRAM could move in it."""
    return _share(group.dram_bytes / peaks.dram_bytes_per_s, over_ps)


def matrix_share_text(group: GroupTotal, peaks: ChipPeaks, over_ps: int) -> str:
    """Matrix FLOP over a time, of what the chip could do in it with the math classes used.

    A dash where the chip states no peak for one of them.
    """
    needed_s = 0.0
    for name, count in group.flops.items():
        if count and name not in peaks.matrix_flops_per_s:
            return "–"
        needed_s += count / peaks.matrix_flops_per_s[name] if count else 0.0
    return _share(needed_s, over_ps)


def _share(needed_s: float, over_ps: int) -> str:
    return share_text(needed_s * 10**12, over_ps, digits=0) if needed_s else "–"
