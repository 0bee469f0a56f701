"""The search: plans from the cheapest on, each ruled out by a bound or simulated.

In open loop the traffic fixes what is answered, so a plan's cost is that of its chips: the first
plan, in order of cost, that meets the targets is the best one, and nothing dearer is looked at. In
closed loop the cost depends on how fast a plan answers; there plans are ruled out by what they can
answer at best.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from hwmodels.chip import find_chip
from simulator.basis.errors import DoesNotFitError, InputError, UndividedError, UnsupportedError
from simulator.cost.step_clock import DecodeGroup
from simulator.engine.profile import find_profile
from simulator.plan.bounds import (
    BATCH_SLACK,
    Unloaded,
    fewest_replicas,
    missed_target,
    unloaded,
)
from simulator.plan.candidates import Candidate, candidates
from simulator.plan.journal import Journal
from simulator.plan.outcome import Outcome, outcome_of
from simulator.plan.plan_question import PlanQuestion
from simulator.serve.deployment import DeployedReplica, deploy
from simulator.serve.run import run_scenario
from simulator.serve.traffic import trace_of
from workloads.traffic.trace import Trace

Simulate = Callable[[Candidate, int, DeployedReplica, Trace], Outcome]
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledOut:
    """A candidate that cannot be, or cannot meet the targets, and the sentence that says why."""

    label: str
    reason: str


@dataclass(slots=True, kw_only=True)
class SearchResult:
    """`best` and `runner_up` meet the targets; `tried` were simulated, in order of cost.

    `of_each`: the best of every chip and engine, the best of all first. `skipped`: candidates whose
    further plans are dearer than both and than the best of their chip and engine; `kept`: outcomes
    that the journal knew.
    """

    trace: Trace
    tried: list[Outcome] = field(default_factory=list)
    ruled_out: list[RuledOut] = field(default_factory=list)
    best: Outcome | None = None
    runner_up: Outcome | None = None
    of_each: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    skipped: int = 0
    kept: int = 0
    deployments: dict[str, DeployedReplica] = field(default_factory=dict)

    @property
    def nearest(self) -> dict[tuple[str, str], Outcome]:
        """The plan that misses the targets least, of every chip and engine of which none meets."""
        found: dict[tuple[str, str], Outcome] = {}
        for own in self.tried:
            group = (own.chip, own.engine)
            if group in self.of_each:
                continue
            if group not in found or own.binds.margin > found[group].binds.margin:
                found[group] = own
        return found


@dataclass(slots=True)
class _Ready:
    """A candidate with its deployment and floors, and the replicas to try next."""

    candidate: Candidate
    deployment: DeployedReplica
    floors: Unloaded
    replicas: int

    @property
    def group(self) -> tuple[str, str]:
        """Chip and engine."""
        scenario = self.candidate.scenario
        return find_chip(scenario.chip).name, find_profile(scenario.engine).name


def search(
    question: PlanQuestion,
    *,
    simulate: Simulate | None = None,
    journal: Path | None = None,
    note: Note = lambda _: None,
    exhaustive: bool = False,
    of_each: bool = True,
    deployed: dict[str, DeployedReplica] | None = None,
) -> SearchResult:
    """The best plan and the next best, with `of_each` the best of every chip and engine as well;
    `exhaustive` simulates all (to check the bounds).

    What `journal` knows is not simulated again; `deployed` are deployments by the key of their
    candidate that need not be made again.
    """
    trace = trace_of(question.scenario)
    result = SearchResult(trace=trace)
    known = Journal(journal)
    made = {} if deployed is None else deployed
    ready = list(_deployed(question, trace, result, note, exhaustive, made))
    queue: list[tuple[float, int, int, _Ready]] = []
    for number, item in enumerate(ready):
        heapq.heappush(queue, (_cost_floor(question, item, trace), number, item.replicas, item))
    run = simulate or _simulate
    while queue:
        floor, number, replicas, item = heapq.heappop(queue)
        if not exhaustive and _is_dearer(question, result, item, floor, of_each):
            result.skipped += 1
            continue
        note(f"{item.candidate.label}, {replicas} replicas")
        outcome = known.find(item.candidate, replicas)
        if outcome is None:
            outcome = run(item.candidate, replicas, item.deployment, trace)
            known.add(outcome)
        result.kept = known.kept
        result.tried.append(outcome)
        result.deployments[outcome.candidate.key] = item.deployment
        if outcome.meets:
            _rank(question, result, outcome)
            _rank_of_each(question, result, outcome)
        # More replicas may also end sooner, and so cost less in all, if the run is short.
        item.replicas = replicas + 1
        if item.candidate.chips(item.replicas) <= item.candidate.most_chips:
            floor = _cost_floor(question, item, trace)
            heapq.heappush(queue, (floor, number, item.replicas, item))
    return result


def _deployed(
    question: PlanQuestion,
    trace: Trace,
    result: SearchResult,
    note: Note,
    exhaustive: bool,
    known: Mapping[str, DeployedReplica],
) -> Iterator[_Ready]:
    """Candidates that can be built and that no bound rules out.

    Raises InputError for a fault of the question, which is no lack of a candidate; so is what
    refuses every one of them.
    """
    deployments: dict[str, DeployedReplica | InputError] = dict(known)
    for candidate in candidates(question):
        note(candidate.label)
        most = candidate.most_replicas
        if not most:
            few = f"takes {candidate.chips(1)} chips, {candidate.most_chips} are allowed"
            result.ruled_out.append(RuledOut(label=candidate.label, reason=few))
            continue
        try:
            deployment = _once(deployments, candidate)
        except (DoesNotFitError, UndividedError, UnsupportedError) as error:
            result.ruled_out.append(RuledOut(label=candidate.label, reason=error.message))
            continue
        cached = candidate.scenario.prefix_cache is not None
        floors = unloaded(deployment, trace, cached)
        reason = missed_target(floors, trace, candidate.scenario.service_levels)
        lanes_of = partial(prompt_lanes, candidate, deployment)
        first = fewest_replicas(floors, trace, candidate.scenario, most, lanes_of)
        if reason is None and first > most:
            reason = (
                f"prompts alone need more than the {candidate.most_chips} chips allowed to meet "
                "the TTFT target"
            )
        if reason is not None and not exhaustive:
            result.ruled_out.append(RuledOut(label=candidate.label, reason=reason))
        else:
            yield _Ready(candidate, deployment, floors, 1 if exhaustive else first)
    faults = (UndividedError, UnsupportedError)
    refused = [found for found in deployments.values() if isinstance(found, faults)]
    if refused and len(refused) == len(deployments):
        raise refused[0]


def prompt_lanes(candidate: Candidate, deployment: DeployedReplica, replicas: int) -> int:
    """Prompts that may be computed side by side: each data rank of a step has one."""
    ranks = candidate.scenario.parallel.dp
    return deployment.lanes * ranks * candidate.prompt_replicas(replicas)


def _once(known: dict[str, DeployedReplica | InputError], candidate: Candidate) -> DeployedReplica:
    """Deployments that differ only in price or replicas are one."""
    key = candidate.key
    if key not in known:
        try:
            known[key] = deploy_candidate(candidate)
        except InputError as error:
            known[key] = error
    found = known[key]
    if isinstance(found, InputError):
        raise found
    return found


def deploy_candidate(candidate: Candidate) -> DeployedReplica:
    """The candidate's replica. Raises UnsupportedError for an engine that the chip does not run."""
    found = deploy(candidate.scenario)
    fault = found.asked.deployment.not_made_for
    if fault is not None:
        raise UnsupportedError(f"{fault}; a plan takes engines that run on their chips")
    return found


