"""Runs a scenario: replicas, routing and traffic on one clock, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from simulator.basis.errors import InputError
from simulator.serve.deployment import DeployedReplica, deploy
from simulator.serve.fleet import Fleet, Transfers
from simulator.serve.host import HostTime
from simulator.serve.live_request import LiveRequest
from simulator.serve.request_log import RequestLog
from simulator.serve.scenario import Scenario
from simulator.serve.step_log import StepLog
from simulator.serve.tiered_prefixes import TieredPrefixes
from simulator.serve.traffic import answered, trace_of, whole_times
from workloads.traffic.trace import NO_REQUEST, NO_TIME, Trace

Submit = Callable[[LiveRequest], None]


class Arrivals:
    """Feeds a trace to `submit`; `reply` is to be called with each request that has ended.

    Requests with an arrival time come by the clock; those that follow a reply come after it and
    their wait. With `sessions_at_once` the loop is closed: a session begins when another has ended.

    `rate_scale`: arrivals come so many times as fast; `longest_wait_ns`: idle gaps are cut to it.
    """

    def __init__(
        self,
        env: simpy.Environment,
        trace: Trace,
        submit: Submit,
        *,
        rate_scale: float = 1.0,
        sessions_at_once: int | None = None,
        longest_wait_ns: int | None = None,
    ) -> None:
        self.env = env
        self.trace = trace
        self.submit = submit
        self.longest_wait_ns = longest_wait_ns
        self._children = _children(trace)
        self._open = _left(trace)
        self.started = 0
        with np.errstate(over="ignore"):
            self._times_ns = whole_times(trace.arrival_ns / rate_scale)
        if sessions_at_once is None:
            env.process(self._by_the_clock())
        else:
            self._waiting = iter(_session_roots(trace))
            for _ in range(sessions_at_once):
                self._next_session()
        self._closed = sessions_at_once is not None

    def reply(self, request: LiveRequest) -> None:
        """The request has ended (or was refused): its followers come after their wait."""
        index = request.index
        for child in self._children.get(index, ()):
            delay = int(self.trace.delay_ns[child])
            if self.longest_wait_ns is not None:
                delay = min(delay, self.longest_wait_ns)
            self._later(child, delay)
        session = int(self.trace.session[index])
        self._open[session] -= 1
        if self._closed and not self._open[session]:
            self._next_session()

    def _by_the_clock(self) -> Generator[Any, Any, None]:
        timed = np.flatnonzero(self.trace.arrival_ns != NO_TIME)
        order = timed[np.argsort(self.trace.arrival_ns[timed], kind="stable")]
        for index in order.tolist():
            wait = int(self._times_ns[index]) - int(self.env.now)
            if wait > 0:
                yield self.env.timeout(wait)
            self._submit(index)
        for root in np.flatnonzero((self.trace.arrival_ns == NO_TIME) & _is_root(self.trace)):
            self._submit(int(root))

    def _next_session(self) -> None:
        roots = next(self._waiting, None)
        for root in roots or ():
            self._later(root, 0)

    def _later(self, index: int, delay_ns: int) -> None:
        event = self.env.timeout(delay_ns)
        event.callbacks.append(lambda _: self._submit(index))

    def _submit(self, index: int) -> None:
        self.started += 1
        self.submit(
            LiveRequest(
                index=index,
                arrival_ns=int(self.env.now),
                input_tokens=int(self.trace.input_tokens[index]),
                output_tokens=int(self.trace.output_tokens[index]),
            )
        )


class FrontDoor:
    """HTTP and tokenizer in front of all replicas, one request after the other.

    Assumes: one process takes requests in, as SGLang's tokenizer manager does.
    """

    def __init__(self, env: simpy.Environment, host: HostTime, enter: Submit) -> None:
        self.env = env
        self.host = host
        self.enter = enter
        self._free_ns = 0

    def submit(self, request: LiveRequest) -> None:
        """A client sends a request; it enters when it has been read and cut into tokens."""
        work = round(self.host.client_ns(request.input_tokens))
        if not work:
            self.enter(request)
            return
        now = int(self.env.now)
        self._free_ns = max(now, self._free_ns) + work
        event = self.env.timeout(self._free_ns - now)

        def arrive(_: object) -> None:
            request.arrival_ns = int(self.env.now)
            self.enter(request)

        event.callbacks.append(arrive)


def _is_root(trace: Trace) -> np.ndarray:
    return trace.parent == NO_REQUEST


def _children(trace: Trace) -> dict[int, list[int]]:
    """Requests that wait for a reply, by the request which they wait for.

    A request that has both a parent and an arrival time comes by the clock.
    """
    children: dict[int, list[int]] = {}
    following = np.flatnonzero((trace.parent != NO_REQUEST) & (trace.arrival_ns == NO_TIME))
    for child in following.tolist():
        children.setdefault(int(trace.parent[child]), []).append(child)
    return children


def _left(trace: Trace) -> np.ndarray:
    """Requests of every session that have not ended."""
    return np.bincount(trace.session, minlength=trace.sessions)


def _session_roots(trace: Trace) -> list[list[int]]:
    """First requests of every session, in the order in which sessions begin in the trace."""
    roots: dict[int, list[int]] = {}
    for index in np.flatnonzero(_is_root(trace)).tolist():
        roots.setdefault(int(trace.session[index]), []).append(index)
    return list(roots.values())


Progress = Callable[[int, int], None]
# Of a request that has ended or was refused: whether the rest need not be served.
Enough = Callable[[LiveRequest], bool]


class StoppedRunError(Exception):
    """A run was given up, as its caller had asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRun:
    """What a scenario left: requests, steps by lane, and how many were refused and why.

    `end_ns`: when the last request ended. `chips`: of all replicas.
    `prefixes`: the prefix caches, one a replica, if there are any. `transfers`: what prefill
    replicas sent to decode ones, None where there are none.
    """

    scenario: Scenario
    trace: Trace
    deployment: DeployedReplica
    requests: RequestLog
    steps: tuple[StepLog, ...]
    refused: dict[str, int]
    end_ns: int
    chips: int
    prefixes: tuple[TieredPrefixes, ...] = ()
    transfers: Transfers | None = None


