"""Bounds on what a candidate can do at best: they spare simulations, and never rule out a plan
that a simulation would accept.

Three of them hold for every request or set of requests, whatever the scheduler does:
a request's first token takes at least the compute of its prompt, alone on the replica; each further
token a decode step alone; and so many replicas cannot have computed more prompts by some moment
than the shortest ones that fit into that time, in steps as full as serves best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.cost.step_clock import DecodeGroup, PromptChunk
from simulator.serve.deployment import DeployedReplica
from simulator.serve.live_request import UNSET, LiveRequest
from simulator.serve.scenario import Scenario, ServiceLevels
from workloads.traffic.trace import NO_TIME, Trace

Floats = NDArray[np.float64]
# Kernels go in steps of tiles, so a larger step may be a little faster than a smaller one.
SLACK = 0.03
BATCH_SLACK = 0.15
_KINDS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Unloaded:
    """Least times of a candidate's requests, ns, one a request.

    `prompt_ns`: its prompt alone; `token_ns`: a further token alone; `work_ns`: its share of steps
    that are as full as serves best.
    """

    prompt_ns: Floats
    token_ns: Floats
    work_ns: Floats


def unloaded(deployment: DeployedReplica, trace: Trace, cached: bool) -> Unloaded:
    """Times alone on an idle replica, less the slack; with a prefix cache all but one token is hit.

    Lengths are taken together by size, each group at its shortest.
    """
    inputs = trace.input_tokens.astype(np.float64)
    fresh = np.ones_like(inputs) if cached else inputs
    floor = _grouped_floor(fresh)
    prompt = {n: _prompt_ns(deployment, int(n)) for n in np.unique(floor)}
    contexts = _grouped_floor(inputs)
    token = {n: _token_ns(deployment, float(n)) for n in np.unique(contexts)}
    return Unloaded(
        prompt_ns=(1 - SLACK) * np.array([prompt[n] for n in floor]),
        token_ns=(1 - SLACK) * np.array([token[n] for n in contexts]),
        work_ns=(1 - SLACK) * fresh * _token_of_prompts_ns(deployment),
    )


def _grouped_floor(lengths: Floats) -> Floats:
    """Each length rounded down to the shortest of its group; at most `_KINDS` groups."""
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, _KINDS), method="lower"))
    return edges[np.searchsorted(edges, lengths, side="right") - 1]


def _prompt_ns(deployment: DeployedReplica, tokens: int) -> float:
    """All chunks of a prompt, one after another, nothing else running."""
    step, clock = deployment.rule.step_tokens, deployment.clock
    total, past = 0.0, 0
    while past < tokens:
        new = min(step, tokens - past)
        total += clock.step_ns([], [PromptChunk(new, past)]) + deployment.rule.step_overhead_ns
        past += new
    return total


def _token_of_prompts_ns(deployment: DeployedReplica) -> float:
    """Least time of one prompt token in a step of many."""
    sizes = [2**i for i in range(6, 20) if 2**i <= deployment.rule.step_tokens]
    sizes.append(deployment.rule.step_tokens)
    return min(deployment.clock.step_ns([], [PromptChunk(n, 0)]) / n for n in sizes)


def _token_ns(deployment: DeployedReplica, context: float) -> float:
    group = DecodeGroup(requests=1, context_sum=context + 1)
    step = deployment.clock.decode_ns([group]) + deployment.rule.step_overhead_ns
    return step / deployment.rule.tokens_per_step


def missed_target(least: Unloaded, trace: Trace, levels: ServiceLevels) -> str | None:
    """A target that even an idle replica misses, in words; None where there is none."""
    if levels.ttft_s is not None:
        ttft = float(np.percentile(least.prompt_ns, levels.percentile)) / 1e9
        if ttft > levels.ttft_s:
            return (
                f"TTFT p{levels.percentile:g} is at least {ttft:.3g} s on an idle replica, "
                f"{levels.ttft_s:g} s is asked ({ttft - levels.ttft_s:.3g} s over)"
            )
    answers = trace.output_tokens > 1
    if levels.tpot_ms is not None and answers.any():
        tpot = float(np.percentile(least.token_ns[answers], levels.percentile)) / 1e6
        if tpot > levels.tpot_ms:
            return (
                f"TPOT p{levels.percentile:g} is at least {tpot:.3g} ms on an idle replica, "
                f"{levels.tpot_ms:g} ms is asked ({tpot - levels.tpot_ms:.3g} ms over)"
            )
    return None


def fewest_replicas(
    least: Unloaded,
    trace: Trace,
    scenario: Scenario,
    most: int,
    lanes_of: Callable[[int], int] = lambda replicas: replicas,
) -> int:
    """Fewest replicas that may meet the TTFT target; `most` + 1 where not even `most` may.

    `lanes_of` gives the lanes that compute prompts beside so many (decode) replicas. By the moment
    T, they have computed at most the shortest prompts that fit into T each; all
    that had arrived a target before T and are not among so many are late.
    """
    levels = scenario.service_levels
    arrivals = np.sort(trace.arrival_ns[trace.arrival_ns != NO_TIME]) / scenario.traffic.rate_scale
    if levels.ttft_s is None or len(arrivals) < len(trace):
        return 1
    done = np.cumsum(np.sort(least.work_ns))
    moments = arrivals + levels.ttft_s * 1e9
    due = np.arange(1, len(arrivals) + 1)
    allowed = (1 - levels.percentile / 100) * len(trace) + 1
    for replicas in range(1, most + 1):
        lanes = lanes_of(replicas)
        served = np.searchsorted(done, lanes * moments, side="right")
        # A prompt under way on each of them may be done a moment later.
        late = due - served - lanes
        if late.max() <= allowed:
            return replicas
    return most + 1


class Misses:
    """Told of each request that has ended, says whether a run has missed a target already.

    However early all others are, a percentile lies beyond the target once that many are late.
    `by_far`: more than twice as many of those that have ended were late as the percentile allows.
    """

    def __init__(self, trace: Trace, levels: ServiceLevels) -> None:
        self._levels = levels
        self._ended, self._all = 0, len(trace)
        answers = int((trace.output_tokens > 1).sum())
        self._late_ttft = self._late_tpot = 0
        self._most_ttft, self._most_tpot = (
            count - int(levels.percentile / 100 * (count - 1)) for count in (len(trace), answers)
        )

    def __call__(self, request: LiveRequest) -> bool:
        """Whether a target is missed for sure; a request that is refused misses all."""
        self._ended += 1
        if request.finish_ns == UNSET:
            return True
        levels = self._levels
        ttft_ns = request.first_token_ns - request.arrival_ns
        if levels.ttft_s is not None and ttft_ns / 1e9 > levels.ttft_s:
            self._late_ttft += 1
        if levels.tpot_ms is not None and request.output_tokens > 1:
            span_ns = request.finish_ns - request.first_token_ns
            self._late_tpot += span_ns / (request.output_tokens - 1) / 1e6 > levels.tpot_ms
        return self._late_ttft >= self._most_ttft or self._late_tpot >= self._most_tpot

    @property
    def by_far(self) -> bool:
        """Of a run that is missed for sure."""
        return 2 * self._ended < self._all
