"""A pool of window checkpoints: objects of one size at token positions of prompts.

Independent of the compressed pages: a window may outlive the pages before it and the other way
round, and either alone is no hit.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from simulator.prefix.eviction import EvictionPolicy, ObjectFacts, Usage
from simulator.prefix.prefix_index import PrefixIndex
from simulator.prefix.segment import Segment
from simulator.prefix.shared_room import SharedRoom


class Shelf:
    """The checkpoints of one segment by token; it changes segments whole, as most of them do."""

    __slots__ = ("held", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.held: dict[int, Checkpoint] = {}

    def take(self, found: Iterable[Checkpoint]) -> None:
        """Hold checkpoints from now on."""
        for one in found:
            one.shelf = self
            self.held[one.token] = one


class Checkpoint:
    """A window that ends at token `token` of the prompts through `segment`."""

    __slots__ = ("shelf", "token", "usage")

    def __init__(self, shelf: Shelf, token: int, usage: Usage) -> None:
        self.shelf = shelf
        self.token = token
        self.usage = usage

    @property
    def segment(self) -> Segment:
        """Where it ends."""
        return self.shelf.segment


class WindowPool:
    """Checkpoints in one tier; `capacity` in checkpoints, None is unlimited.

    `room`: bytes that it shares with the pages of the tier instead.
    """

    def __init__(
        self,
        index: PrefixIndex,
        capacity: int | None,
        eviction: EvictionPolicy,
        *,
        checkpoint_bytes: int = 1,
        period_tokens: int = 1,
        on_evict: Callable[[Checkpoint], None] | None = None,
        room: SharedRoom | None = None,
    ) -> None:
        self.index = index
        self.capacity = capacity
        self.eviction = eviction
        self.stored = 0
        self.evicted = 0
        self._bytes = checkpoint_bytes
        self._period = period_tokens
        self._on_evict = on_evict
        self._at: dict[Segment, Shelf] = {}
        self._heap: list[tuple[float, int, int, Checkpoint]] = []
        self._turn = 0
        self._count = 0
        self._pushed = 0
        self._leaving: list[tuple[Segment, int, Usage]] = []
        self._ranked = False  # as in a pool of segments
        self._room = room
        if room is not None:
            room.join(self)
        index.serve(self)

    @property
    def used(self) -> int:
        """Checkpoints held."""
        return self._count

    def holds(self, segment: Segment, token: int) -> bool:
        """Whether a checkpoint is held."""
        shelf = self._at.get(segment)
        return shelf is not None and token in shelf.held

    def last(self, path: Sequence[Segment], limit: int) -> int:
        """Largest checkpoint of a path up to `limit`, or 0."""
        for segment in reversed(path):
            shelf = self._at.get(segment)
            if shelf is not None:
                below = max((token for token in shelf.held if token <= limit), default=0)
                if below:
                    return below
        return 0

    def touch(self, segment: Segment, token: int, now_s: float = 0.0) -> Usage | None:
        """Use a checkpoint; None if it is not held."""
        found = self._find(segment, token)
        if found is None:
            return None
        found.usage.turn = self._next_turn()
        found.usage.used_s = now_s
        found.usage.uses += 1
        self._push(found)
        return found.usage

    def store(self, segment: Segment, token: int, now_s: float = 0.0) -> bool:
        """Hold a checkpoint; one that is held already counts as used. Returns whether it is new."""
        if self.touch(segment, token, now_s) is not None or self.capacity == 0:
            return False
        segment.pins += 1
        fits = self._room is None or self._room.make(self._bytes)
        while self._room is None and self.capacity is not None and self._count >= self.capacity:
            self._evict()
        segment.pins -= 1
        if not fits:
            return False
        turn = self._next_turn()
        shelf = self._at.get(segment)
        if shelf is None:
            shelf = self._at[segment] = Shelf(segment)
        found = Checkpoint(shelf, token, Usage(turn, turn, now_s))
        shelf.held[token] = found
        segment.holders += 1
        self._count += 1
        self.stored += 1
        self._push(found)
        return True

    @property
    def used_bytes(self) -> int:
        """What it holds."""
        return self._count * self._bytes

    def lowest_rank(self) -> float | None:
        """Rank of the checkpoint that would leave next."""
        lowest = self._lowest()
        if lowest is None:
            return None
        self._push(lowest)
        return self._rank(lowest)

    def evict_lowest(self, most_bytes: int) -> None:
        """Let that checkpoint go."""
        lowest = self._lowest()
        if lowest is None:
            return
        self.evicted += 1
        if self._on_evict is not None:
            lowest.segment.pins += 1
            self._leaving.append((lowest.segment, lowest.token, lowest.usage))
        self._release(lowest)

    def announce(self) -> None:
        """Tell of what left for others; splits since then have left the token in a parent."""
        leaving, self._leaving = self._leaving, []
        for segment, token, usage in leaving:
            holder: Segment | None = segment
            while holder is not None and token <= holder.start * self.index.block_tokens:
                holder = holder.parent
            if holder is not None and self._on_evict is not None:
                self._on_evict(Checkpoint(Shelf(holder), token, usage))
            segment.pins -= 1
            self.index.prune(segment)

    def _next_turn(self) -> int:
        if self._room is None:
            self._turn += 1
            return self._turn
        self._room.turn += 1
        return self._room.turn

    def drop(self, segment: Segment, token: int) -> None:
        """Let a checkpoint go without a word."""
        found = self._find(segment, token)
        if found is not None:
            self._release(found)

    def expire(self, now_s: float) -> None:
        """Let go what has been unused for longer than the policy's lifetime."""
        if self.eviction.lifetime_s is None:
            return
        while (oldest := self._lowest()) is not None:
            if now_s - oldest.usage.used_s <= self.eviction.lifetime_s:
                self._push(oldest)
                return
            self._remove(oldest)

    def resize(self, capacity: int) -> None:
        """Change the capacity; checkpoints that no longer fit leave."""
        self.capacity = capacity
        while self._count > capacity:
            self._evict()

    def on_split(self, head: Segment, tail: Segment) -> None:
        """Checkpoints go with the blocks that they end in; the fewer are moved."""
        shelf = self._at.pop(tail, None)
        if shelf is None:
            return
        border = head.end * self.index.block_tokens
        low = [token for token in shelf.held if token <= border]
        count = len(shelf.held)
        # The head was made with as many holders as the tail.
        head.holders += len(low) - count
        tail.holders -= len(low)
        shelf.segment, other = (head, tail) if 2 * len(low) > count else (tail, head)
        if other is tail:
            low = [token for token in shelf.held if token > border]
        self._at[shelf.segment] = shelf
        if low:
            moved = self._at[other] = Shelf(other)
            moved.take([shelf.held.pop(token) for token in low])

    def same(self, head: Segment, tail: Segment) -> bool:
        """Checkpoints are told apart by their tokens, in whichever segment they lie."""
        return True

    def on_join(self, head: Segment, tail: Segment) -> None:
        """Checkpoints go over to the segment that stays; the fewer are moved."""
        first, second = self._at.pop(head, None), self._at.get(tail)
        if first is None:
            return
        tail.holders += len(first.held)
        larger, smaller = first, second
        if second is not None and len(second.held) > len(first.held):
            larger, smaller = second, first
        if smaller is not None:
            larger.take(smaller.held.values())
        larger.segment = tail
        self._at[tail] = larger

    def _find(self, segment: Segment, token: int) -> Checkpoint | None:
        shelf = self._at.get(segment)
        return None if shelf is None else shelf.held.get(token)

    def _evict(self) -> None:
        lowest = self._lowest()
        if lowest is None:
            raise RuntimeError("a full window pool has nothing to evict")
        self._remove(lowest)

    def _lowest(self) -> Checkpoint | None:
        if not self._ranked:
            self._ranked = True
            for shelf in self._at.values():
                for found in shelf.held.values():
                    self._push(found)
        while self._heap:
            rank, turn, _, found = heapq.heappop(self._heap)
            if self._is_held(found) and turn == found.usage.turn and rank == self._rank(found):
                return found
        return None

    def _is_held(self, found: Checkpoint) -> bool:
        return found.shelf.held.get(found.token) is found

    def _rank(self, found: Checkpoint) -> float:
        """What a lost window costs is the tokens back to the checkpoint before it."""
        if self.eviction.by_turn:
            return found.usage.turn
        facts = ObjectFacts(
            end_token=found.token, tokens=min(found.token, self._period), nbytes=self._bytes
        )
        return self.eviction.rank(found.usage, facts)

    def _push(self, found: Checkpoint) -> None:
        if not self._ranked:
            return
        self._pushed += 1
        entry = (self._rank(found), found.usage.turn, self._pushed, found)
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * self._count + 64:
            live = {}
            for item in self._heap:
                one = item[3]
                if self._is_held(one) and item[1] == one.usage.turn and item[0] == self._rank(one):
                    live[id(one)] = item
            self._heap = list(live.values())
            heapq.heapify(self._heap)

    def _remove(self, found: Checkpoint) -> None:
        if self._on_evict is not None:
            self._on_evict(found)
        self.evicted += 1
        if self._is_held(found):
            self._release(found)

    def _release(self, found: Checkpoint) -> None:
        segment, held = found.segment, found.shelf.held
        del held[found.token]
        if not held:
            del self._at[segment]
        segment.holders -= 1
        self._count -= 1
        self.index.prune(segment)
