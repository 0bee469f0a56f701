"""The cache in plain Python: the slow truth that the compiled loop agrees with, access for access.

Sets are ordered dictionaries, so that nothing but the rules is shared with the compiled loop.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from hwmodels.llc.accesses import AccessList
from hwmodels.llc.spec import CacheSpec

_WORD = (1 << 64) - 1
_SMALL = (1 << 31) - 1


def mixed(line: int) -> int:
    """Hash of a line's number."""
    word = line ^ (line >> 17)
    word = word * 0x9E3779B97F4A7C15 & _WORD
    word ^= word >> 29
    return word >> 2


@dataclass
class _Line:
    valid: set[int] = field(default_factory=set)
    dirty: set[int] = field(default_factory=set)


class TwinCache:
    """Serves accesses one by one; counts and requests to memory are attributes."""

    def __init__(self, spec: CacheSpec) -> None:
        self.spec = spec
        self.sets: dict[tuple[int, int], OrderedDict[int, _Line]] = {}
        self.places: dict[tuple[int, int], list[int]] = {}
        self.hits = self.misses = self.fills = self.write_backs = self.evictions = 0
        self.near = self.far = 0
        self.memory: list[tuple[int, int, int]] = []
        self._state = 0x2545F49

    def run(self, accesses: AccessList) -> None:
        """Serve all accesses in order."""
        for start, size, write, core in zip(
            accesses.starts, accesses.sizes, accesses.writes, accesses.cores, strict=True
        ):
            self.access(int(start), int(size), bool(write), int(core))

    def access(self, start: int, size: int, write: bool = False, core: int = 0) -> None:
        """One run of bytes."""
        line_bytes = self.spec.line_bytes
        for number in range(start // line_bytes, (start + size - 1) // line_bytes + 1):
            low = max(start - number * line_bytes, 0)
            high = min(start + size - number * line_bytes, line_bytes)
            self._touch(number, low, high, write, core)

    def _touch(self, number: int, low: int, high: int, write: bool, core: int) -> None:
        sector = self.spec.sector_bytes
        touched = set(range(low // sector, (high - 1) // sector + 1))
        code = mixed(number)
        home = code % self.spec.partitions
        key = (home, code // self.spec.partitions % self.spec.sets)
        lines = self.sets.setdefault(key, OrderedDict())
        if number not in lines:
            self._make_room(key, number)
            lines[number] = _Line()
        elif self.spec.policy == "lru":
            lines.move_to_end(number)
        line = lines[number]
        missing = touched - line.valid
        self.hits += len(touched) - len(missing)
        self.misses += len(missing)
        if core % self.spec.partitions == home:
            self.near += len(touched)
        else:
            self.far += len(touched)
        if write:
            missing = {s for s in missing if s * sector < low or (s + 1) * sector > high}
            line.dirty |= touched
        self.fills += len(missing)
        self._ask(number, missing, 0)
        line.valid |= touched

    def _make_room(self, key: tuple[int, int], number: int) -> None:
        """Find a way for a new line; `places` names the line in each way of the set."""
        self._step()
        places = self.places.setdefault(key, [])
        if len(places) < self.spec.ways:
            places.append(number)
            return
        oldest = next(iter(self.sets[key]))
        gone = places[self._state % self.spec.ways] if self.spec.policy == "random" else oldest
        places[places.index(gone)] = number
        self._evict(key, gone)

    def _evict(self, key: tuple[int, int], number: int) -> None:
        line = self.sets[key].pop(number)
        self.evictions += 1
        self.write_backs += len(line.dirty)
        self._ask(number, line.dirty, 1)

    def _step(self) -> None:
        state = self._state
        state ^= (state << 13) & _SMALL
        state ^= state >> 17
        state ^= (state << 5) & _SMALL
        self._state = state

    def _ask(self, number: int, sectors: set[int], write: int) -> None:
        """Neighbouring sectors as one request."""
        size, at = self.spec.sector_bytes, number * self.spec.line_bytes
        for sector in sorted(sectors):
            start = at + sector * size
            last = self.memory[-1] if self.memory else None
            if sector - 1 in sectors and last is not None:
                self.memory[-1] = (last[0], last[1] + size, write)
            else:
                self.memory.append((start, size, write))
