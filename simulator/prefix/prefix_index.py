"""A radix tree over runs of block ids: what prefix of a prompt has been seen.

One segment is a run of any length, so memory grows with branches and turns, not with tokens. Ids
are those of a `Trace`: equal leading ids mean an equal prefix, and ids that are private to a
session are already apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from simulator.prefix.segment import Segment

Runs = Sequence[Sequence[int]]


class SplitListener(Protocol):
    """Whoever follows segments."""

    def on_split(self, head: Segment, tail: Segment) -> None:
        """Blocks at the head of `tail` have become a segment of their own, its new parent."""


class Keeper(SplitListener, Protocol):
    """Whoever keeps facts by segment."""

    def same(self, head: Segment, tail: Segment) -> bool:
        """Whether nothing that is kept tells a segment from its only follower."""

    def on_join(self, head: Segment, tail: Segment) -> None:
        """`tail` is about to take in `head`."""


@dataclass(frozen=True, slots=True)
class Match:
    """The leading blocks of a prompt that are in the index.

    `path`: segments from the root; only the last may be matched in part. `blocks`: of the prompt.
    `run`, `offset`: where in the runs the rest of the prompt begins.
    """

    path: tuple[Segment, ...]
    blocks: int
    run: int
    offset: int


class PrefixIndex:
    """Segments by the ids that lead to them.

    `block_tokens`: tokens of a block, by which marks at token positions find their block.
    `joins`: `tidy` joins again what was split, once nothing tells the parts apart; without it,
    pools that are full cut segments to shreds.
    """

    def __init__(self, block_tokens: int = 1, *, joins: bool = False) -> None:
        self.block_tokens = block_tokens
        self._noted: set[Segment] | None = set() if joins else None
        self.root = Segment(None, -1, 0, 0)
        self.segments = 0
        self.blocks = 0
        self.splits = 0
        self._listeners: list[SplitListener] = []
        self._keepers: list[Keeper] = []

    def listen(self, listener: SplitListener) -> None:
        """Tell `listener` of splits from now on."""
        self._listeners.append(listener)

    def serve(self, keeper: Keeper) -> None:
        """Tell `keeper` of splits and joins from now on, and ask it before a join."""
        self.listen(keeper)
        self._keepers.append(keeper)

    def match(self, runs: Runs) -> Match:
        """Longest leading part of a prompt (runs of first id and count) in the index."""
        node, path = self.root, []
        run, offset, blocks = 0, 0, 0
        runs_left = len(runs)
        while run < runs_left:
            child = node.children.get(runs[run][0] + offset)
            if child is None:
                break
            path.append(child)
            same, run, offset = _common(child, runs, run, offset)
            blocks += same
            if same < child.count:
                break
            node = child
        return Match(tuple(path), blocks, run, offset)

    def insert(
        self, runs: Runs, blocks: int | None = None, found: Match | None = None
    ) -> list[Segment]:
        """Add a prompt, or its first `blocks` blocks; returns its path as whole segments.

        `found`: what `match` says of the prompt, if it was just asked.
        """
        found = found or self.match(runs)
        path = list(found.path)
        limit = found.blocks if blocks is None else min(found.blocks, blocks)
        while path and path[-1].start >= limit:
            path.pop()
        if path and path[-1].end > limit:
            path[-1] = self.split(path[-1], limit - path[-1].start)
        if blocks is not None and blocks <= found.blocks:
            return path
        node, start = (path[-1] if path else self.root), found.blocks
        for first, count in _rest(runs, found):
            if blocks is not None:
                count = min(count, blocks - start)
                if not count:
                    break
            node = self._attach(node, first, count, start)
            path.append(node)
            start += count
        return path

    def split(self, segment: Segment, count: int) -> Segment:
        """Make the first `count` blocks a segment of their own; returns it, the new parent.

        `segment` stays the same object with the rest, so that what points at a leaf still does.
        """
        if not 0 < count < segment.count:
            raise ValueError(f"cannot split {count} blocks off {segment!r}")
        parent = _parent(segment)
        head = Segment(parent, segment.first, count, segment.start)
        head.children[segment.first + count] = segment
        head.holders = segment.holders
        parent.children[head.first] = head
        segment.parent = head
        segment.first += count
        segment.start += count
        segment.count -= count
        if segment.marks:
            self._split_marks(head, segment, segment.marks)
        self.segments += 1
        self.splits += 1
        for listener in self._listeners:
            listener.on_split(head, segment)
        self.note(segment)
        return head

    def note(self, segment: Segment) -> None:
        """What is kept of a segment has changed: it may join its neighbours at the next `tidy`."""
        if self._noted is not None:
            self._noted.add(segment)

    def tidy(self) -> None:
        """Join noted segments with their only followers where nothing tells them apart.

        Ends that no pool holds any more are dropped.

        Segments of a path that was found before may be gone afterwards.
        """
        while self._noted:
            segment = self._noted.pop()
            self.prune(segment)
            if segment.parent is None:
                continue
            while segment.parent is not None and self._joinable(segment.parent, segment):
                self._join(segment.parent, segment)
            follower = next(iter(segment.children.values()), None)
            if follower is not None and self._joinable(segment, follower):
                self._join(segment, follower)
                self._noted.add(follower)

    def prune(self, segment: Segment) -> None:
        """Drop a segment that no pool holds and nothing follows, and parents left in that state."""
        while segment.parent is not None and not segment.children:
            if segment.holders or segment.pins:
                return
            parent = segment.parent
            del parent.children[segment.first]
            segment.parent = None
            self.segments -= 1
            self.blocks -= segment.count
            segment = parent

    def holder_of(self, path: Sequence[Segment], token: int) -> Segment:
        """The segment of a path that the token before position `token` (> 0) lies in."""
        block = -(-token // self.block_tokens)
        for segment in reversed(path):
            if segment.start < block <= segment.end:
                return segment
        raise ValueError(f"token {token} is not on a path of {len(path)} segments")

    def add_mark(self, path: Sequence[Segment], token: int, bits: int = 1) -> None:
        """Set bits at a token position of a path; position 0, before all tokens, takes none."""
        if token:
            segment = self.holder_of(path, token)
            segment.mark(token, bits | (segment.marks or {}).get(token, 0))

    def last_mark(self, path: Sequence[Segment], limit: int, bits: int = 1) -> int:
        """Largest position of a path up to `limit` that has one of the bits set, else 0."""
        for segment in reversed(path):
            if segment.marks:
                below = [at for at, set_ in segment.marks.items() if at <= limit and set_ & bits]
                if below:
                    return max(below)
        return 0

    def __iter__(self) -> Iterator[Segment]:
        """All segments, parents before children."""
        waiting = [self.root]
        while waiting:
            segment = waiting.pop()
            waiting.extend(segment.children.values())
            if segment is not self.root:
                yield segment

    def _attach(self, node: Segment, first: int, count: int, start: int) -> Segment:
        child = Segment(node, first, count, start)
        node.children[first] = child
        self.segments += 1
        self.blocks += count
        return child

    def _joinable(self, head: Segment, tail: Segment) -> bool:
        if head.parent is None or len(head.children) > 1 or head.pins or tail.pins:
            return False
        if tail.first != head.first + head.count:
            return False
        return all(keeper.same(head, tail) for keeper in self._keepers)

    def _join(self, head: Segment, tail: Segment) -> None:
        """The follower stays the same object, so that what points at a leaf still does."""
        for keeper in self._keepers:
            keeper.on_join(head, tail)
        parent = _parent(head)
        if head.marks:
            tail.marks = head.marks | (tail.marks or {})
        tail.first, tail.start = head.first, head.start
        tail.count += head.count
        tail.parent = parent
        parent.children[head.first] = tail
        head.parent = None
        head.children = {}
        self.segments -= 1

    def _split_marks(self, head: Segment, tail: Segment, marks: dict[int, int]) -> None:
        border = head.end * self.block_tokens
        head.marks = {token: value for token, value in marks.items() if token <= border} or None
        tail.marks = {token: value for token, value in marks.items() if token > border} or None


def _parent(segment: Segment) -> Segment:
    if segment.parent is None:
        raise ValueError(f"{segment!r} is not in an index")
    return segment.parent


def _common(child: Segment, runs: Runs, run: int, offset: int) -> tuple[int, int, int]:
    """Blocks that a segment shares with the runs from (run, offset) on, and where that ends."""
    same = 0
    while True:
        count = runs[run][1]
        taken = min(child.count - same, count - offset)
        same += taken
        offset += taken
        if offset < count:
            return same, run, offset
        run, offset = run + 1, 0
        # A run may go on where the one before it ended.
        if same == child.count or run == len(runs) or runs[run][0] != child.first + same:
            return same, run, offset


def _rest(runs: Runs, found: Match) -> Iterable[tuple[int, int]]:
    """Runs of a prompt behind what was found."""
    for number in range(found.run, len(runs)):
        first, count = runs[number]
        skipped = found.offset if number == found.run else 0
        if count > skipped:
            yield first + skipped, count - skipped
