"""What a simulated plan achieved, against its targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.plan.candidates import Candidate
from simulator.serve.money import bill_of
from simulator.serve.run import ServingRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One service level: what is asked and what came out, in its own unit."""

    name: str
    unit: str
    asked: float
    found: float

    @property
    def margin(self) -> float:
        """Share of the target that is left; negative where it is missed."""
        return 1 - self.found / self.asked

    @property
    def is_met(self) -> bool:
        """Whether it is kept."""
        return self.found <= self.asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A plan and what a simulation of it says. `binds` names the target with the least margin."""

    candidate: Candidate
    replicas: int
    chips: int
    targets: tuple[Target, ...]
    usd_per_hour: float
    usd_per_million_output: float
    output_tokens_per_s: float
    hit_share: float
    busy_share: float
    refused: int
    unfinished: int
    preemptions: int

    @property
    def meets(self) -> bool:
        """All targets kept, and nothing refused."""
        return not self.refused and not self.unfinished and all(t.is_met for t in self.targets)

    @property
    def binds(self) -> Target:
        """The tightest target."""
        return min(self.targets, key=lambda target: target.margin)

    @property
    def label(self) -> str:
        """One line."""
        return f"{self.chips} chips: {self.replicas} x ({self.candidate.label})"


def outcome_of(candidate: Candidate, replicas: int, run: ServingRun) -> Outcome:
    """Sum up a run; dollars are those of v4sim serve, tiers of a prefix cache among them."""
    log = run.requests
    done = log.finished
    bill = bill_of(run)
    span_s = bill.chip_seconds / bill.chips
    output = int(log.column("output_tokens")[done].sum())
    prompts = int(log.column("input_tokens")[done].sum())
    busy = sum(sum(steps.duration_ns) for steps in run.steps)
    return Outcome(
        candidate=candidate,
        replicas=replicas,
        chips=candidate.chips(replicas),
        targets=_targets(candidate, run),
        usd_per_hour=candidate.usd_per_hour(replicas),
        usd_per_million_output=(bill.usd or 0.0) / max(1, output) * 1e6,
        output_tokens_per_s=output / span_s,
        hit_share=int(log.column("hit_tokens")[done].sum()) / max(1, prompts),
        busy_share=busy / 1e9 / span_s / max(1, len(run.steps)),
        refused=sum(run.refused.values()),
        unfinished=len(log) - int(done.sum()) - sum(run.refused.values()),
        preemptions=int(log.column("preemptions")[done].sum()),
    )


def _targets(candidate: Candidate, run: ServingRun) -> tuple[Target, ...]:
    levels = candidate.scenario.service_levels
    targets = []
    for name, unit, asked, values in (
        ("TTFT", "s", levels.ttft_s, run.requests.ttft_ns() / 1e9),
        ("TPOT", "ms", levels.tpot_ms, run.requests.tpot_ns() / 1e6),
    ):
        if asked is not None:
            found = float(np.percentile(values, levels.percentile)) if len(values) else 0.0
            name = f"{name} p{levels.percentile:g}"
            targets.append(Target(name=name, unit=unit, asked=asked, found=found))
    return tuple(targets)
