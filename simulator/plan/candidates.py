"""Deployments that a question allows: chip, engine, layout and limits of a replica."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from hwmodels.chip import find_chip
from hwmodels.node import find_node
from simulator.engine.default_engine import default_engine
from simulator.engine.profile import find_profile
from simulator.plan.plan_question import ChipChoice, PlanQuestion
from simulator.serve.scenario import Disaggregation, Parallel, Prices, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to build a replica, and what its chips cost; `scenario` has one replica.

    `prefill_share`: prefill replicas for each decode replica, 0 where one replica does both.
    """

    scenario: Scenario
    most_chips: int
    prices: Prices
    prefill_share: float = 0.0

    @property
    def chips_per_replica(self) -> int:
        """Chips of one replica."""
        return self.scenario.chips_per_replica

    def prefill_replicas(self, replicas: int) -> int:
        """Prefill replicas beside so many decode replicas."""
        return max(1, round(self.prefill_share * replicas)) if self.prefill_share else 0

    def prompt_replicas(self, replicas: int) -> int:
        """Replicas that compute prompts where so many decode."""
        return self.prefill_replicas(replicas) or replicas

    @property
    def most_replicas(self) -> int:
        """Most (decode) replicas that the allowed chips give; 0 where there are too few for one."""
        most = self.most_chips // self.chips_per_replica
        return next((n for n in range(most, 0, -1) if self.chips(n) <= self.most_chips), 0)

    def chips(self, replicas: int) -> int:
        """Chips of a plan."""
        return self.chips_per_replica * (replicas + self.prefill_replicas(replicas))

    def usd_per_hour(self, replicas: int) -> float:
        """Price of a plan an hour."""
        return self.chips(replicas) * self.prices.usd_per_chip_hour

    def with_replicas(self, replicas: int) -> Scenario:
        """The scenario of a plan."""
        changes: dict[str, object] = {"replicas": replicas, "prices": self.prices}
        if self.prefill_share:
            changes["disaggregation"] = Disaggregation(
                prefill_replicas=self.prefill_replicas(replicas)
            )
        return self.scenario.model_copy(update=changes)

    @property
    def key(self) -> str:
        """Equal for candidates that differ only in price, targets, load or replicas: their
        deployment is one."""
        apart = {"prices", "name", "service_levels", "traffic"}
        return self.scenario.model_dump_json(exclude=apart)

    @property
    def limits(self) -> str:
        """What its label says beyond chip, layout and engine."""
        return ", ".join(self.label.split(", ")[2:])

    @property
    def label(self) -> str:
        """One line that tells it from others."""
        s = self.scenario
        parts = [
            f"{find_chip(s.chip).name} tp{s.parallel.tp} dp{s.parallel.dp}",
            find_profile(s.engine).name,
            f"{s.scheduler.max_requests} requests",
            f"{s.scheduler.step_tokens:,}-token steps",
        ]
        usual = s.parallel.tp * s.parallel.dp if s.parallel.dp > 1 else 1
        if s.parallel.ep not in (None, usual):
            parts.append(f"ep{s.parallel.ep}")
        parts += [
            word for word in (s.exchange, s.expert_dtype and f"{s.expert_dtype} experts") if word
        ]
        if s.speculation is not None:
            parts.append(f"{s.speculation.draft_tokens} drafts")
        if self.prefill_share:
            parts.append(f"{self.prefill_share:g} prefill a decode replica")
        if s.prefix_cache is not None:
            parts.append(f"window {s.prefix_cache.window_policy}")
        return ", ".join(parts)


def candidates(question: PlanQuestion) -> Iterator[Candidate]:
    """All candidates of a question, in the order in which it lists them."""
    for choice in question.chips:
        prices = prices_of_choice(choice)
        engines = question.engines or (default_engine(find_chip(choice.chip)),)
        for engine, (tp, dp) in product(engines, _layouts(question, choice)):
            for requests, tokens, policy, share in product(
                question.max_requests,
                question.step_tokens,
                question.window_policies or (None,),
                (0.0, *question.prefill_shares),
            ):
                scenario = _scenario(question.scenario, choice.chip, engine, tp, dp)
                scenario = _limited(scenario, requests, tokens, policy)
                for varied in _varied(question, scenario):
                    yield Candidate(
                        scenario=varied,
                        most_chips=choice.most_chips,
                        prices=prices,
                        prefill_share=share,
                    )


def _varied(question: PlanQuestion, base: Scenario) -> Iterator[Scenario]:
    """A scenario with every expert degree, exchange, expert format and number of drafts."""
    parallel = base.parallel
    ranks = parallel.tp * parallel.dp
    fitting = [n for n in question.expert_parallel if ranks % n == 0]
    degrees: list[int | None] = [*fitting] or [parallel.ep]
    drafts: tuple[int | None, ...] = question.drafts or (None,)
    for ep, exchange, form, number in product(
        dict.fromkeys(degrees),
        question.exchanges or (base.exchange,),
        question.expert_dtypes or (base.expert_dtype,),
        drafts,
    ):
        grouped = parallel.dp > 1 and (ep is None or ep > 1)
        if (exchange == "gathered") == grouped and exchange is not None:
            continue  # gathered is for experts split by tensor, the others for expert groups
        changes: dict[str, object] = {
            "parallel": parallel.model_copy(update={"ep": ep}),
            "exchange": exchange if parallel.dp > 1 else None,
            "expert_dtype": form,
        }
        if number is not None and base.speculation is not None:
            spoken = base.speculation.model_copy(update={"draft_tokens": number})
            changes["speculation"] = spoken if number else None
        yield base.model_copy(update=changes)


def _layouts(question: PlanQuestion, choice: ChipChoice) -> list[tuple[int, int]]:
    if question.layouts is not None:
        return list(question.layouts)
    most = min(choice.most_chips, find_node(choice.chip, 1).chip_count)
    powers = [2**i for i in range(most.bit_length()) if 2**i <= most]
    return [(tp, dp) for tp in powers for dp in powers if tp * dp <= most]


def _scenario(base: Scenario, chip: str, engine: str, tp: int, dp: int) -> Scenario:
    parallel = Parallel(tp=tp, dp=dp, ep=tp * dp if dp > 1 else None)
    return base.model_copy(update={"chip": chip, "engine": engine, "parallel": parallel})


def _limited(base: Scenario, requests: int, tokens: int, policy: str | None) -> Scenario:
    scheduler = base.scheduler.model_copy(update={"max_requests": requests, "step_tokens": tokens})
    changes: dict[str, object] = {"scheduler": scheduler, "replicas": 1}
    if policy is not None and base.prefix_cache is not None:
        cache = base.prefix_cache.model_copy(update={"window_policy": policy})
        changes["prefix_cache"] = cache
    return base.model_copy(update=changes)


def prices_of_choice(choice: ChipChoice) -> Prices:
    """Prices that a choice of a chip gives, names, or leaves to those that ship."""
    from simulator.serve.money import default_prices

    given = choice.prices
    return given if isinstance(given, Prices) else default_prices(choice.chip, given)
