"""Data-parallel attention ranks that step together: queues of their own, one step for all.

Every layer meets in the exchange of experts, so that a step lasts as long as its slowest rank. A
prompt on one rank stalls the others: they decode in the same step, or wait, by engine.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from simulator.cost.step_clock import DecodeGroup, PromptChunk
from simulator.serve.live_request import LiveRequest
from simulator.serve.rank_clock import RankClock
from simulator.serve.replica import Replica

Chunks = list[tuple[LiveRequest, int]]


class Lockstep:
    """Steps of ranks (replicas without a process of their own), each with a `RankClock`.

    `delayer_passes`: decode steps for which prompts wait until every rank has one; 0: none.
    """

    def __init__(
        self, env: simpy.Environment, ranks: Sequence[Replica], *, delayer_passes: int = 0
    ) -> None:
        self.env = env
        self.ranks = tuple(ranks)
        self.rule = ranks[0].rule
        self.host = ranks[0].rule.host
        self._passes = delayer_passes
        self._passed = 0
        self._asleep: simpy.Event | None = None
        for rank in ranks:
            rank.wake = self._wake
        self.process = env.process(self._run())

    def _wake(self) -> None:
        if self._asleep is not None and not self._asleep.triggered:
            self._asleep.succeed()

    def _run(self) -> Generator[Any, Any, None]:
        while True:
            plans = self._plans()
            if any(plans) and not self._held(plans):
                self._passed = 0
                yield from self._prompt_step(plans)
            elif any(len(rank.batch) for rank in self.ranks):
                yield from self._decode_steps(held=any(plans))
            elif any(rank.prompts for rank in self.ranks):
                soonest = min(rank.next_event_ns() for rank in self.ranks)
                yield self.env.timeout(max(0, soonest - self.env.now))
            else:
                self._asleep = self.env.event()
                yield self._asleep
                self._asleep = None

    def _plans(self) -> list[Chunks]:
        """Prompt chunks of every rank."""
        for rank in self.ranks:
            rank.admit()
        return [rank.chunks() for rank in self.ranks]

    def _held(self, plans: Sequence[Chunks]) -> bool:
        """Whether prompts wait for those of other ranks, while there is something to decode."""
        if not self._passes or all(plans) or self._passed >= self._passes:
            return False
        return any(len(rank.batch) for rank in self.ranks)

    def _prompt_step(self, plans: Sequence[Chunks]) -> Generator[Any, Any, None]:
        start = int(self.env.now)
        decoding = [self._decodes(rank, plan) for rank, plan in zip(self.ranks, plans, strict=True)]
        tokens = [
            sum(taken for _, taken in plan) + self.rule.new_per_request * count
            for plan, count in zip(plans, decoding, strict=True)
        ]
        kernels = 0.0
        for rank, plan, count in zip(self.ranks, plans, decoding, strict=True):
            if plan or count:
                groups = rank.batch.groups(1) if count else []
                kernels = max(kernels, _rank_ns(rank, groups, plan, sum(tokens)))
        prompts = max(len(plan) for plan in plans)
        time = self.host.prompt_step_ns(kernels, prompts, max(decoding))
        duration = round(time) + self.rule.step_overhead_ns
        for rank, plan, count in zip(self.ranks, plans, decoding, strict=True):
            if plan or count:
                fresh = sum(taken for _, taken in plan)
                rank.log.add(start, 1, duration, count, fresh, len(plan))
        yield self.env.timeout(duration)
        for rank, plan, count in zip(self.ranks, plans, decoding, strict=True):
            if count:
                rank.finish(rank.batch.advance(1))
            for request, taken in plan:
                if request.order and request in rank.prompts:
                    rank.computed(request, taken)

    def _decodes(self, rank: Replica, plan: Chunks) -> int:
        """Requests that a rank decodes in a step in which some rank has a prompt."""
        if self.rule.order != "decode-first" and (plan or self.rule.waits_beside_prompts):
            return 0
        rank.make_room(1)
        return len(rank.batch)

    def _decode_steps(self, *, held: bool) -> Generator[Any, Any, None]:
        for rank in self.ranks:
            rank.make_room(1)
        busy = [rank for rank in self.ranks if len(rank.batch)]
        if not busy:
            return
        self._pad(busy)
        start = int(self.env.now)
        count = self._steps_ahead(busy)
        if held:
            count = min(count, self._passes - self._passed)
        kernels = np.max([rank.batch.durations(count) for rank in busy], axis=0)
        fullest = max(len(rank.batch) for rank in busy)
        durations = np.rint(self.host.decode_ns(kernels, fullest)).astype(np.int64)
        durations += self.rule.step_overhead_ns
        ends = np.cumsum(durations)
        until = min(rank.next_event_ns() for rank in self.ranks)
        if until < start + ends[-1]:
            # The step that is under way when something happens is finished first.
            count = min(int(np.searchsorted(ends, until - start, side="left")) + 1, len(ends))
        total = int(ends[count - 1])
        self._passed = self._passed + count if held else 0
        for rank in busy:
            rank.log.add(start, count, total, len(rank.batch))
        yield self.env.timeout(total)
        for rank in busy:
            rank.finish(rank.batch.advance(count))

    def _pad(self, busy: Sequence[Replica]) -> None:
        """All ranks run the captured size of the fullest."""
        clocks = [_clock_of(rank) for rank in busy]
        pairs = list(zip(busy, clocks, strict=True))
        floor = max(clock.padded(len(rank.batch)) for rank, clock in pairs)
        for rank, clock in pairs:
            if clock.floor != floor:
                clock.floor = floor
                rank.batch.forget_line()

    def _steps_ahead(self, busy: Sequence[Replica]) -> int:
        if not busy[0].jumps:
            return 1
        count = min(rank.batch.steps_ahead() for rank in busy)
        if count > 1:
            count = max(1, min(rank.steps_that_fit(count) for rank in busy))
        return count


def _clock_of(rank: Replica) -> RankClock:
    assert isinstance(rank.clock, RankClock)
    return rank.clock


def _rank_ns(rank: Replica, groups: list[DecodeGroup], plan: Chunks, everyone: int) -> float:
    parts = [PromptChunk(taken, request.cached_tokens) for request, taken in plan]
    return _clock_of(rank).step_ns(groups, parts, everyone)
