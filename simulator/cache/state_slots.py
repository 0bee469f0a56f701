"""Slots for what a request keeps whatever its length: window rings and compressor tails.

A live request owns one slot: its row of the request pool. A slot is taken and freed whole.
"""

from __future__ import annotations

import heapq

from simulator.basis.errors import InputError


class StateSlots:
    """`count` slots, numbered from 0; the lowest free one is handed out first."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise InputError(f"there must be 1 request row or more, but got {count}")
        self.count = count
        self._live: set[int] = set()
        self._heap = list(range(count))  # free slots, and some that were taken by number

    @property
    def live(self) -> frozenset[int]:
        """Slots in use."""
        return frozenset(self._live)

    @property
    def free(self) -> int:
        """Slots that nobody owns."""
        return self.count - len(self._live)

    @property
    def ready(self) -> frozenset[int]:
        """Free slots, as the list of those that can be handed out has them."""
        return frozenset(self._heap) - self._live

    def take(self, slot: int | None = None) -> int:
        """The lowest free slot, or a certain one."""
        if slot is None:
            if not self.free:
                raise InputError(f"all {self.count} request rows are taken; release one first")
            slot = heapq.heappop(self._heap)
            while slot in self._live:
                slot = heapq.heappop(self._heap)
        elif not 0 <= slot < self.count or slot in self._live:
            free = [s for s in range(self.count) if s not in self._live]
            raise InputError(f"request row {slot} is not free; free rows are {free}")
        self._live.add(slot)
        return slot

    def release(self, slot: int) -> None:
        """Return a slot."""
        self.require_live(slot)
        self._live.remove(slot)
        heapq.heappush(self._heap, slot)

    def require_live(self, slot: int) -> None:
        """Raise unless the slot is in use."""
        if slot not in self._live:
            raise InputError(f"request row {slot} is not live; live rows are {sorted(self._live)}")
