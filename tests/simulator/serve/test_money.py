"""The bill of a run by hand arithmetic."""

import pytest

from simulator.basis.errors import InputError
from simulator.serve.money import (
    StorageUse,
    bill_of,
    default_prices,
    lane_chips,
    prices_for,
)
from simulator.serve.scenario import Disaggregation, Parallel, Prices
from simulator.serve.scheduler_rule import SchedulerRule
from tests.simulator.serve.run_cases import run_by_hand, scenario_of

S = 1_000_000_000
PRICES = Prices(
    usd_per_chip_hour=3.6,
    date="2026-01-01",
    source="by hand",
    kw_per_chip=2.0,
    idle_kw_per_chip=0.5,
    usd_per_kwh=0.1,
)
REQUESTS = [
    dict(
        arrival_ns=0,
        admitted_ns=0,
        first_token_ns=4 * S,
        finish_ns=10 * S,
        input_tokens=400,
        output_tokens=50,
        hit_tokens=100,
        prefilled_tokens=300,
    )
]
# 2 s for prompts alone, 2 s of 300 prompt tokens beside 100 decoding, 4 s decoding, 2 s nothing.
STEPS = [[(0, 1, 2 * S, 0, 300, 1), (2 * S, 1, 2 * S, 100, 300, 1), (6 * S, 4, 4 * S, 1)]]


def _bill(storage=(), rule=None, **fields):
    run = run_by_hand(REQUESTS, STEPS, chips=2, rule=rule, **{"prices": PRICES, **fields})
    return bill_of(run, storage)


def test_chip_time_is_divided_by_tokens():
    time = _bill().time
    # 2 s + 2 s x 300 / 400 of 10 s; 2 s x 100 / 400 + 4 s; 2 s.
    assert time.prompts == pytest.approx(0.35)
    assert time.answers == pytest.approx(0.45)
    assert time.idle == pytest.approx(0.2)


def test_drafts_count_as_tokens_of_answers():
    time = _bill(rule=SchedulerRule(new_per_request=3)).time
    assert time.prompts == pytest.approx((2 + 2 * 300 / 600) / 10)


def test_dollars_by_hand():
    bill = _bill()
    usd = 3.6 * 2 * 10 / 3600  # 0.02
    assert bill.chip_seconds == 20.0
    assert bill.usd == pytest.approx(usd)
    assert bill.usd_input == pytest.approx(usd * 0.35 / 0.8)
    assert bill.usd_per_million_input_miss == pytest.approx(usd * 0.35 / 0.8 / 300 * 1e6)
    assert bill.usd_per_million_output == pytest.approx(usd * 0.45 / 0.8 / 50 * 1e6)
    assert bill.usd_per_million_output_bearing_all == pytest.approx(usd / 50 * 1e6)
    assert bill.usd_per_million_input_hit == 0.0
    assert bill.usd_input + bill.usd_output == pytest.approx(bill.usd)


def test_energy_takes_idle_power_where_it_is_known():
    energy = _bill().energy
    assert energy.joules == pytest.approx(2 * (2000 * 8 + 500 * 2))
    assert energy.joules_per_output_token == pytest.approx(energy.joules / 50)
    assert energy.kwh_usd == pytest.approx(0.1 * energy.joules / 3.6e6)
    all_in = _bill(prices=PRICES.model_copy(update={"idle_kw_per_chip": None})).energy
    assert all_in.joules == pytest.approx(2 * 2000 * 10)
    assert "all the time" in all_in.basis


def test_tiers_are_paid_by_hits():
    kept = StorageUse(name="host memory", gb_hours=3.0, usd=0.005)
    bill = _bill([kept])
    assert bill.usd_per_million_input_hit == pytest.approx(0.005 / 100 * 1e6)
    assert bill.usd == pytest.approx(0.02 + 0.005)
    assert bill.storage == (kept,)


def test_prices_by_name_by_default_and_unknown():
    default = prices_for(scenario_of())
    assert (default.usd_per_chip_hour, default.kw_per_chip) == (1.60, 1.73)
    assert default.date == "2026-04-03"
    assert prices_for(scenario_of(prices="tco-neocloud")).usd_per_chip_hour == 1.74
    assert default_prices("b200").usd_per_chip_hour == 2.90
    with pytest.raises(InputError, match="unknown price of h200 'rentall': did you mean 'rental'"):
        prices_for(scenario_of(prices="rentall"))


def test_a_chip_without_a_price_has_no_bill_but_chip_time():
    bill = _bill(prices=None, chip="h20")
    assert bill.usd is None
    assert bill.usd_per_million_output is None
    assert bill.chip_seconds == 20.0
    assert "no price of a h20 is known" in bill.price


def test_prefill_lanes_count_by_their_chips():
    split = Disaggregation(prefill_replicas=1, prefill_parallel=Parallel(tp=4))
    run = run_by_hand(
        REQUESTS,
        # 5 s of answers on 1 x 2 chips, 2 s of prompts on 1 x 4, of 10 s.
        [[(0, 5, 5 * S, 10)], [(0, 1, 2 * S, 0, 300, 1)]],
        chips=6,
        parallel=Parallel(tp=2),
        disaggregation=split,
    )
    assert lane_chips(run) == [2, 4]
    time = bill_of(run).time
    assert time.answers == pytest.approx(5 * 2 / 60)
    assert time.prompts == pytest.approx(2 * 4 / 60)
