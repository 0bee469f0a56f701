"""Runs a scenario: replicas, routing and traffic on one clock, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import simpy

from simulator.basis.errors import InputError
from simulator.serve.arrivals import Arrivals
from simulator.serve.deployment import DeployedReplica, deploy
from simulator.serve.fleet import Fleet
from simulator.serve.live_request import LiveRequest
from simulator.serve.request_log import RequestLog
from simulator.serve.scenario import Scenario
from simulator.serve.step_log import StepLog
from simulator.serve.tiered_prefixes import TieredPrefixes
from simulator.serve.traffic import answered, trace_of
from workloads.traffic.trace import Trace

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRun:
    """What a scenario left: requests, steps by lane, and how many were refused and why.

    `end_ns`: when the last request ended. `chips`: of all replicas.
    `prefixes`: the prefix caches, one a replica, if there are any.
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


def run_scenario(
    scenario: Scenario,
    *,
    deployment: DeployedReplica | None = None,
    prefill: DeployedReplica | None = None,
    trace: Trace | None = None,
    progress: Progress | None = None,
    jumps: bool = True,
) -> ServingRun:
    """Serve all requests of a scenario. `progress` is told (ended, all) now and then."""
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
        arrivals.reply(request)

    def finished(request: LiveRequest) -> None:
        log.write(request, fleet.homes.pop(request.index))
        over(request)

    def submit(request: LiveRequest) -> None:
        if not fleet.submit(request):
            log.write(request, -1)
            over(request)

    fleet = Fleet(env, scenario, deployment, prefill, trace, finished, jumps)
    arrivals = Arrivals(
        env,
        trace,
        submit,
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
