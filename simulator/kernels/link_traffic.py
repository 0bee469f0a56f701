"""Bytes that a collective moves over one rank's link and through its memory: derived, not fitted.

`size` is a call's whole message: what an all-gather ends with, what an all-reduce adds up.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.kernels.parts import Floats


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """Of one rank: bytes sent one way, bytes copied or added in its own memory, dependent steps."""

    sent: Floats
    copied: Floats
    steps: Floats

    def seconds(self, link_bytes_per_s: Floats, copy_bytes_per_s: float) -> Floats:
        """Sending, then the own share, at the rates of link and copy.

        Assumes: the cores that feed the link also make the copy, so that the two do not overlap.
        """
        return self.sent / link_bytes_per_s + self.copied / copy_bytes_per_s


def gathered(size: Floats, ranks: Floats) -> LinkTraffic:
    """Ring of n - 1 steps (all-gather or reduce-scatter): (n - 1) / n of the size, own 1 / n."""
    return LinkTraffic(size * (ranks - 1) / ranks, size / ranks, ranks - 1)


def ring_reduced(size: Floats, ranks: Floats) -> LinkTraffic:
    """Ring all-reduce: a reduce-scatter and an all-gather, 2 (n - 1) steps."""
    return LinkTraffic(2 * size * (ranks - 1) / ranks, size / ranks, 2 * (ranks - 1))


def switch_reduced(size: Floats, ranks: Floats) -> LinkTraffic:
    """In-switch all-reduce: every rank sends all of it once and multicasts the sum of its part.

    The switch adds up and delivers to all, so that a rank copies nothing.
    """
    return LinkTraffic(size * (1 + 1 / ranks), 0 * size, 0 * ranks + 2)


def one_shot(size: Floats, ranks: Floats) -> LinkTraffic:
    """Every rank reads all operands of its n - 1 peers and adds them up."""
    return LinkTraffic(size * (ranks - 1), size, 0 * ranks + 1)


def two_shot(size: Floats, ranks: Floats) -> LinkTraffic:
    """Every rank adds up its part, then reads the sums of the others: two direct exchanges."""
    return LinkTraffic(2 * size * (ranks - 1) / ranks, 2 * size / ranks, 0 * ranks + 2)
