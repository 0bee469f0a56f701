"""A pool of bounded size that holds blocks of an index and lets ends of prefixes go first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from simulator.prefix.eviction import EvictionPolicy, ObjectFacts, Usage
from simulator.prefix.prefix_index import PrefixIndex
from simulator.prefix.segment import Segment
from simulator.prefix.shared_room import SharedRoom

Evicted = Callable[[Segment, Usage], None]


class SegmentPool:
    """Blocks of one kind in one tier.

    `capacity_blocks`: None is unlimited. `room`: bytes that it shares with another pool instead.
    `on_evict` is called with what left, once the call that
    made it leave has stored all it could.
    A block is held once, however many prompts share it.
    """

    def __init__(
        self,
        index: PrefixIndex,
        capacity_blocks: int | None,
        eviction: EvictionPolicy,
        *,
        block_bytes: int = 1,
        on_evict: Evicted | None = None,
        room: SharedRoom | None = None,
    ) -> None:
        self.index = index
        self.capacity_blocks = capacity_blocks
        self.eviction = eviction
        self.block_bytes = block_bytes
        self.used_blocks = 0
        self.stored_blocks = 0
        self.evicted_blocks = 0
        self._on_evict = on_evict
        self._held: dict[Segment, Usage] = {}
        self._leaving: list[tuple[Segment, Usage]] = []
        self._heap: list[tuple[float, int, int, Segment]] = []
        self._turn = 0
        self._pushed = 0
        # Nothing is ranked before something has to leave: pools that never fill have no heap.
        self._ranked = False
        self._room = room
        if room is not None:
            room.join(self)
        index.serve(self)

    def __contains__(self, segment: Segment) -> bool:
        return segment in self._held

    def usage(self, segment: Segment) -> Usage:
        """What is remembered of a segment that is held."""
        return self._held[segment]

    def leading_blocks(self, path: Sequence[Segment], matched: int) -> int:
        """Blocks at the start of a path that are held, of the `matched` ones."""
        for segment in path:
            if segment not in self._held:
                return min(matched, segment.start)
        return min(matched, path[-1].end) if path else 0

    def expire(self, now_s: float) -> None:
        """Let go what has been unused for longer than the policy's lifetime."""
        if self.eviction.lifetime_s is None:
            return
        while (oldest := self._lowest(None)) is not None:
            usage = self._held[oldest]
            if now_s - usage.used_s <= self.eviction.lifetime_s:
                self._push(oldest, usage)
                break
            self._remove(oldest)
        self.announce()

    def store(self, path: Sequence[Segment], now_s: float = 0.0, without_rows: int = 0) -> int:
        """Touch what is held of a path and hold the rest, from the root on, as far as it fits.

        Returns the blocks that were added. Others leave for it, never a part of the path itself;
        what does not fit is left out of the pool. The first `without_rows` blocks were not
        computed, so that their window rows are not there.
        """
        missing = self.touch(path, now_s, hit=False)
        own = set(path)
        for segment in path:
            segment.pins += 1
        if self._room is not None:
            self._room.guard(path)
        added, last = 0, None
        for segment in missing:
            free = self._make_room(segment.count, own)
            if free <= 0:
                break
            last = segment if free >= segment.count else self.index.split(segment, free)
            own.add(last)
            if self._room is not None:
                self._room.guard([last])
            self._hold(last, now_s)
            self._held[last].rows = last.start >= without_rows
            added += last.count
            if last is not segment:
                break
        for segment in path:
            segment.pins -= 1
        # Each of the others has a follower that is held.
        if last is not None and not self._held[last].children:
            self._push(last, self._held[last])
        self.stored_blocks += added
        self.announce()
        return added

    def touch(
        self, path: Sequence[Segment], now_s: float = 0.0, *, hit: bool = True
    ) -> list[Segment]:
        """Use what is held of a path; returns the segments that are not held.

        `hit`: it counts as one, and is no new copy of what is held already.
        """
        self._turn = self._next_turn()
        missing = []
        for segment in path:
            usage = self._held.get(segment)
            if usage is None:
                missing.append(segment)
                continue
            usage.turn = self._turn
            usage.used_s = now_s
            usage.uses += hit
            if not usage.children:
                self._push(segment, usage)
        return missing

    def drop(self, segment: Segment) -> None:
        """Let a segment go whose followers are not held, without calling `on_evict`."""
        self._release(segment)

    def resize(self, capacity_blocks: int) -> None:
        """Change the capacity; what no longer fits leaves."""
        self.capacity_blocks = capacity_blocks
        if self.used_blocks > capacity_blocks:
            self._make_room(0, set())
            self.announce()

    def on_split(self, head: Segment, tail: Segment) -> None:
        """A held segment has been split: so has what is remembered of it."""
        usage = self._held.get(tail)
        if usage is None:
            return
        copied = usage.copy()
        copied.children = 1
        self._held[head] = copied

    def same(self, head: Segment, tail: Segment) -> bool:
        """Whether both are held with the same past, as far as policies ask for it, or neither."""
        first, second = self._held.get(head), self._held.get(tail)
        if first is None or second is None:
            return first is second
        return first.turn == second.turn and self.eviction.same(first, second)

    def on_join(self, head: Segment, tail: Segment) -> None:
        """What is remembered of the follower holds for both."""
        first = self._held.pop(head, None)
        if first is not None:
            self._held[tail].uses = min(self._held[tail].uses, first.uses)

    def _hold(self, segment: Segment, now_s: float) -> None:
        self.index.note(segment)
        children = sum(child in self._held for child in segment.children.values())
        usage = Usage(self._turn, self._turn, now_s, 0, children)
        self._held[segment] = usage
        segment.holders += 1
        self.used_blocks += segment.count
        above = self._held.get(segment.parent) if segment.parent else None
        if above is not None:
            above.children += 1

    def _make_room(self, wanted: int, own: set[Segment]) -> int:
        """Free blocks after others have left for `wanted`; at most `wanted`."""
        if self._room is not None:
            self._room.make(wanted * self.block_bytes)
            return min(wanted, max(0, self._room.free_bytes) // self.block_bytes)
        if self.capacity_blocks is None:
            return wanted
        passed: list[Segment] = []
        while self.capacity_blocks - self.used_blocks < wanted:
            lowest = self._lowest(own, passed)
            if lowest is None:
                break
            short = wanted - (self.capacity_blocks - self.used_blocks)
            if lowest.count > short:
                # The head stays; the object that leaves is the end.
                self.index.split(lowest, lowest.count - short)
            self._remove(lowest)
        for segment in passed:
            self._push(segment, self._held[segment])
        return min(wanted, self.capacity_blocks - self.used_blocks)

    @property
    def used_bytes(self) -> int:
        """What it holds."""
        return self.used_blocks * self.block_bytes

    def lowest_rank(self) -> float | None:
        """Rank of the end that would leave next, but for what is guarded."""
        lowest = self._lowest_free()
        if lowest is None:
            return None
        self._push(lowest, self._held[lowest])
        return self._rank(lowest, self._held[lowest])

    def evict_lowest(self, most_bytes: int) -> None:
        """Let that end go, or its last blocks where they are enough."""
        lowest = self._lowest_free()
        if lowest is None:
            return
        blocks = -(-most_bytes // self.block_bytes)
        if lowest.count > blocks:
            self.index.split(lowest, lowest.count - blocks)
        self._remove(lowest)

    def _lowest_free(self) -> Segment | None:
        passed: list[Segment] = []
        guarded = self._room.guarded if self._room is not None else set()
        while (lowest := self._lowest(None)) is not None and lowest in guarded:
            passed.append(lowest)
        for segment in passed:
            self._push(segment, self._held[segment])
        return lowest

    def _next_turn(self) -> int:
        if self._room is None:
            return self._turn + 1
        self._room.turn += 1
        return self._room.turn

    def _lowest(
        self, own: set[Segment] | None, passed: list[Segment] | None = None
    ) -> Segment | None:
        """Takes the evictable end of the lowest rank off the heap; own ones go to `passed`."""
        if not self._ranked:
            self._ranked = True
            for segment, held in self._held.items():
                if not held.children:
                    self._push(segment, held)
        while self._heap:
            rank, turn, _, segment = heapq.heappop(self._heap)
            usage = self._held.get(segment)
            if usage is None or not self._is_current(segment, usage, rank, turn):
                continue
            if own is not None and segment in own:
                if passed is not None and segment not in passed:
                    passed.append(segment)
                continue
            return segment
        return None

    def _is_current(self, segment: Segment, usage: Usage, rank: float, turn: int) -> bool:
        """Whether an entry of the heap still says what holds for an evictable segment."""
        if usage.children or turn != usage.turn:
            return False
        return rank == self._rank(segment, usage)

    def _push(self, segment: Segment, usage: Usage) -> None:
        if not self._ranked:
            return
        self._pushed += 1
        heapq.heappush(self._heap, (self._rank(segment, usage), usage.turn, self._pushed, segment))
        if len(self._heap) > 2 * len(self._held) + 64:
            self._rebuild()

    def _rebuild(self) -> None:
        """Drop entries that are out of date, so that the heap stays as small as the pool."""
        live = {}
        for rank, turn, pushed, segment in self._heap:
            usage = self._held.get(segment)
            if usage is not None and self._is_current(segment, usage, rank, turn):
                live[segment] = (rank, turn, pushed, segment)
        self._heap = list(live.values())
        heapq.heapify(self._heap)

    def _rank(self, segment: Segment, usage: Usage) -> float:
        if self.eviction.by_turn:
            return usage.turn
        return self.eviction.rank(usage, self._facts(segment))

    def _facts(self, segment: Segment) -> ObjectFacts:
        """Of the last block, which is the first to leave: the same however segments are cut."""
        tokens = self.index.block_tokens
        return ObjectFacts(end_token=segment.end * tokens, tokens=tokens, nbytes=self.block_bytes)

    def _remove(self, segment: Segment) -> None:
        if self._on_evict is not None:
            segment.pins += 1
            self._leaving.append((segment, self._held[segment]))
        self.evicted_blocks += segment.count
        self._release(segment)

    def announce(self) -> None:
        """Tell of what left; it is out of the index only afterwards."""
        leaving, self._leaving = self._leaving, []
        for segment, usage in leaving:
            if self._on_evict is not None:
                self._on_evict(segment, usage)
            segment.pins -= 1
            self.index.prune(segment)

    def _release(self, segment: Segment) -> None:
        del self._held[segment]
        self.index.note(segment)
        segment.holders -= 1
        self.used_blocks -= segment.count
        parent = segment.parent
        above = self._held.get(parent) if parent is not None else None
        if above is not None:
            above.children -= 1
            if not above.children and parent is not None:
                self._push(parent, above)
        self.index.prune(segment)
