"""Where a run's figures are expected on silicon, p10 to p90: kernels, host and acceptance varied.

Each is put to its slow end alone and the run served again; what that does to a figure is taken as
its standard width on a logarithmic scale, and the three add up in squares with a fourth: what the
simulation of serving itself is off by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.cost.question import ask
from simulator.cost.step import cost_step
from simulator.cost.step_clock import DecodeGroup, PromptChunk, StepClock
from simulator.serve.deployment import DeployedReplica
from simulator.serve.run import ServingRun, run_scenario
from simulator.serve.scenario import Scenario
from workloads.traffic.trace import Trace

_CONTEXT = 8192
# Guessed: readings of one host constant on different machines differ by so much at p90 (65 us a
# kernel eager on H800, 110 fitted to B200 alone).
HOST_P90 = 1.7
# Published acceptance of the same three drafts: 2.49 tokens a step on questions, 3.55 on prompts
# that repeat; at p10 half of what lies between.
ACCEPTED_P10 = 0.85
# What measured runs on B200 are off by beside the three: with it eight of ten of their times per
# token are held (and 61 % of those on H200, 81 % of throughputs there, on which it was not read).
SERVING_P90 = 1.22


class ScaledClock(StepClock):
    """A clock whose steps all take `factor` as long; what it costs is the other one's."""

    def __init__(self, clock: StepClock, factor: float) -> None:
        self.clock = clock
        self.factor = factor
        self.knee_tokens = clock.knee_tokens

    def decode_ns(self, groups: Sequence[DecodeGroup]) -> float:
        """A decode step."""
        return self.factor * self.clock.decode_ns(groups)

    def step_ns(self, groups: Sequence[DecodeGroup], chunks: Sequence[PromptChunk]) -> float:
        """A step with prompts."""
        return self.factor * self.clock.step_ns(groups, chunks)

    def segment(self, mean: float) -> float:
        """As of the other clock."""
        return self.clock.segment(mean)


def kernel_factors(scenario: Scenario) -> tuple[float, float]:
    """p10 and p90 of a decode step's time, as factors on what is predicted.

    Assumes: all steps of a run are off by the same factor, that of a decode step of 8,192 tokens.
    """
    parallel = scenario.parallel
    asked = ask(
        model=scenario.model,
        chip=scenario.chip,
        count=parallel.tp * parallel.dp,
        tp=parallel.tp,
        dp=parallel.dp,
        ep=parallel.ep,
        batch=8 * parallel.dp,
        context=_CONTEXT,
        engine=scenario.engine,
        index_dtype=scenario.index_dtype,
        kv_dtype=scenario.kv_dtype,
        page_tokens=scenario.page_tokens,
        expert_dtype=scenario.expert_dtype,
        exchange=scenario.exchange,
        fidelity=scenario.fidelity,
    )
    step = cost_step(asked)
    return step.low_ps / step.total_ps, step.high_ps / step.total_ps


@dataclass(frozen=True, slots=True)
class Band:
    """p10 and p90 of a figure."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether a measured value lies in it."""
        return self.low <= value <= self.high


Measure = Callable[[ServingRun], dict[str, float]]


def run_bands(run: ServingRun, measure: Measure, trace: Trace | None = None) -> dict[str, Band]:
    """Band of every figure that `measure` takes of a run; the run is served three times more.

    Assumes: kernels, host, acceptance and the simulation of serving err independently, and as much
        to either side.
    """
    base = measure(run)
    squares = dict.fromkeys(base, math.log(SERVING_P90) ** 2)
    for varied, scenario in _slow_ends(run):
        found = measure(run_scenario(scenario, deployment=varied, trace=trace))
        for name, value in found.items():
            if value > 0 and base[name] > 0:
                squares[name] += math.log(value / base[name]) ** 2
    widths = {name: math.exp(math.sqrt(square)) for name, square in squares.items()}
    return {name: Band(value / widths[name], value * widths[name]) for name, value in base.items()}


def serving_figures(run: ServingRun) -> dict[str, float]:
    """What `v4sim serve` gives bands of: medians in ms, and output tokens a second."""
    requests, done = run.requests, run.requests.finished
    begin = int(requests.sent_ns().min(initial=run.end_ns))
    output = float(requests.column("output_tokens")[done].sum())
    tpot = requests.tpot_ns()
    return {
        "time per output token, ms": float(np.median(tpot)) / 1e6 if len(tpot) else 0.0,
        "time to first token at the client, ms": float(np.median(requests.client_ttft_ns())) / 1e6,
        "output tokens a second": output / max(1, run.end_ns - begin) * 1e9,
    }


def _slow_ends(run: ServingRun) -> Iterator[tuple[DeployedReplica, Scenario]]:
    deployment, scenario = run.deployment, run.scenario
    _, slow = kernel_factors(scenario)
    yield replace(deployment, clock=ScaledClock(deployment.clock, slow)), scenario
    host = deployment.rule.host.scaled(HOST_P90)
    yield replace(deployment, rule=replace(deployment.rule, host=host)), scenario
    if scenario.speculation is not None:
        fewer = max(1.0, deployment.rule.tokens_per_step * ACCEPTED_P10)
        yield replace(deployment, rule=replace(deployment.rule, tokens_per_step=fewer)), scenario