def _simulate(
    candidate: Candidate, replicas: int, deployment: DeployedReplica, trace: Trace
) -> Outcome:
    run = run_scenario(candidate.with_replicas(replicas), deployment=deployment, trace=trace)
    return outcome_of(candidate, replicas, run)


def _cost(question: PlanQuestion, outcome: Outcome) -> float:
    if question.objective == "chips":
        return float(outcome.chips)
    return outcome.usd_per_million_output


def _rank(question: PlanQuestion, result: SearchResult, outcome: Outcome) -> None:
    best, second = result.best, result.runner_up
    if best is None or _cost(question, outcome) < _cost(question, best):
        result.best, result.runner_up = outcome, best
    elif second is None or _cost(question, outcome) < _cost(question, second):
        result.runner_up = outcome


def _rank_of_each(question: PlanQuestion, result: SearchResult, outcome: Outcome) -> None:
    group = (outcome.chip, outcome.engine)
    known = result.of_each.get(group)
    if known is None or _cost(question, outcome) < _cost(question, known):
        result.of_each[group] = outcome
        by_cost = sorted(result.of_each.items(), key=lambda own: _cost(question, own[1]))
        result.of_each = dict(by_cost)


def _is_dearer(
    question: PlanQuestion, result: SearchResult, item: _Ready, floor: float, of_each: bool
) -> bool:
    """Whether a plan of at least this cost can be neither of the best two nor best of its kind."""
    second = result.runner_up
    if second is None or floor < _cost(question, second):
        return False
    own = result.of_each.get(item.group)
    return not of_each or (own is not None and floor >= _cost(question, own))


