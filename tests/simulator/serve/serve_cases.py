"""A small world for serving tests: a clock by formula, traces by hand, one replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import simpy

from simulator.cost.step_clock import DecodeGroup, PromptChunk
from simulator.serve.live_request import LiveRequest
from simulator.serve.prefix_source import PrefixSource
from simulator.serve.replica import Replica
from simulator.serve.request_log import RequestLog
from simulator.serve.resources import Ledger, Resource
from simulator.serve.run import Arrivals
from simulator.serve.scheduler_rule import SchedulerRule
from workloads.traffic.trace import NO_REQUEST, Trace


@dataclass
class LineClock:
    """1 ms a step, 10 us a decoding request, 3 ns a token of context, 20 us a prompt token.

    Bends where the mean context reaches a multiple of 1,000.
    """

    knee_tokens: int = 2048
    calls: int = field(default=0)

    def decode_ns(self, groups: Sequence[DecodeGroup]) -> float:
        """A pure decode step."""
        self.calls += 1
        return 1e6 + sum(1e4 * g.requests + self._context(g) for g in groups)

    def step_ns(self, groups: Sequence[DecodeGroup], chunks: Sequence[PromptChunk]) -> float:
        """A step with prompts."""
        return self.decode_ns(groups) + sum(2e4 * c.new + 1.5 * c.new * c.past for c in chunks)

    def segment(self, mean: float) -> float:
        """Next multiple of 1,000."""
        return float(int(mean // 1000 + 1) * 1000)

    def _context(self, group: DecodeGroup) -> float:
        whole, rest = divmod(group.mean, 1000)
        return group.requests * (3 * group.mean + (rest if int(whole) % 2 else 1000 - rest))


def trace_of(rows: Sequence[tuple[int, int, int]]) -> Trace:
    """A trace of (arrival ns, input, output), each a session of its own."""
    array = np.array(rows, dtype=np.int64).reshape(-1, 3)
    count = len(array)
    none = np.empty(0, dtype=np.int64)
    return Trace(
        name="by hand",
        block_tokens=0,
        arrival_ns=array[:, 0],
        delay_ns=np.zeros(count, dtype=np.int64),
        input_tokens=array[:, 1],
        output_tokens=array[:, 2],
        session=np.arange(count),
        parent=np.full(count, NO_REQUEST),
        run_offsets=np.zeros(count + 1, dtype=np.int64),
        run_first=none,
        run_count=none,
    )


@dataclass
class World:
    """What a run left."""

    log: RequestLog
    replica: Replica
    env: simpy.Environment


def serve(
    trace: Trace,
    *,
    clock: LineClock | None = None,
    resources: Sequence[Resource] = (),
    rule: SchedulerRule | None = None,
    jumps: bool = True,
    prefixes: PrefixSource | None = None,
) -> World:
    """Serve a trace on one replica."""
    rule = rule or SchedulerRule()
    env = simpy.Environment(0)
    log = RequestLog(len(trace))

    def finished(request: LiveRequest) -> None:
        log.write(request, 0)
        arrivals.reply(request)

    slots = Resource(name="requests", capacity=float(rule.max_requests), fixed=1.0)
    replica = Replica(
        env,
        clock or LineClock(),
        Ledger([*resources, slots]),
        rule,
        finished,
        jumps=jumps,
        prefixes=prefixes,
    )
    arrivals = Arrivals(env, trace, replica.submit)
    env.run()
    return World(log, replica, env)
