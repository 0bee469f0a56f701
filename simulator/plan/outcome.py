"""What a simulated plan achieved, against its targets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hwmodels.chip import find_chip
from simulator.engine.profile import find_profile
from simulator.plan.candidates import Candidate
from simulator.plan.load import Load, load_of
from simulator.serve.metrics import span_of
from simulator.serve.money import bill_of
from simulator.serve.run import ServingRun
from simulator.sweep.row import HOURS_A_MONTH


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
    """A plan and what a simulation of it says. `binds` names the target with the least margin.

    `usd` and tokens are of the whole run of `span_s`, `storage_usd` of its tiers (in `usd`).
    `user_tokens_per_s` is what one request gets at the percentile of the targets; None where no
    answer has a second token.
    """

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
    span_s: float
    usd: float
    storage_usd: float
    requests: int
    input_tokens: int
    output_tokens: int
    user_tokens_per_s: float | None
    load: Load

    @property
    def usd_per_million_tokens(self) -> float:
        """Dollars a million tokens in all, input (hits among them) and output."""
        return self.usd / max(1, self.input_tokens + self.output_tokens) * 1e6

    @property
    def usd_per_request(self) -> float:
        """Dollars a finished request."""
        return self.usd / max(1, self.requests)

    @property
    def usd_per_month(self) -> float:
        """Dollars of 730.5 hours like those of the run, tiers of a prefix cache among them."""
        return self.usd / self.span_s * 3600 * HOURS_A_MONTH

    @property
    def output_tokens_per_s_chip(self) -> float:
        """Output tokens a second and chip."""
        return self.output_tokens_per_s / self.chips

    @property
    def requests_per_s(self) -> float:
        """Finished requests a second."""
        return self.requests / self.span_s

    @property
    def chip(self) -> str:
        """The chip's name."""
        return find_chip(self.candidate.scenario.chip).name

    @property
    def engine(self) -> str:
        """The engine's name."""
        return find_profile(self.candidate.scenario.engine).name

    @property
    def meets(self) -> bool:
        """All targets kept, and nothing refused."""
        return not self.refused and not self.unfinished and all(t.is_met for t in self.targets)

    @property
    def binds(self) -> Target:
        """The tightest target."""
        return min(self.targets, key=lambda target: target.margin)

    @property
    def short_label(self) -> str:
        """Chips and layout, such as `8 b200: 4 x tp2 dp1`."""
        parallel = self.candidate.scenario.parallel
        prefill = self.candidate.prefill_replicas(self.replicas)
        apart = f" + {prefill} prefill" if prefill else ""
        layout = f"{self.replicas}{apart} x tp{parallel.tp} dp{parallel.dp}"
        return f"{self.chips} {self.chip}: {layout}"

    @property
    def label(self) -> str:
        """One line."""
        chips = "chip" if self.chips == 1 else "chips"
        return f"{self.chips} {chips}: {self.replicas} x ({self.candidate.label})"


def outcome_of(candidate: Candidate, replicas: int, run: ServingRun) -> Outcome:
    """Sum up a run; dollars are those of v4sim serve, tiers of a prefix cache among them."""
    log = run.requests
    done = log.finished
    bill = bill_of(run)
    _, span_s = span_of(run)  # rates are those of v4sim serve
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
        span_s=span_s,
        usd=bill.usd or 0.0,
        storage_usd=sum(use.usd for use in bill.storage),
        requests=int(done.sum()),
        input_tokens=prompts,
        output_tokens=output,
        user_tokens_per_s=_user_tokens_per_s(candidate, run),
        load=load_of(run, span_s),
    )


def _user_tokens_per_s(candidate: Candidate, run: ServingRun) -> float | None:
    slowest_ns = run.requests.tpot_ns()
    if not len(slowest_ns):
        return None
    percentile = candidate.scenario.service_levels.percentile
    return 1e9 / float(np.percentile(slowest_ns, percentile))


def at_prices_and_targets(outcome: Outcome, candidate: Candidate) -> Outcome:
    """The same run under the prices and targets of another candidate that is laid out alike.

    Neither has a part in what is simulated.
    """
    levels = candidate.scenario.service_levels
    asked = {"TTFT": levels.ttft_s, "TPOT": levels.tpot_ms}
    hours = outcome.chips * outcome.span_s / 3600
    usd = candidate.prices.usd_per_chip_hour * hours + outcome.storage_usd
    return replace(
        outcome,
        candidate=candidate,
        targets=tuple(
            replace(target, asked=asked[target.name.split()[0]] or target.asked)
            for target in outcome.targets
        ),
        usd_per_hour=candidate.usd_per_hour(outcome.replicas),
        usd=usd,
        usd_per_million_output=usd / max(1, outcome.output_tokens) * 1e6,
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
