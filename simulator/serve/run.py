"""Runs a scenario: replicas, routing and traffic on one clock, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import simpy

from simulator.basis.errors import InputError
from simulator.serve.arrivals import Arrivals
from simulator.serve.deployment import Deployment, deploy
from simulator.serve.live_request import LiveRequest
from simulator.serve.replica import NoPrefixes, PrefixSource, Replica
from simulator.serve.request_log import RequestLog
from simulator.serve.resources import Ledger
from simulator.serve.router import ROUTES
from simulator.serve.scenario import Scenario
from simulator.serve.step_log import StepLog
from simulator.serve.traffic import trace_of
from workloads.traffic.trace import Trace

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRun:
    """What a scenario left: requests, steps by lane, and how many were refused and why.

    `end_ns`: when the last request ended. `chips`: of all replicas.
    """

    scenario: Scenario
    trace: Trace
    deployment: Deployment
    requests: RequestLog
    steps: tuple[StepLog, ...]
    refused: dict[str, int]
    end_ns: int
    chips: int


class _Fleet:
    """Replicas of a scenario (a pipeline lane counts as one) and the way to them."""

    def __init__(self, env: simpy.Environment, scenario: Scenario, deployment: Deployment) -> None:
        self.env = env
        self.scenario = scenario
        self.deployment = deployment
        self.choose = ROUTES[scenario.routing]
        self.turn = 0
        self.refused: dict[str, int] = {}
        self.homes: dict[int, int] = {}
        self.replicas: list[Replica] = []

    def build(self, finished: Callable[[LiveRequest], None], trace: Trace, jumps: bool) -> None:
        """Make the replicas."""
        for _ in range(self.scenario.replicas):
            prefixes = prefixes_of(self.scenario, self.deployment, trace)
            for _ in range(self.deployment.lanes):
                self.replicas.append(
                    Replica(
                        self.env,
                        self.deployment.clock,
                        Ledger(self.deployment.resources),
                        self.deployment.rule,
                        finished,
                        prefixes=prefixes,
                        jumps=jumps,
                    )
                )

    def submit(self, request: LiveRequest) -> bool:
        """Send a request to a replica; False where it could not be held even alone."""
        place = self.choose(self.replicas, request, self.turn)
        self.turn += 1
        reason = self.replicas[place].refuses(request)
        if reason is not None:
            self.refused[reason] = self.refused.get(reason, 0) + 1
            return False
        self.homes[request.index] = place
        self.replicas[place].submit(request)
        return True


def prefixes_of(scenario: Scenario, deployment: Deployment, trace: Trace) -> PrefixSource:
    """The prefix cache of one replica."""
    return NoPrefixes()


def run_scenario(
    scenario: Scenario,
    *,
    deployment: Deployment | None = None,
    trace: Trace | None = None,
    progress: Progress | None = None,
    jumps: bool = True,
) -> ServingRun:
    """Serve all requests of a scenario. `progress` is told (ended, all) now and then."""
    deployment = deployment or deploy(scenario)
    trace = trace if trace is not None else trace_of(scenario)
    env = simpy.Environment(0)
    log = RequestLog(len(trace))
    fleet = _Fleet(env, scenario, deployment)
    ended = 0

    def over(request: LiveRequest) -> None:
        nonlocal ended
        ended += 1
        if progress is not None and ended % 256 == 0:
            progress(ended, len(trace))
        arrivals.reply(request)

    def finished(request: LiveRequest) -> None:
        log.write(request, fleet.homes.pop(request.index))
        over(request)

    def submit(request: LiveRequest) -> None:
        if not fleet.submit(request):
            log.write(request, -1)
            over(request)

    fleet.build(finished, trace, jumps)
    arrivals = Arrivals(
        env,
        trace,
        submit,
        rate_scale=scenario.traffic.rate_scale,
        sessions_at_once=_sessions_at_once(scenario),
        longest_wait_ns=_ns(scenario.traffic.longest_wait_s),
    )
    env.run()
    if progress is not None:
        progress(len(trace), len(trace))
    chips = scenario.replicas * scenario.chips_per_replica
    return ServingRun(
        scenario=scenario,
        trace=trace,
        deployment=deployment,
        requests=log,
        steps=tuple(replica.log for replica in fleet.replicas),
        refused=fleet.refused,
        end_ns=int(log.column("finish_ns").max(initial=0)),
        chips=chips,
    )


def _sessions_at_once(scenario: Scenario) -> int | None:
    made = scenario.traffic.made
    if scenario.traffic.concurrency is not None:
        return scenario.traffic.concurrency
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
