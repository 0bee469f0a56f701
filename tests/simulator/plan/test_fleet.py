"""What fleets carry: laws of the ladder, of larger fleets, and of users."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.basis.errors import InputError
from simulator.plan.asked import budget_usd_per_hour
from simulator.plan.bounds import Misses
from simulator.plan.candidates import candidates
from simulator.plan.fleet import STEP, FleetQuestion, FleetSearch, fleets_within
from simulator.plan.plan_question import ChipChoice
from simulator.serve.live_request import LiveRequest
from simulator.serve.scenario import FixedShape, ServiceLevels
from simulator.serve.traffic import made_trace
from tests.sampling import WHOLE
from tests.simulator.plan.test_search import priced, question


def searched(rate: float | None, users: int | None, most: int) -> FleetSearch:
    asked = question(0.3, 12.0, rate=rate, concurrency=users)
    fleet = ChipChoice(chip="h200", most_chips=most, prices=priced(1.0))
    return FleetSearch(FleetQuestion(plan=asked, fleets=(fleet,)))


@pytest.mark.parametrize(("rate", "users"), [(40.0, None), (None, 8)])
def test_neighbours_on_the_ladder_are_met_and_missed(rate: float | None, users: int | None) -> None:
    search = searched(rate, users, 8)
    found = search.carried(search.question.fleets[0])
    assert found.met is not None
    assert found.missed is not None
    assert found.missed.rung == found.met.rung + 1
    assert found.met.outcome.meets
    assert not found.missed.outcome.meets
    if users is None:
        assert found.missed.rate_scale == pytest.approx(STEP * (found.met.rate_scale or 0))
    else:
        assert found.met.users is not None
        assert found.missed.users is not None
        assert found.missed.users <= max(STEP * found.met.users, found.met.users + 1)


def test_one_chip_more_never_carries_less() -> None:
    """Each fleet by a search of its own, that knows of no other."""
    rungs = []
    for most in range(1, 25 if WHOLE else 11):
        search = searched(40.0, None, most)
        found = search.carried(search.question.fleets[0])
        rungs.append(found.met.rung if found.met else -1000)
    assert rungs == sorted(rungs)
    assert rungs[0] == -1000  # the model fits on no single chip
    assert rungs[-1] > rungs[3] > -1000


def test_larger_fleets_stand_on_smaller_ones() -> None:
    search = searched(40.0, None, 5)
    fleets = tuple(
        ChipChoice(chip="h200", most_chips=most, prices=priced(1.0)) for most in (6, 4, 5)
    )
    search.question = FleetQuestion(plan=search.question.plan, fleets=fleets)
    six, four, five = (own.met.rung if own.met else -1000 for own in search.all_carried())
    assert four <= five <= six


def test_a_fleet_that_can_carry_nothing_says_why() -> None:
    search = searched(40.0, None, 1)
    found = search.carried(search.question.fleets[0])
    assert found.met is None
    assert all("chips, 1 are given" in reason for _, reason in found.ruled_out)


@pytest.mark.parametrize(
    ("text", "usd"),
    [("50/hour", 50.0), ("$50/h", 50.0), ("7,305/month", 10.0), ("240 USD/day", 10.0)],
)
def test_budgets(text: str, usd: float) -> None:
    assert budget_usd_per_hour(text) == pytest.approx(usd)


@pytest.mark.parametrize("text", ["50", "fifty/hour", "0/hour", "-3/hour", "5/fortnight", ""])
def test_budgets_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="--budget"):
        budget_usd_per_hour(text)


def test_chips_within_a_budget() -> None:
    chips = (
        ChipChoice(chip="h200", most_chips=100, prices=priced(1.6)),
        ChipChoice(chip="b200", most_chips=2, prices=priced(2.0)),
    )
    assert [own.most_chips for own in fleets_within(8.0, chips)] == [5, 2]
    with pytest.raises(InputError, match=r"h200 1\.6 USD, b200 2 USD"):
        fleets_within(1.0, chips)


@pytest.mark.parametrize("rung", [-20, 10, 25, 30, 32, 34, 36, 40, 60])
def test_a_run_that_is_given_up_misses_to_its_end_too(rung: int) -> None:
    search = searched(40.0, None, 8)
    plan = search.question.plan.model_copy(update={"chips": search.question.fleets})
    for candidate in candidates(plan):
        for replicas in range(1, candidate.most_replicas + 1):
            early = search._run(candidate, rung, replicas, to_its_end=False)
            late = search._try(candidate, rung, replicas)
            assert late.outcome.meets == (early is not None and early.outcome.meets)


@pytest.mark.parametrize("percentile", [50.0, 90.0, 95.0, 99.9])
@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 40, 101])
def test_so_many_late_requests_put_a_percentile_beyond_its_target(
    count: int, percentile: float
) -> None:
    shape = FixedShape(input_tokens=8, output_tokens=2, requests=count, rate_per_s=1)
    trace = made_trace(shape, seed=0)
    levels = ServiceLevels(ttft_s=1.0, percentile=percentile)
    misses = Misses(trace, levels)
    for index in range(count):
        request = LiveRequest(index=index, arrival_ns=0, input_tokens=8, output_tokens=2)
        request.first_token_ns, request.finish_ns = 2 * 10**9, 3 * 10**9
        missed = misses(request)
        times = np.where(np.arange(count) <= index, 1.0 + 1e-9, 0.0)
        # The others may be as early as can be; the percentile lies between two of all.
        lower = np.percentile(times, percentile, method="lower")
        assert missed == (lower > 1.0)
        assert not missed or np.percentile(times, percentile) > 1.0
