"""The decoding requests of a replica: they all advance together, so sums are enough.

The batch counts its steps. A request that joined at step j with context c has c + (s - j) x tokens
a step after s steps; sums over requests below and above the knee of the indexer follow without
looking at any of them. Between changes of the batch a step's time is linear in the number of steps.
"""

from __future__ import annotations

import heapq
import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.cost.step_clock import DecodeGroup, PromptChunk
from simulator.serve.live_request import LiveRequest

LONGEST_JUMP = 4096


class Clock(Protocol):
    """What times steps (`StepClock`, or a law's own)."""

    knee_tokens: int

    def decode_ns(self, groups: list[DecodeGroup]) -> float:
        """A pure decode step."""

    def step_ns(self, groups: list[DecodeGroup], chunks: list[PromptChunk]) -> float:
        """A step with chunks of prompts."""

    def segment(self, mean: float) -> float:
        """Mean context up to which times are linear."""


class _Group:
    """Requests on one side of the knee: number, and sum of context at step 0."""

    __slots__ = ("base", "count")

    def __init__(self) -> None:
        self.count = 0
        self.base = 0.0

    def add(self, base: float, sign: int) -> None:
        self.count += sign
        self.base = self.base + sign * base if self.count else 0.0


class DecodeBatch:
    """Decoding requests under a clock. `tokens_per_step`: mean tokens that each gains a step."""

    def __init__(self, clock: Clock, tokens_per_step: float = 1.0) -> None:
        self.clock = clock
        self.rate = tokens_per_step
        self.steps = 0
        self.requests: dict[int, LiveRequest] = {}
        self._low, self._high = _Group(), _Group()
        self._finishes: list[tuple[int, int]] = []
        self._crossings: list[tuple[int, int]] = []
        self._above: set[int] = set()
        self._line: tuple[int, int, float, float] | None = None
        # What `contexts` adds the steps to, in no order; who is where, and where who is.
        self._own = np.zeros(64)
        self._places: dict[int, int] = {}
        self._at: list[int] = []

    def __len__(self) -> int:
        return len(self.requests)

    def join(self, request: LiveRequest) -> None:
        """A request whose prompt is done and whose first token is out."""
        left = request.output_tokens - request.answered_tokens
        request.joined = self.steps
        # The token that was answered last has no state yet: the next step computes it.
        request.context_at_join = float(request.input_tokens + request.answered_tokens - 1)
        request.finish_step = self.steps + math.ceil(left / self.rate)
        self.requests[request.index] = request
        self._put(request.index, self._base(request) - request.shared_tokens)
        heapq.heappush(self._finishes, (request.finish_step, request.index))
        above = self._context(request) > self.clock.knee_tokens
        self._group(above).add(self._base(request), 1)
        if above:
            self._above.add(request.index)
        else:
            short = self.clock.knee_tokens - request.context_at_join
            crossing = self.steps + math.floor(short / self.rate) + 1
            heapq.heappush(self._crossings, (crossing, request.index))
        self._line = None

    def leave(self, request: LiveRequest) -> None:
        """A request that has finished, or gives way; what it has answered is brought up to date."""
        self._group(request.index in self._above).add(self._base(request), -1)
        self._above.discard(request.index)
        del self.requests[request.index]
        self._take_out(request.index)
        gained = (self.steps - request.joined) * self.rate
        request.answered_tokens = min(
            request.output_tokens, int(request.answered_tokens + gained + 1e-9)
        )
        self._line = None

    def contexts(self) -> NDArray[np.float64]:
        """Tokens in pages of their own of all requests now."""
        return self._own[: len(self.requests)] + self.steps * self.rate

    def groups(self, after: int = 0) -> list[DecodeGroup]:
        """Sums on both sides of the knee, `after` steps from now."""
        gained = (self.steps + after) * self.rate
        return [
            DecodeGroup(requests=g.count, context_sum=g.base + g.count * gained)
            for g in (self._low, self._high)
            if g.count
        ]

    def steps_ahead(self) -> int:
        """Steps to the next end of a request, crossing of the knee or bend of the clock."""
        self._drop_stale()
        line = self._current_line()
        ahead = min(self._finishes[0][0] - self.steps, line[1] - self.steps, LONGEST_JUMP)
        if self._crossings:
            ahead = min(ahead, self._crossings[0][0] - self.steps)
        return max(1, ahead)

    def durations(self, count: int) -> NDArray[np.int64]:
        """ns of each of the next `count` steps (at most `steps_ahead`)."""
        start, _, first, slope = self._current_line()
        places = np.arange(self.steps - start, self.steps - start + count)
        return np.rint(first + slope * places).astype(np.int64)

    def advance(self, count: int) -> list[LiveRequest]:
        """Count steps; returns requests that are done (they have not left yet)."""
        self.steps += count
        while self._crossings and self._crossings[0][0] <= self.steps:
            _, index = heapq.heappop(self._crossings)
            request = self.requests.get(index)
            if request is None or index in self._above:
                continue
            if self._context(request) > self.clock.knee_tokens:  # else it left, and came back
                base = self._base(request)
                self._low.add(base, -1)
                self._high.add(base, 1)
                self._above.add(index)
                self._line = None
        if self._line is not None and self.steps >= self._line[1]:
            self._line = None
        done: dict[int, LiveRequest] = {}  # one that left and came back may have two equal ends
        self._drop_stale()
        while self._finishes and self._finishes[0][0] <= self.steps:
            _, index = heapq.heappop(self._finishes)
            done[index] = self.requests[index]
            self._drop_stale()
        return list(done.values())

    def forget_line(self) -> None:
        """The clock has changed: times are asked for anew."""
        self._line = None

    def _current_line(self) -> tuple[int, int, float, float]:
        """(first step, step after the last, ns of the first, ns that each further step adds)."""
        if self._line is None:
            ahead = LONGEST_JUMP
            for group in self.groups(1):
                room = (self.clock.segment(group.mean) - group.mean) / self.rate
                ahead = min(ahead, max(1, math.floor(room)))
            first = self.clock.decode_ns(self.groups(1))
            last = self.clock.decode_ns(self.groups(ahead)) if ahead > 1 else first
            slope = (last - first) / (ahead - 1) if ahead > 1 else 0.0
            self._line = (self.steps, self.steps + ahead, first, slope)
        return self._line

    def _put(self, index: int, own: float) -> None:
        place = len(self._at)
        if place == len(self._own):
            self._own = np.concatenate([self._own, np.zeros(place)])
        self._own[place] = own
        self._places[index] = place
        self._at.append(index)

    def _take_out(self, index: int) -> None:
        """The last one moves to where this one was."""
        place, last = self._places.pop(index), self._at.pop()
        if last != index:
            self._own[place] = self._own[len(self._at)]
            self._at[place] = last
            self._places[last] = place

    def _drop_stale(self) -> None:
        """Forget ends of requests that have left."""
        heap = self._finishes
        while heap:
            step, index = heap[0]
            request = self.requests.get(index)
            if request is not None and request.finish_step == step:
                return
            heapq.heappop(heap)

    def _context(self, request: LiveRequest) -> float:
        return request.context_at_join + (self.steps - request.joined) * self.rate

    def _base(self, request: LiveRequest) -> float:
        return request.context_at_join - request.joined * self.rate

    def _group(self, above: bool) -> _Group:
        return self._high if above else self._low
