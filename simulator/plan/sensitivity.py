"""How a plan and its cost fare when traffic, kernels, targets or prices differ from what was
assumed; each is run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hwmodels.chip import find_chip
from simulator.plan.candidates import Candidate, candidates, prices_of_choice
from simulator.plan.outcome import Outcome, at_prices_and_targets, outcome_of
from simulator.plan.plan_question import PlanQuestion
from simulator.plan.search import SearchResult, search
from simulator.serve.deployment import DeployedReplica
from simulator.serve.interval import ACCEPTED_P10, HOST_P90, ScaledClock, kernel_factors
from simulator.serve.run import run_scenario
from simulator.serve.scenario import Scenario
from workloads.traffic.trace import Trace

TRAFFIC_CHANGES = (0.8, 1.2)
TARGET_CHANGES = (0.8, 1.2)
PRICE_CHANGES = (0.8, 1.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """One change, in words, and what the plan then achieves; `answer` is what to buy then, None
    where nothing that was allowed meets the targets."""

    name: str
    outcome: Outcome
    answer: Outcome | None = None


def sensitivity(
    outcome: Outcome, deployment: DeployedReplica, trace: Trace
) -> tuple[Sensitivity, ...]:
    """The plan at 20 % less and more traffic, with kernels at p10 and p90 of their interval, with
    a host as slow as at p90, and with drafts accepted as at p10.

    The answer to each is the plan itself where it still meets the targets, else the same layout
    with the fewest replicas that do, up to twice as many and one.

    Assumes: all steps of a plan are off by the same factor, that of a decode step of 8,192 tokens.
    """
    candidate = outcome.candidate
    found = []
    for factor in TRAFFIC_CHANGES:
        scenario = scaled(candidate.scenario, factor)
        changed = replace(candidate, scenario=scenario)
        found.append(
            _with_replicas(f"traffic {factor - 1:+.0%}", changed, outcome, deployment, trace)
        )
    for name, varied in _constants(candidate.scenario, deployment):
        found.append(_with_replicas(name, candidate, outcome, varied, trace))
    return tuple(found)


def _constants(
    scenario: Scenario, deployment: DeployedReplica
) -> Iterator[tuple[str, DeployedReplica]]:
    """The leading constants at the ends of what is expected of them."""
    rule = deployment.rule
    for name, factor in zip(
        ("kernels at p10", "kernels at p90"), kernel_factors(scenario), strict=True
    ):
        slower = replace(deployment, clock=ScaledClock(deployment.clock, factor))
        yield f"{name} ({factor - 1:+.0%} time)", slower
    host = rule.host.scaled(HOST_P90)
    yield (
        f"host at p90 ({HOST_P90 - 1:+.0%} time)",
        replace(deployment, rule=replace(rule, host=host)),
    )
    if scenario.speculation is not None:
        fewer = max(1.0, rule.tokens_per_step * ACCEPTED_P10)
        name = f"drafts accepted as at p10 ({fewer / rule.tokens_per_step - 1:+.0%} tokens a step)"
        yield name, replace(deployment, rule=replace(rule, tokens_per_step=fewer))


def _with_replicas(
    name: str, candidate: Candidate, base: Outcome, deployment: DeployedReplica, trace: Trace
) -> Sensitivity:
    """The plan under a change, and with more replicas until it meets the targets again."""

    def tried(replicas: int) -> Outcome:
        scenario = candidate.with_replicas(replicas)
        # Prefill replicas of a plan are laid out like those that decode.
        prefill = deployment if scenario.disaggregation is not None else None
        run = run_scenario(scenario, deployment=deployment, prefill=prefill, trace=trace)
        found = outcome_of(candidate, replicas, run)
        return replace(found, candidate=replace(candidate, scenario=base.candidate.scenario))

    first = answer = tried(base.replicas)
    most = min(candidate.most_replicas, 2 * base.replicas + 1)
    while not answer.meets and answer.replicas < most:
        answer = tried(answer.replicas + 1)
    return Sensitivity(name=name, outcome=first, answer=answer if answer.meets else None)


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """The same requests, faster; in closed loop so many more users."""
    traffic = scenario.traffic
    made, client = traffic.made, traffic.client

    def users(now: int) -> dict[str, int]:
        return {"concurrency": max(1, round(now * factor))}

    if traffic.concurrency is not None:
        changed = traffic.model_copy(update=users(traffic.concurrency))
    elif made is not None and made.concurrency is not None:
        changed = traffic.model_copy(
            update={"made": made.model_copy(update=users(made.concurrency))}
        )
    elif client is not None and client.concurrency is not None:
        changed = traffic.model_copy(
            update={"client": client.model_copy(update=users(client.concurrency))}
        )
    else:
        changed = traffic.model_copy(update={"rate_scale": traffic.rate_scale * factor})
    return scenario.model_copy(update={"traffic": changed})


def answers_when(
    question: PlanQuestion, result: SearchResult, note: Callable[[str], None] = lambda _: None
) -> tuple[Sensitivity, ...]:
    """The whole search again with each target, and the price of each chip, 20 % lower and higher.

    Neither has a part in a simulation, so that what was simulated is used again; plans that the
    change brings into question are simulated now. Raises AssertionError without a best plan.
    """
    assert result.best is not None
    known = {(_layout_key(own.candidate), own.replicas): own for own in result.tried}
    deployed = dict(result.deployments)

    def simulate(
        candidate: Candidate, replicas: int, deployment: DeployedReplica, trace: Trace
    ) -> Outcome:
        key = (_layout_key(candidate), replicas)
        if key not in known:
            run = run_scenario(
                candidate.with_replicas(replicas), deployment=deployment, trace=trace
            )
            known[key] = outcome_of(candidate, replicas, run)
        return at_prices_and_targets(known[key], candidate)

    found = []
    for name, changed in _other_questions(question):
        note(name)
        again = search(changed, simulate=simulate, of_each=False, deployed=deployed)
        best = result.best
        same = next(own for own in _alike(changed, best.candidate) if own.most_chips >= best.chips)
        outcome = at_prices_and_targets(best, same)
        found.append(Sensitivity(name=name, outcome=outcome, answer=again.best))
    return tuple(found)


def _alike(question: PlanQuestion, wanted: Candidate) -> Iterator[Candidate]:
    for candidate in candidates(question):
        same_share = candidate.prefill_share == wanted.prefill_share
        if same_share and _layout_key(candidate) == _layout_key(wanted):
            yield candidate


def _layout_key(candidate: Candidate) -> str:
    return f"{candidate.key}{candidate.prefill_share}"


def _other_questions(question: PlanQuestion) -> Iterator[tuple[str, PlanQuestion]]:
    levels = question.scenario.service_levels
    for key, name in (("ttft_s", "TTFT"), ("tpot_ms", "TPOT")):
        target = getattr(levels, key)
        for factor in TARGET_CHANGES if target is not None else ():
            changed = levels.model_copy(update={key: target * factor})
            scenario = question.scenario.model_copy(update={"service_levels": changed})
            named = f"{name} target {factor - 1:+.0%}"
            yield named, question.model_copy(update={"scenario": scenario})
    for place, choice in enumerate(question.chips):
        for factor in PRICE_CHANGES if len(question.chips) > 1 else ():
            chips = list(question.chips)
            prices = prices_of_choice(choice)
            usd = {"usd_per_chip_hour": factor * prices.usd_per_chip_hour}
            chips[place] = choice.model_copy(update={"prices": prices.model_copy(update=usd)})
            name = f"price of {find_chip(choice.chip).name} {factor - 1:+.0%}"
            yield name, question.model_copy(update={"chips": tuple(chips)})
