"""Writes to a tier on the clock: whether its bandwidth keeps up with what is stored."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.prefix.tier import Tier


@dataclass(slots=True)
class WriteQueue:
    """Writes of one tier one after the other, each from when it is asked for.

    `busy_s`: time spent writing. `behind_s`: the longest that a write was done after it was asked
    for, its own time included.
    """

    tier: Tier
    busy_s: float = 0.0
    behind_s: float = 0.0
    free_s: float = 0.0
    _known: dict[tuple[int, int], float] = field(default_factory=dict)

    def add(self, nbytes: int, objects: int, now_s: float) -> None:
        """One batch of objects."""
        if self.tier.write is None:
            return
        taken = self._known.get((nbytes, objects))
        if taken is None:
            taken = self._known[nbytes, objects] = self.tier.write_ns(nbytes, objects) / 1e9
        self.free_s = max(now_s, self.free_s) + taken
        self.busy_s += taken
        self.behind_s = max(self.behind_s, self.free_s - now_s)
