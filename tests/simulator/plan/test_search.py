"""The search against exhaustive search, its bounds against simulations, and what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hwmodels
from simulator.basis.errors import InputError
from simulator.plan import plan_question
from simulator.plan.bounds import Unloaded, fewest_replicas, missed_target, unloaded
from simulator.plan.candidates import candidates
from simulator.plan.journal import Journal
from simulator.plan.outcome import outcome_of
from simulator.plan.plan_question import ChipChoice, PlanQuestion, list_plans, load_plan
from simulator.plan.search import SearchResult, search
from simulator.plan.sensitivity import sensitivity
from simulator.plan.verdict import infeasible_sentence, plan_sentence, runner_up_sentence
from simulator.serve.deployment import deploy
from simulator.serve.money import bill_of
from simulator.serve.run import run_scenario
from simulator.serve.scenario import (
    FixedShape,
    Parallel,
    PrefixCache,
    Prices,
    Scenario,
    ServiceLevels,
    Speculation,
    Traffic,
)
from simulator.serve.traffic import made_trace, trace_of
from tests.sampling import WHOLE


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
    pruned, whole = search(asked, of_each=False), search(asked, exhaustive=True)
    assert len(pruned.tried) < len(whole.tried)
    assert (pruned.best is None) == (whole.best is None)
    for found, true in ((pruned.best, whole.best), (pruned.runner_up, whole.runner_up)):
        if true is None or found is None:
            assert found == true
        elif objective == "chips":
            assert found.chips == true.chips
        else:
            assert found.usd_per_million_output == true.usd_per_million_output


@pytest.mark.parametrize(("ttft_s", "rate"), [(3.0, 30.0), (0.8, 12.0)][: 2 if WHOLE else 1])
def test_search_is_exhaustive_with_ranks_exchanges_formats_and_drafts(
    ttft_s: float, rate: float
) -> None:
    base = question(ttft_s, 60.0, rate=rate)
    spoken = Speculation(draft_tokens=1, accepted=(1.8,))
    asked = PlanQuestion(
        name="ranks",
        scenario=base.scenario.model_copy(update={"speculation": spoken, "engine": "sglang-0.5"}),
        chips=(ChipChoice(chip="b200", most_chips=8, prices=priced(2.9)),),
        engines=("sglang-0.5",),
        layouts=((4, 1), (1, 4)),
        expert_parallel=(1, 4),
        exchanges=("deepep", "fused", "gathered"),
        expert_dtypes=("fp4", "fp8"),
        drafts=(0, 1),
    )
    found = list(candidates(asked))
    assert {c.scenario.exchange for c in found} == {None, "deepep", "fused", "gathered"}
    assert len({c.label for c in found}) == len({c.key for c in found})
    pruned, whole = search(asked), search(asked, exhaustive=True)
    assert (pruned.best is None) == (whole.best is None)
    if whole.best is not None and pruned.best is not None:
        assert pruned.best.usd_per_million_output == whole.best.usd_per_million_output


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


@pytest.mark.parametrize(
    ("per_replica", "target_s", "fewest"), [(1, 1.0, 2), (2, 1.0, 1), (1, 2.0, 2), (1, 0.5, 3)]
)
def test_prompts_under_way_are_not_late_yet(per_replica: int, target_s: float, fewest: int) -> None:
    """Ten prompts of a second at once, half of which may be late, and one beside: six.

    By the target n lanes have done n x target whole ones, and n more may be done a moment later:
    10 - n x target - n <= 6. In a second two lanes (10 - 2 - 2), one by itself not (10 - 1 - 1);
    in two seconds two as well (10 - 4 - 2; one: 10 - 2 - 1); in half a second three (10 - 1 - 3).
    """
    ones = np.full(10, 1e9)
    levels = ServiceLevels(ttft_s=target_s, percentile=50.0)
    scenario = question(1.0, None).scenario.model_copy(update={"service_levels": levels})
    trace = made_trace(
        FixedShape(input_tokens=8, output_tokens=8, requests=10, rate_per_s=1.0), seed=1
    )
    at_once = replace(trace, arrival_ns=np.zeros(10, dtype=np.int64))
    least = Unloaded(prompt_ns=ones, token_ns=ones, work_ns=ones)
    found = fewest_replicas(least, at_once, scenario, 50, lambda n: per_replica * n)
    assert found == fewest


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
    assert "more expensive" in sentence


@pytest.mark.parametrize("name", list_plans())
def test_plans_that_ship_are_read(name: str) -> None:
    asked = load_plan(name)
    assert asked.name == name
    assert {choice.chip for choice in asked.chips} == {"h200", "b200"}


def with_prefill_shares(asked: PlanQuestion, *shares: float) -> PlanQuestion:
    chips = tuple(
        choice.model_copy(update={"most_chips": 24})
        for choice in asked.chips
        if choice.chip == "h200"
    )
    return asked.model_copy(
        update={
            "prefill_shares": shares,
            "layouts": ((4, 1),),
            "max_requests": (64,),
            "chips": chips,
        }
    )


@pytest.mark.parametrize(("rate", "concurrency"), [(120.0, None), (None, 8)])
def test_bounds_never_prune_a_plan_with_more_prefill_replicas(
    rate: float | None, concurrency: int | None
) -> None:
    asked = with_prefill_shares(question(0.25, None, rate=rate, concurrency=concurrency), 0.25, 3.0)
    pruned, whole = search(asked), search(asked, exhaustive=True)
    assert whole.best is not None
    assert pruned.best is not None
    assert pruned.best.usd_per_million_output == whole.best.usd_per_million_output
    accepted = {outcome.candidate.label for outcome in whole.tried if outcome.meets}
    assert not accepted & {out.label for out in pruned.ruled_out}


def test_replicas_that_the_chips_give() -> None:
    asked = with_prefill_shares(question(1.0, None), 0.25, 3.0, 8.0)
    by_share = {candidate.prefill_share: candidate for candidate in candidates(asked)}
    # Of 24 chips, four a replica: 6; 5 + 1; 1 + 3; 1 + 8 do not fit.
    assert [by_share[s].most_replicas for s in (0.0, 0.25, 3.0, 8.0)] == [6, 5, 1, 0]
    assert [by_share[s].prompt_replicas(1) for s in (0.0, 0.25, 3.0, 8.0)] == [1, 1, 3, 8]
    reasons = {out.reason for out in search(asked).ruled_out if "8 prefill" in out.label}
    assert reasons == {"takes 36 chips, 24 are allowed"}


def test_floors_hold_for_a_trace_that_begins_late(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question(0.2, None, rate=40.0)
    trace = trace_of(asked.scenario)
    late = replace(trace, arrival_ns=trace.arrival_ns + 1000 * 10**9)
    monkeypatch.setattr("simulator.plan.search.trace_of", lambda _: late)
    pruned, whole = search(asked), search(asked, exhaustive=True)
    assert pruned.best is not None
    assert whole.best is not None
    assert pruned.best.usd_per_million_output == whole.best.usd_per_million_output


def test_dollars_are_those_of_the_bill_with_its_tiers() -> None:
    asked = question(None, 50.0, rate=6.0, most_chips=4)
    cached = asked.scenario.model_copy(update={"prefix_cache": PrefixCache(tiers="node")})
    best = search(asked.model_copy(update={"scenario": cached})).best
    assert best is not None
    bill = bill_of(run_scenario(best.candidate.with_replicas(best.replicas)))
    assert best.usd_per_million_output == bill.usd_per_million_output_bearing_all
    assert sum(use.usd for use in bill.storage) > 0


def test_slower_kernels_slow_prefill_replicas_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = with_prefill_shares(question(1.0, None), 1.0)
    split = next(c for c in candidates(asked) if c.prefill_share)
    run = run_scenario(split.with_replicas(1))
    monkeypatch.setattr("simulator.plan.sensitivity.kernel_factors", lambda _: (1.0, 2.0))
    changes = sensitivity(outcome_of(split, 1, run), run.deployment, run.trace)
    as_it_is, slow = (change.outcome.targets[0].found for change in changes[2:4])
    assert as_it_is == outcome_of(split, 1, run).targets[0].found
    assert slow > 1.8 * as_it_is


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("engines: [sglang-0.5]", "engines: [sglang-9]", "unknown engine 'sglang-9'"),
        ("most_chips: 32", "most_chips: many", "most_chips' is 'many', expected a whole number"),
        ("model: v4-flash", "model: v9", "unknown model 'v9'"),
        ("chip: h200\n", "chip: h200\n  disaggregation: {prefill_replicas: 1}\n", "prefill_shares"),
        ("chip: h200\n", "chip: h200\n  parallel: {pp: 2}\n", "leave pp and cp out"),
    ],
)
def test_questions_that_cannot_be(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (Path(plan_question.__file__).parent / "plans" / "chat.yaml").read_text()
    path = tmp_path / "plan.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        load_plan(path)


def test_a_journal_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*: Is a directory"):
        Journal(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a journal of a plan"):
        Journal(tmp_path / "bytes")


def test_a_journal_knows_the_contents_of_files(tmp_path: Path) -> None:
    chip = tmp_path / "mine.yaml"
    chip.write_text((Path(hwmodels.__file__).parent / "chips" / "h200.yaml").read_text())
    asked = question(None, 50.0, most_chips=4)
    chips = (ChipChoice(chip=str(chip), most_chips=4, prices=priced(1.0)),)
    asked = asked.model_copy(update={"chips": chips, "layouts": ((4, 1),), "max_requests": (64,)})
    journal = tmp_path / "outcomes.jsonl"
    search(asked, journal=journal)
    assert search(asked, journal=journal).kept == 1
    chip.write_text(chip.read_text() + "\n# another one\n")
    assert search(asked, journal=journal).kept == 0
