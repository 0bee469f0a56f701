"""A pool of single blocks under any policy of `evictions/`: hits of prompts, prefixes kept closed.

The pool of segments ranks objects by what a use leaves behind; queues, ghosts and second chances
ask for single blocks.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from simulator.prefix.evictions.arc import Arc
from simulator.prefix.evictions.gdsf import GreedyDual
from simulator.prefix.evictions.lfu import DecayedLfu
from simulator.prefix.evictions.policy import BlockPolicy, Use
from simulator.prefix.evictions.predicted import PredictedTtl
from simulator.prefix.evictions.s3fifo import S3Fifo
from simulator.prefix.evictions.sieve import Sieve
from simulator.prefix.known_prefix import Advance, run_lists
from workloads.traffic.trace import Trace

Make = Callable[[int, float | None, int], BlockPolicy]  # capacity, value, tokens of a block
# Name: what makes it, and the value that it takes where none is given (None: it takes none).
BLOCK_POLICIES: dict[str, tuple[Make, float | None]] = {
    "sieve": (lambda capacity, value, tokens: Sieve(capacity), None),
    "s3fifo": (lambda capacity, value, tokens: S3Fifo(capacity), None),
    "arc": (lambda capacity, value, tokens: Arc(capacity), None),
    "gdsf": (lambda capacity, value, tokens: GreedyDual(capacity, tokens), None),
    "lfu": (lambda capacity, value, tokens: DecayedLfu(capacity, value or 1.0), 1000.0),
    "predict": (lambda capacity, value, tokens: PredictedTtl(capacity, value or 1.0), 300.0),
}


def parse_block_policy(text: str) -> Callable[[int, int], BlockPolicy] | None:
    """What makes a policy of a name such as `lfu:500` (capacity, tokens of a block).

    None for a name that is none of these; raises InputError for a value that does not do.
    """
    name, colon, value = text.partition(":")
    if name not in BLOCK_POLICIES:
        return None
    make, default = BLOCK_POLICIES[name]
    number = default
    if colon:
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if default is None:
            raise InputError(f"eviction policy {text!r}: {name} takes no value, write {name!r}")
        if not 0 < number < 1e12:
            raise InputError(
                f"eviction policy {text!r}: {name} takes a number above 0, such as "
                f"'{name}:{default:g}'"
            )
    return lambda capacity, tokens: make(capacity, number, tokens)


class BlockPool:
    """At most `capacity` blocks; of a prefix only the end can leave."""

    def __init__(self, capacity: int, policy: BlockPolicy) -> None:
        self.capacity = capacity
        self.policy = policy
        self.peak = 0
        self._numbers: dict[tuple[int, int], int] = {}
        self._parent: list[int] = []
        self._children: dict[int, int] = {}  # of what is held: blocks held that need it
        self._queue: dict[int, int] = {}  # of what is held, as it was counted
        self._sizes = [0] * policy.queues
        self._heaps: list[list[tuple[tuple[float, ...], int]]] = [[] for _ in self._sizes]

    def ask(self, ids: Sequence[int], turn: int, now_s: float = 0.0) -> int:
        """Leading blocks that are held; then the prompt is, as far as others can leave for it."""
        self._expire(now_s)
        path = self._path(ids)
        hit = 0
        while hit < len(path) and path[hit] in self._children:
            hit += 1
        for depth in range(hit - 1, -1, -1):
            self.policy.used(path[depth], Use(turn, now_s, depth))
            self._counted(path[depth])
        own = set(path)
        for depth in range(hit, len(path)):
            self.policy.wanted(path[depth])
            if len(self._children) >= self.capacity and not self._evict(own, turn, now_s):
                break
            self._hold(path[depth], Use(turn, now_s, depth))
        self.peak = max(self.peak, len(self._children))
        return hit

    def _path(self, ids: Sequence[int]) -> list[int]:
        """Numbers of the blocks of a prompt: of their ids and all before them."""
        path, before = [], -1
        for block in ids:
            number = self._numbers.setdefault((before, block), len(self._numbers))
            if number == len(self._parent):
                self._parent.append(before)
            path.append(number)
            before = number
        return path

    def _hold(self, block: int, use: Use) -> None:
        self._children[block] = 0
        above = self._parent[block]
        if above >= 0:
            self._children[above] += 1
        self.policy.stored(block, use)
        self._queue[block] = self.policy.queue(block)
        self._sizes[self._queue[block]] += 1
        self._push(block)

    def _counted(self, block: int) -> None:
        """A block's queue and rank have changed."""
        queue = self.policy.queue(block)
        self._sizes[self._queue[block]] -= 1
        self._sizes[queue] += 1
        self._queue[block] = queue
        self._push(block)

    def _push(self, block: int) -> None:
        if not self._children[block]:
            heapq.heappush(self._heaps[self._queue[block]], (self.policy.rank(block), block))

    def _evict(self, own: set[int], turn: int, now_s: float) -> bool:
        """Let one end leave that is not of the prompt; False where there is none."""
        passed: list[int] = []
        block = self._lowest(own, passed)
        while block is not None and self.policy.spares(block, Use(turn, now_s, 0)):
            self._counted(block)
            block = self._lowest(own, passed)
        for other in passed:
            self._push(other)
        if block is not None:
            self._drop(block)
        return block is not None

    def _lowest(self, own: set[int], passed: list[int]) -> int | None:
        first = self.policy.first(self._sizes)
        for queue in (first, *(q for q in range(len(self._heaps)) if q != first)):
            heap = self._heaps[queue]
            while heap:
                rank, block = heapq.heappop(heap)
                if self._queue.get(block) != queue or self._children[block]:
                    continue
                if rank != self.policy.rank(block):
                    continue
                if block not in own:
                    return block
                passed.append(block)
        return None

    def _drop(self, block: int) -> None:
        queue = self._queue.pop(block)
        self._sizes[queue] -= 1
        del self._children[block]
        above = self._parent[block]
        if above >= 0:
            self._children[above] -= 1
            self._push(above)
        self.policy.left(block, queue)

    def _expire(self, now_s: float) -> None:
        for heap in self._heaps:
            while heap:
                rank, block = heap[0]
                current = block in self._queue and not self._children[block]
                if not current or rank != self.policy.rank(block):
                    heapq.heappop(heap)
                elif self.policy.expired(block, now_s):
                    heapq.heappop(heap)
                    self._drop(block)
                else:
                    break


def block_hits(
    trace: Trace,
    make: Callable[[int, int], BlockPolicy],
    capacity_blocks: int,
    advance: Advance | None = None,
) -> tuple[NDArray[np.int64], int]:
    """Leading blocks of each prompt that a pool holds when it arrives, and the pool's peak."""
    pool = BlockPool(capacity_blocks, make(capacity_blocks, trace.block_tokens))
    arrivals_s = (np.maximum(trace.arrival_ns, 0) / 1e9).tolist()
    now_s, hits = 0.0, []
    for request, runs in enumerate(run_lists(trace)):
        now_s = max(now_s, arrivals_s[request])
        ids = [first + n for first, count in runs for n in range(count)]
        hits.append(pool.ask(ids, request, now_s))
        if advance is not None:
            advance(request)
    return np.array(hits, dtype=np.int64), pool.peak
