"""One replica: a queue, a scheduler with continuous batching, and its steps on the clock.

A SimPy process. Between two events nothing changes, so equal decode steps up to the next event
(of this replica or of anything else in the simulation) advance in one jump.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from simulator.cost.step_clock import PromptChunk
from simulator.serve.decode_batch import Clock, DecodeBatch
from simulator.serve.host import NO_HOST
from simulator.serve.live_request import UNSET, LiveRequest
from simulator.serve.prefix_source import NoPrefixes, PrefixSource, Served
from simulator.serve.resources import Ledger
from simulator.serve.scheduler_rule import SchedulerRule
from simulator.serve.step_log import StepLog


class Replica:
    """`finished` is called with every request when its last token is out.

    `jumps`: whether equal steps go in one event; a law holds that this changes nothing.
    `hand_over`: a prefill replica calls it with every request whose first token is out, instead of
    decoding it. `drives`: whether it steps by itself; a data rank that steps with others does not.
    """

    def __init__(
        self,
        env: simpy.Environment,
        clock: Clock,
        ledger: Ledger,
        rule: SchedulerRule,
        finished: Callable[[LiveRequest], None],
        *,
        prefixes: PrefixSource | None = None,
        jumps: bool = True,
        hand_over: Callable[[LiveRequest], None] | None = None,
        drives: bool = True,
    ) -> None:
        self.env = env
        self.clock = clock
        self.ledger = ledger
        self.rule = rule
        self.finished = finished
        self.prefixes = prefixes or NoPrefixes()
        self._keeps = not isinstance(self.prefixes, NoPrefixes)
        self.jumps = jumps
        self.hand_over = hand_over
        self.waiting: deque[LiveRequest] = deque()
        self.prompts: list[LiveRequest] = []
        self.batch = DecodeBatch(clock, rule.tokens_per_step)
        self.log = StepLog()
        self._asleep: simpy.Event | None = None
        self._admissions = 0
        self._is_tight = False
        self.wake: Callable[[], None] = self._wake
        if drives:
            self.process = env.process(self._run())

    @property
    def load(self) -> int:
        """Requests in it."""
        return len(self.waiting) + len(self.prompts) + len(self.batch)

    @property
    def outstanding_tokens(self) -> int:
        """Tokens of prompts that wait to be computed."""
        return sum(r.waiting_tokens for r in (*self.waiting, *self.prompts))

    def refuses(self, request: LiveRequest) -> str | None:
        """What the request is too long for even alone, the model or a pool; None if it fits."""
        most, positions = request.input_tokens + request.output_tokens, self.rule.model_positions
        if positions is not None and most > positions:
            return f"the {positions:,} positions of the model"
        for resource in self.ledger.resources:
            if resource.units(most) > resource.capacity:
                return resource.name
        return None

    def submit(self, request: LiveRequest) -> None:
        """A request arrives, one that is not refused."""
        self.waiting.append(request)
        self.wake()

    def _wake(self) -> None:
        if self._asleep is not None and not self._asleep.triggered:
            self._asleep.succeed()

    def _run(self) -> Generator[Any, Any, None]:
        while True:
            self.admit()
            chunks = self.chunks()
            if chunks:
                yield from self._prompt_step(chunks)
            elif len(self.batch):
                yield from self._decode_steps()
            elif self.prompts:
                yield self.env.timeout(max(0, self.next_event_ns() - self.env.now))
            else:
                self._asleep = self.env.event()
                yield self._asleep
                self._asleep = None

    def admit(self) -> None:
        """Take requests in order as long as their prompts fit beside all that is held.

        Assumes: once a request had to give way, none is taken until another one has ended.
        """
        if not self.waiting or (self._is_tight and (len(self.batch) or self.prompts)):
            return
        contexts = self.batch.contexts()
        while self.waiting:
            request = self.waiting[0]
            if self.ledger.fits(request.prompt_tokens + 1, contexts) is not None:
                shared = 0 if request.received else self.prefixes.peek(request)
                own = request.prompt_tokens + 1 - shared
                if not shared or self.ledger.fits(own, contexts) is not None:
                    return
            self.waiting.popleft()
            self._enter(request)
            if len(contexts) != len(self.batch):  # one whose prompt was computed elsewhere
                contexts = self.batch.contexts()

    def _enter(self, request: LiveRequest) -> None:
        now = int(self.env.now)
        if request.admitted_ns == UNSET:
            request.admitted_ns = now
        self._admissions += 1
        request.order = self._admissions
        if request.received:
            # A preempted one has to compute its state here, like any other.
            request.received = False
            self.batch.join(request)
            return
        self.prefixes.make_room(self._free_tokens())
        swapped = self._swapped_in(request)
        served = swapped or self.prefixes.find(request, now)
        # At least the last token is computed: its logits give the first answer.
        request.hit_tokens = min(served.hit_tokens, request.prompt_tokens - 1)
        request.shared_tokens = min(served.shared_tokens, request.hit_tokens)
        if not request.preemptions:
            request.prefix_tokens = request.hit_tokens
        elif swapped is None:
            # The last token had no state of its own yet.
            request.recomputed_tokens += request.prompt_tokens - 1 - request.hit_tokens
        request.computed_tokens = 0
        request.ready_ns = now + served.load_ns
        self.ledger.hold(request.held_tokens)
        self.prompts.append(request)

    def _swapped_in(self, request: LiveRequest) -> Served | None:
        """State that is read back from the host; None where there is none."""
        tokens, request.swapped_tokens = request.swapped_tokens, 0
        if not tokens:
            return None
        return Served(tokens, round(tokens * self.rule.swap_ns_per_token))

    def _free_tokens(self) -> float:
        """Tokens of context that would fit beside all requests."""
        if not self._keeps:
            return 0.0
        contexts, free = self.batch.contexts(), float("inf")
        for i, resource in enumerate(self.ledger.resources):
            if resource.units_per_token:
                used = self.ledger.held[i] + resource.units_of_all(contexts)
                free = min(free, (resource.capacity - used) / resource.units_per_token)
        return max(0.0, free)

    def chunks(self) -> list[tuple[LiveRequest, int]]:
        """Prompts of the next step, and how many of their tokens it computes."""
        if not self.prompts:
            return []
        budget = self.rule.step_tokens * self.rule.data_ranks
        if self.rule.order == "decode-first":
            budget -= len(self.batch) * self.rule.new_per_request
        most = min(budget, self.rule.step_tokens)
        chunks = []
        for request in self.prompts:
            if budget <= 0:
                break
            if request.ready_ns > self.env.now:
                continue
            taken = min(budget, most, request.waiting_tokens)
            chunks.append((request, taken))
            budget -= taken
        return chunks

    def _prompt_step(self, chunks: list[tuple[LiveRequest, int]]) -> Generator[Any, Any, None]:
        start = int(self.env.now)
        decoding = len(self.batch) if self.rule.order == "decode-first" else 0
        if decoding:
            self.make_room(1)
            decoding = len(self.batch)
        groups = self.batch.groups(1) if decoding else []
        parts = [PromptChunk(taken, request.cached_tokens) for request, taken in chunks]
        kernels = self.clock.step_ns(groups, parts)
        duration = self._whole_ns(self.rule.host.prompt_step_ns(kernels, len(parts), decoding))
        tokens = sum(taken for _, taken in chunks)
        self.log.add(start, 1, duration, decoding, tokens, len(chunks))
        yield self.env.timeout(duration)
        if decoding:
            self.finish(self.batch.advance(1))
        for request, taken in chunks:
            if request.order and request in self.prompts:
                self.computed(request, taken)

    def computed(self, request: LiveRequest, tokens: int) -> None:
        """A step has computed tokens of a prompt."""
        request.computed_tokens += tokens
        request.prefilled_tokens += tokens
        if request.waiting_tokens:
            return
        now = int(self.env.now)
        self.prompts.remove(request)
        self.ledger.hold(request.held_tokens, -1)
        request.answered_tokens += 1
        self.prefixes.answered(request, now)
        if request.first_token_ns == UNSET:
            request.first_token_ns = now
        if request.answered_tokens < request.output_tokens:
            if self.hand_over is not None:
                self.hand_over(request)
            else:
                self.batch.join(request)
        else:
            self._end(request)

    def _decode_steps(self) -> Generator[Any, Any, None]:
        if not self.make_room(1):
            return
        start = int(self.env.now)
        count = self.batch.steps_ahead() if self.jumps else 1
        if count > 1:
            count = max(1, self.steps_that_fit(count))
        durations = self._durations(count)
        ends = np.cumsum(durations)
        until = self.next_event_ns()
        if until < start + ends[-1]:
            # The step that is under way when something happens is finished first.
            count = int(np.searchsorted(ends, until - start, side="left")) + 1
            count = min(count, len(ends))
        total = int(ends[count - 1])
        self.log.add(start, count, total, len(self.batch))
        yield self.env.timeout(total)
        self.finish(self.batch.advance(count))

    def _durations(self, count: int) -> NDArray[np.int64]:
        kernels = self.batch.durations(count)
        if self.rule.host is not NO_HOST:
            times = self.rule.host.decode_ns(kernels.astype(np.float64), len(self.batch))
            kernels = np.rint(times).astype(np.int64)
        return kernels + self.rule.step_overhead_ns

    def next_event_ns(self) -> float:
        """Next moment at which the batch may change from outside: arrivals, loads."""
        soonest = self.env.peek()
        for request in self.prompts:
            soonest = min(soonest, request.ready_ns)
        return soonest

    def steps_that_fit(self, most: int) -> int:
        """Decode steps, up to `most`, after which all requests still fit."""
        return self.ledger.steps_that_fit(self.batch.contexts(), self.rule.tokens_per_step, most)

    def make_room(self, steps: int) -> bool:
        """Let the last to come give way until the others fit; False when none is left."""
        while len(self.batch) and self.steps_that_fit(steps) < steps:
            last = max(self.batch.requests.values(), key=lambda request: request.order)
            self._preempt(last)
        return len(self.batch) > 0

    def _preempt(self, request: LiveRequest) -> None:
        """Back to the head of the queue; what it has answered becomes part of its prompt.

        Assumes: a request that is swapped out is written while others compute, and is read back
            before it goes on.
        """
        self.batch.leave(request)
        self._is_tight = True
        request.preemptions += 1
        request.shared_tokens = 0
        request.prompt_tokens = request.input_tokens + request.answered_tokens
        if self.rule.preempt == "swap":
            request.swapped_tokens = request.prompt_tokens - 1
        self.waiting.appendleft(request)

    def finish(self, done: list[LiveRequest]) -> None:
        """Requests whose last token is out."""
        for request in done:
            self.batch.leave(request)
            self._end(request)

    def _end(self, request: LiveRequest) -> None:
        """The last token is out."""
        self._is_tight = False
        request.shared_tokens = 0
        request.answered_tokens = request.output_tokens
        request.finish_ns = int(self.env.now)
        self.prefixes.make_room(self._free_tokens())
        self.prefixes.store(request, request.finish_ns)
        self.finished(request)

    def _whole_ns(self, duration: float) -> int:
        return round(duration) + self.rule.step_overhead_ns
