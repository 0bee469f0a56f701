"""What a pool of blocks asks of an eviction policy; a policy is one file with these methods."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a block: the request's number, the clock, and blocks before it in its prompt.

    `order`: uses in order of time; of one request the end of a prompt comes before its beginning.
    """

    turn: int
    now_s: float
    depth: int

    @property
    def order(self) -> tuple[int, int]:
        """Compares uses."""
        return self.turn, -self.depth


class BlockPolicy:
    """Least recently used; the others say what differs.

    Blocks are numbers. The pool asks for the lowest rank among the ends that it holds, first in the
    queue that `first` names, then in the others.
    """

    queues = 1

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.last: dict[int, Use] = {}

    def wanted(self, block: int) -> None:
        """A block is about to be stored; room for it is made next."""

    def stored(self, block: int, use: Use) -> None:
        """A block is held from now on."""
        self.last[block] = use

    def used(self, block: int, use: Use) -> None:
        """A block that is held was hit."""
        self.last[block] = use

    def rank(self, block: int) -> tuple[float, ...]:
        """The lowest leaves first; it changes only in the calls above and in `spares`."""
        return self.last[block].order

    def queue(self, block: int) -> int:
        """Where a block stands."""
        return 0

    def first(self, sizes: list[int]) -> int:
        """The queue to take from, by the blocks held in each."""
        return 0

    def spares(self, block: int, now: Use) -> bool:
        """Whether the block of the lowest rank stays after all, at a rank that has changed."""
        return False

    def left(self, block: int, queue: int) -> None:
        """A block is gone."""
        del self.last[block]

    def expired(self, block: int, now_s: float) -> bool:
        """Whether a block is gone though there is room."""
        return False
