"""A segment: a run of consecutive block ids on the way from the root of a prefix index."""

from __future__ import annotations


class Segment:
    """Blocks `first .. first + count - 1` of a prompt, at block positions `start .. end - 1`.

    `marks`: bits set at token positions within the segment (where windows are kept), or None. The
    position of a mark is the number of tokens before it, so that it belongs to the block that it
    ends in. `holders`: how many pools hold the segment's
    blocks. `pins`: how many are at work on it, so that it must not be dropped.
    """

    __slots__ = ("children", "count", "first", "holders", "marks", "parent", "pins", "start")

    def __init__(self, parent: Segment | None, first: int, count: int, start: int) -> None:
        self.parent = parent
        self.first = first
        self.count = count
        self.start = start
        self.children: dict[int, Segment] = {}
        self.marks: dict[int, int] | None = None
        self.holders = 0
        self.pins = 0

    def __repr__(self) -> str:
        return f"Segment(blocks {self.start}..{self.end}, ids from {self.first})"

    @property
    def end(self) -> int:
        """Block position after the last block."""
        return self.start + self.count

    def mark(self, token: int, bits: int) -> None:
        """Set the bits of a token position."""
        if self.marks is None:
            self.marks = {}
        self.marks[token] = bits
