"""What is to be planned: a scenario, and what may be varied. One YAML document."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hwmodels.node import find_node
from simulator.basis.data_files import find_data_file, list_data_names, path_beside
from simulator.basis.yaml_loader import KeyFaultError, StrictModel, load_yaml
from simulator.engine.profile import find_profile, layout_of
from simulator.prefix.tier import load_tiers
from simulator.serve.scenario import Prices, Scenario, resolved
from workloads.deepseek_v4.config import find_model

PLANS = Path(__file__).parent / "plans"
Whole = Annotated[int, Field(gt=0, le=2**20)]
Whole8 = Annotated[tuple[Whole, ...], Field(min_length=1)]


class ChipChoice(StrictModel):
    """A chip to consider; `prices`, or a name or file of them, default to those that ship."""

    chip: str
    most_chips: Whole = 32
    prices: Prices | str | None = None


class PlanQuestion(StrictModel):
    """Targets and traffic are the scenario's; everything below may differ between plans.

    `engines`: left out, the default one of each chip. `layouts`: (tp, dp) of a replica; left out,
    all powers of two up to a node. `prefill_shares`: of disaggregated plans, prefill replicas for
    each decode replica. `expert_parallel`: degrees of expert parallelism (1: experts split by
    tensor), `exchanges` and `expert_dtypes`: as of a scenario; a combination that does not go
    together is left out. `drafts`: drafts a step, 0 for none, with the acceptance of the scenario's
    speculation. Left out, each is as the scenario has it. `objective`: the cheapest output tokens,
    or the fewest chips.
    """

    name: Annotated[str, Field(min_length=1)]
    scenario: Scenario
    chips: Annotated[tuple[ChipChoice, ...], Field(min_length=1)]
    engines: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    layouts: Annotated[tuple[tuple[Whole, Whole], ...], Field(min_length=1)] | None = None
    max_requests: Whole8 = (256,)
    step_tokens: Whole8 = (8192,)
    window_policies: tuple[str, ...] = ()
    prefill_shares: tuple[Annotated[float, Field(gt=0)], ...] = ()
    expert_parallel: tuple[Whole, ...] = ()
    exchanges: tuple[str, ...] = ()
    expert_dtypes: tuple[str, ...] = ()
    drafts: tuple[Annotated[int, Field(ge=0, le=64)], ...] = ()
    objective: Literal["usd", "chips"] = "usd"

    @model_validator(mode="after")
    def _check_targets(self) -> Self:
        levels = self.scenario.service_levels
        if levels.ttft_s is None and levels.tpot_ms is None:
            raise KeyFaultError(
                ("scenario",), "a plan needs a target: service_levels with ttft_s or tpot_ms"
            )
        base = self.scenario
        if base.disaggregation is not None:
            raise KeyFaultError(
                ("scenario",), "a plan varies disaggregation: give prefill_shares instead of it"
            )
        if base.parallel.pp > 1 or base.parallel.cp > 1:
            raise KeyFaultError(
                ("scenario",), "plans are laid out as layouts (tp, dp) say: leave pp and cp out"
            )
        self._check_drafts()
        if self.window_policies and self.scenario.prefix_cache is None:
            raise KeyFaultError(
                ("window_policies",), "window_policies need a prefix_cache in the scenario"
            )
        return self

    def _check_drafts(self) -> None:
        most, given = max(self.drafts, default=0), self.scenario.speculation
        known = len(given.tokens_by_drafts) if given else 0
        if most > known:
            raise KeyFaultError(
                ("drafts",),
                f"drafts goes up to {most}, but the scenario's speculation says what is accepted "
                f"of {known}; give {most} values in its 'accepted'",
            )


def list_plans() -> list[str]:
    """Names of the questions that ship."""
    return list_data_names(PLANS)


def load_plan(name_or_path: Path | str) -> PlanQuestion:
    """Question by name, or of a YAML file; files that it names are found beside it.

    Raises InputError for facts that cannot be read, whichever candidate they are of.
    """
    path = find_data_file("plan", name_or_path, PLANS)
    question = load_yaml(path, PlanQuestion)
    question = question.model_copy(
        update={
            "scenario": resolved(question.scenario, path),
            "chips": tuple(_beside(path, choice) for choice in question.chips),
            "engines": question.engines
            and tuple(path_beside(path, engine) for engine in question.engines),
        }
    )
    find_model(question.scenario.model)
    for engine in question.engines or ():
        layout_of(find_profile(engine))
    for choice in question.chips:
        find_node(choice.chip)
    cache = question.scenario.prefix_cache
    if cache is not None and cache.tiers is not None:
        load_tiers(cache.tiers)
    return question


def _beside(path: Path, choice: ChipChoice) -> ChipChoice:
    changes: dict[str, object] = {"chip": path_beside(path, choice.chip)}
    if isinstance(choice.prices, str):
        changes["prices"] = path_beside(path, choice.prices)
    return choice.model_copy(update=changes)
