"""How a plan fares when traffic or kernels differ from what was assumed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simulator.plan.outcome import Outcome, outcome_of
from simulator.serve.deployment import DeployedReplica
from simulator.serve.interval import ScaledClock, kernel_factors
from simulator.serve.run import run_scenario
from simulator.serve.scenario import Scenario
from workloads.traffic.trace import Trace

TRAFFIC_CHANGES = (0.8, 1.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """One change, in words, and what the plan then achieves."""

    name: str
    outcome: Outcome


def sensitivity(
    outcome: Outcome, deployment: DeployedReplica, trace: Trace
) -> tuple[Sensitivity, ...]:
    """The plan at 20 % less and more traffic, and with kernels at p10 and p90 of their interval.

    Assumes: all steps of a plan are off by the same factor, that of a decode step of 8,192 tokens.
    """
    candidate, replicas = outcome.candidate, outcome.replicas
    found = []
    for factor in TRAFFIC_CHANGES:
        name = f"traffic {factor - 1:+.0%}"
        scenario = candidate.with_replicas(replicas)
        run = run_scenario(_scaled(scenario, factor), deployment=deployment, trace=trace)
        found.append(Sensitivity(name=name, outcome=outcome_of(candidate, replicas, run)))
    for name, factor in zip(
        ("kernels at p10", "kernels at p90"), kernel_factors(candidate.scenario), strict=True
    ):
        slower = replace(deployment, clock=ScaledClock(deployment.clock, factor))
        scenario = candidate.with_replicas(replicas)
        # Prefill replicas of a plan are laid out like those that decode.
        prefill = slower if scenario.disaggregation is not None else None
        run = run_scenario(scenario, deployment=slower, prefill=prefill, trace=trace)
        label = f"{name} ({factor - 1:+.0%} time)"
        found.append(Sensitivity(name=label, outcome=outcome_of(candidate, replicas, run)))
    return tuple(found)


def _scaled(scenario: Scenario, factor: float) -> Scenario:
    """The same requests, faster; in closed loop so many more users."""
    traffic = scenario.traffic
    made = traffic.made
    if traffic.concurrency is not None:
        users = max(1, round(traffic.concurrency * factor))
        changed = traffic.model_copy(update={"concurrency": users})
    elif made is not None and made.concurrency is not None:
        users = max(1, round(made.concurrency * factor))
        changed = traffic.model_copy(
            update={"made": made.model_copy(update={"concurrency": users})}
        )
    else:
        changed = traffic.model_copy(update={"rate_scale": traffic.rate_scale * factor})
    return scenario.model_copy(update={"traffic": changed})
