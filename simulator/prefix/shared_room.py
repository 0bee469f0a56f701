"""Room that pages and windows of a tier share: whichever was used longest ago leaves first.

Their turns are counted together, so that ranks of both compare; the order is that of their eviction
policies, which must rank alike (LRU by default).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from simulator.prefix.segment import Segment


class Tenant(Protocol):
    """A pool that takes bytes of the room."""

    @property
    def used_bytes(self) -> int:
        """What it holds."""

    def lowest_rank(self) -> float | None:
        """Rank of what would leave next, None where nothing can."""

    def evict_lowest(self, most_bytes: int) -> None:
        """Let that go: as much of it as makes `most_bytes` free, at least one object."""

    def announce(self) -> None:
        """Tell of what left, once nothing is at work on the pools."""


class SharedRoom:
    """`capacity_bytes` for all pools that have joined; `turn` counts their uses.

    `guarded`: segments of the prompt at work, whose pages stay.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.turn = 0
        self.guarded: set[Segment] = set()
        self._tenants: list[Tenant] = []

    def join(self, tenant: Tenant) -> None:
        """Take bytes from the room from now on."""
        self._tenants.append(tenant)

    @property
    def free_bytes(self) -> int:
        """What nobody holds."""
        return self.capacity_bytes - sum(tenant.used_bytes for tenant in self._tenants)

    def guard(self, segments: Iterable[Segment]) -> None:
        """Keep pages of these until `settle`."""
        self.guarded.update(segments)

    def settle(self) -> None:
        """Let the pools tell of what left for each other; nothing is guarded from then on."""
        for tenant in self._tenants:
            tenant.announce()
        self.guarded.clear()

    def make(self, nbytes: int) -> bool:
        """Free so many bytes, if others can leave for it."""
        while (short := nbytes - self.free_bytes) > 0:
            ranks = [(rank, n) for n, t in enumerate(self._tenants)
                     if (rank := t.lowest_rank()) is not None]  # fmt: skip
            if not ranks:
                return False
            self._tenants[min(ranks)[1]].evict_lowest(short)
        return True