def run_scenario(
    scenario: Scenario,
    *,
    deployment: DeployedReplica | None = None,
    prefill: DeployedReplica | None = None,
    trace: Trace | None = None,
    progress: Progress | None = None,
    enough: Enough | None = None,
    jumps: bool = True,
) -> ServingRun:
    """Serve all requests of a scenario. `progress` is told (ended, all) now and then.

    Raises StoppedRunError once `enough`, asked of each request that has ended, says so.
    """
    deployment = deployment or deploy(scenario)
    split = scenario.disaggregation
    if split is not None and prefill is None:
        prefill = deploy(scenario, split.prefill_parallel)
    trace = answered(trace) if trace is not None else trace_of(scenario)
    env = simpy.Environment(0)
    log = RequestLog(len(trace))
    ended = 0

    def over(request: LiveRequest) -> None:
        nonlocal ended
        ended += 1
        if progress is not None and ended % 256 == 0:
            progress(ended, len(trace))
        if enough is not None and enough(request):
            raise StoppedRunError
        arrivals.reply(request)

    def finished(request: LiveRequest) -> None:
        log.write(request, fleet.homes.pop(request.index))
        over(request)

    door = FrontDoor(env, deployment.rule.host, lambda request: enter(request))

    def enter(request: LiveRequest) -> None:
        if not fleet.submit(request):
            log.write(request, -1)
            over(request)

    fleet = Fleet(env, scenario, deployment, prefill, trace, finished, jumps)
    arrivals = Arrivals(
        env,
        trace,
        door.submit,
        rate_scale=scenario.traffic.rate_scale,
        sessions_at_once=_sessions_at_once(scenario),
        longest_wait_ns=_ns(scenario.traffic.longest_wait_s),
    )
    env.run()
    for prefixes in fleet.prefixes:
        prefixes.count_to(int(env.now))
    if progress is not None:
        progress(len(trace), len(trace))
    return ServingRun(
        scenario=scenario,
        trace=trace,
        deployment=deployment,
        requests=log,
        steps=tuple(replica.log for replica in fleet.replicas),
        refused=fleet.refused,
        end_ns=int(log.column("finish_ns").max(initial=0)),
        chips=scenario.chips,
        prefixes=fleet.prefixes,
        transfers=None if fleet.transfer is None else fleet.transfer.transfers,
    )


def _sessions_at_once(scenario: Scenario) -> int | None:
    made, client = scenario.traffic.made, scenario.traffic.client
    if scenario.traffic.concurrency is not None:
        return scenario.traffic.concurrency
    if client is not None:
        return client.concurrency
    return made.concurrency if made is not None else None


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)


def require_finished(run: ServingRun) -> None:
    """Raise InputError where no request could be served at all."""
    if not run.requests.finished.any():
        reasons = ", ".join(f"{n:,} for {name}" for name, n in run.refused.items())
        raise InputError(
            f"none of the {len(run.requests):,} requests fits the deployment even alone "
            f"({reasons}); v4sim capacity says what would"
        )