def _cost_floor(question: PlanQuestion, item: _Ready, trace: Trace) -> float:
    """Least cost of a candidate with its next number of replicas."""
    if question.objective == "chips":
        return float(item.candidate.chips(item.replicas))
    usd_per_s = item.candidate.usd_per_hour(item.replicas) / 3600
    return usd_per_s / _most_output_per_s(item, trace) * 1e6


def _most_output_per_s(item: _Ready, trace: Trace) -> float:
    """Most output tokens a second: what is asked for, or what decode steps at best yield."""
    timed = trace.arrival_ns >= 0
    output = float(np.maximum(1, trace.output_tokens).sum())
    if timed.all() and item.candidate.scenario.traffic.concurrency is None:
        # The run is paid for from its first arrival on, which need not be at zero.
        span_s = float(np.ptp(trace.arrival_ns)) / 1e9 / item.candidate.scenario.traffic.rate_scale
        least_s = float((item.floors.prompt_ns + item.floors.token_ns).min()) / 1e9
        return output / max(span_s, least_s)
    # Replicas can do no better than be busy all the time, with prompts or with answers alone.
    prompts_ns = float(item.floors.work_ns.sum())
    answers_ns = float(trace.output_tokens.sum()) * _least_token_ns(item, trace)
    prompts_ns /= prompt_lanes(item.candidate, item.deployment, item.replicas)
    answers_ns /= item.replicas * item.deployment.lanes
    return output / max(prompts_ns, answers_ns) * 1e9


def _least_token_ns(item: _Ready, trace: Trace) -> float:
    """Least time of an answered token in a batch: of the shortest contexts, as many as may run.

    A larger batch takes less time a token but for steps of tiles, which the slack allows for.
    """
    traffic, rule = item.candidate.scenario.traffic, item.deployment.rule
    users = traffic.concurrency or (traffic.made.concurrency if traffic.made else None)
    most = min(rule.max_requests, users or rule.max_requests)
    context = float(trace.input_tokens.min())
    least = min(
        item.deployment.clock.decode_ns([DecodeGroup(requests=n, context_sum=n * (context + 1))])
        / n
        for n in _sizes(most)
    )
    return (1 - BATCH_SLACK) * least / rule.tokens_per_step


def _sizes(most: int) -> Iterable[int]:
    """Powers of two up to a number, and it."""
    size = 1
    while size < most:
        yield size
        size *= 2
    yield most
