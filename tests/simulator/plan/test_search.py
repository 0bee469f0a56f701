"""The search against exhaustive search, its bounds against simulations, and what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulator.basis.errors import InputError
from simulator.plan.bounds import fewest_replicas, missed_target, unloaded
from simulator.plan.plan_question import ChipChoice, PlanQuestion, list_plans, load_plan
from simulator.plan.search import SearchResult, search
from simulator.plan.verdict import infeasible_sentence, plan_sentence, runner_up_sentence
from simulator.serve.deployment import deploy
from simulator.serve.run import run_scenario
from simulator.serve.scenario import (
    FixedShape,
    Parallel,
    Prices,
    Scenario,
    ServiceLevels,
    Traffic,
)
from simulator.serve.traffic import trace_of


def priced(usd: float) -> Prices:
    return Prices(usd_per_chip_hour=usd, date="2026-04-03", source="a test")


def question(
    ttft_s: float | None,
    tpot_ms: float | None,
    *,
    rate: float | None = 6.0,
    concurrency: int | None = None,
    objective: str = "usd",
    most_chips: int = 12,
) -> PlanQuestion:
    made = FixedShape(
        input_tokens=6000,
        output_tokens=60,
        range_ratio=0.2,
        requests=60,
        rate_per_s=rate,
        concurrency=concurrency,
    )
    scenario = Scenario(
        name="small",
        model="v4-flash",
        chip="h200",
        fidelity="roofline",
        traffic=Traffic(made=made),
        service_levels=ServiceLevels(ttft_s=ttft_s, tpot_ms=tpot_ms, percentile=90),
    )
    return PlanQuestion(
        name="small",
        scenario=scenario,
        chips=(
            ChipChoice(chip="h200", most_chips=most_chips, prices=priced(1.74)),
            ChipChoice(chip="b200", most_chips=most_chips, prices=priced(2.34)),
        ),
        engines=("ideal",),
        layouts=((2, 1), (4, 1), (1, 4)),
        max_requests=(4, 64),
        objective=objective,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("ttft_s", "tpot_ms", "rate", "concurrency", "objective"),
    [
        (0.2, None, 40.0, None, "usd"),
        (0.1, 12.0, 40.0, None, "usd"),
        (None, 7.0, 40.0, None, "chips"),
        (1.0, 9.0, None, 24, "usd"),
        (0.5, None, None, 8, "chips"),
    ],
)
def test_bounds_never_prune_the_best_plan(
    ttft_s: float | None,
    tpot_ms: float | None,
    rate: float | None,
    concurrency: int | None,
    objective: str,
) -> None:
    asked = question(ttft_s, tpot_ms, rate=rate, concurrency=concurrency, objective=objective)
    pruned, whole = search(asked), search(asked, exhaustive=True)
    assert len(pruned.tried) < len(whole.tried)
    assert (pruned.best is None) == (whole.best is None)
    for found, true in ((pruned.best, whole.best), (pruned.runner_up, whole.runner_up)):
        if true is None or found is None:
            assert found == true
        elif objective == "chips":
            assert found.chips == true.chips
        else:
            assert found.usd_per_million_output == true.usd_per_million_output


@pytest.mark.parametrize("tp", [4, 8])
def test_floors_are_below_every_simulated_time(tp: int) -> None:
    scenario = question(1.0, 20.0, rate=30.0).scenario.model_copy(
        update={"parallel": Parallel(tp=tp), "engine": "sglang-0.5", "fidelity": "tile"}
    )
    deployment, trace = deploy(scenario), trace_of(scenario)
    floors = unloaded(deployment, trace, cached=False)
    log = run_scenario(scenario, deployment=deployment, trace=trace).requests
    assert (floors.prompt_ns <= log.ttft_ns()).all()
    assert (floors.token_ns <= log.tpot_ns()).all()


def test_fewest_replicas_by_hand() -> None:
    asked = question(0.1, None, rate=1000.0)
    scenario = asked.scenario.model_copy(update={"parallel": Parallel(tp=4)})
    trace = trace_of(scenario)
    floors = unloaded(deploy(scenario), trace, cached=False)
    assert fewest_replicas(floors, trace, scenario, 50) > 1
    # All at once: by the target after the last arrival, nine in ten have to be computed.
    work = np.sort(floors.work_ns)[: int(0.9 * len(trace)) - 2].sum()
    span = trace.arrival_ns.max() + 0.1e9
    needed = fewest_replicas(floors, trace, scenario, 50)
    assert needed >= np.floor(work / (span + 2 * floors.work_ns.max()))
    relaxed = asked.scenario.model_copy(update={"service_levels": ServiceLevels(tpot_ms=5)})
    assert fewest_replicas(floors, trace, relaxed, 50) == 1


def test_a_target_below_the_floor_is_ruled_out_with_numbers() -> None:
    scenario = question(0.001, None).scenario.model_copy(update={"parallel": Parallel(tp=4)})
    floors = unloaded(deploy(scenario), trace_of(scenario), cached=False)
    reason = missed_target(floors, trace_of(scenario), scenario.service_levels)
    assert reason is not None
    assert reason.startswith("TTFT p90 is at least ")
    assert "0.001 s is asked" in reason


def test_infeasible_targets_say_which_and_by_how_much() -> None:
    asked = question(0.001, None)
    result = search(asked)
    assert result.best is None
    assert "ruled out before simulation" in plan_sentence(asked, result)
    # Without bounds the closest plan is known, and what it misses.
    sentence = infeasible_sentence(asked, search(asked, exhaustive=True))
    assert "misses TTFT p90 by" in sentence
    assert "would be met" in sentence


def test_a_model_that_fits_nowhere() -> None:
    asked = question(1.0, None)
    scenario = asked.scenario.model_copy(update={"model": "v4-pro"})
    asked = asked.model_copy(update={"scenario": scenario, "layouts": ((2, 1),)})
    result = search(asked)
    assert not result.tried
    assert "does not fit" in plan_sentence(asked, result)


def test_a_stopped_search_goes_on(tmp_path: Path) -> None:
    asked, journal = question(0.2, None, rate=40.0), tmp_path / "outcomes.jsonl"
    first = search(asked, journal=journal)
    lines = journal.read_text().splitlines()
    assert len(lines) == len(first.tried)
    journal.write_text("\n".join(lines[:1]) + '\n{"key": "cut o')
    second = search(asked, journal=journal)
    assert second.kept == 1
    assert _figures(second) == _figures(first)
    third = search(asked, journal=journal)
    assert third.kept == len(third.tried)
    journal.write_text("something else\n")
    with pytest.raises(InputError, match="not a journal of a plan"):
        search(asked, journal=journal)


def _figures(result: SearchResult) -> list[tuple[object, ...]]:
    return [(o.label, o.targets, o.usd_per_million_output) for o in result.tried]


def test_the_runner_up_and_why_it_lost() -> None:
    asked = question(0.2, None, rate=40.0)
    result = search(asked)
    sentence = runner_up_sentence(asked, result)
    assert sentence is not None
    assert "dear" in sentence


@pytest.mark.parametrize("name", list_plans())
def test_plans_that_ship_are_read(name: str) -> None:
    asked = load_plan(name)
    assert asked.name == name
    assert {choice.chip for choice in asked.chips} == {"h200", "b200"}
