"""The summary of a run by hand arithmetic."""

import json

import pytest

from simulator.basis.errors import InputError
from simulator.serve.metrics import good_requests, summarize
from simulator.serve.resources import Resource
from simulator.serve.run import require_finished
from simulator.serve.scenario import ServiceLevels
from tests.simulator.serve.run_cases import run_by_hand, run_of

S = 1_000_000_000
REQUESTS = [
    dict(arrival_ns=1 * S, admitted_ns=1 * S, first_token_ns=2 * S, finish_ns=6 * S,
         input_tokens=100, output_tokens=5, hit_tokens=40, prefilled_tokens=60),
    dict(arrival_ns=1 * S, admitted_ns=2 * S, first_token_ns=4 * S, finish_ns=11 * S,
         input_tokens=300, output_tokens=8, prefilled_tokens=300),
    dict(arrival_ns=3 * S, input_tokens=10**6, output_tokens=1, replica=-1),
]  # fmt: skip
STEPS = [[(1 * S, 1, 1 * S, 0, 60, 1), (2 * S, 2, 2 * S, 1, 300, 1), (4 * S, 2, 2 * S, 2),
          (6 * S, 5, 5 * S, 1)]]  # fmt: skip


def _run(**levels: float):
    levels = ServiceLevels(**levels)
    refused = {"blocks": 1}
    return run_by_hand(REQUESTS, STEPS, refused=refused, chips=4, service_levels=levels)


def test_counts_rates_and_latencies_by_hand():
    found = summarize(_run())
    counts, rates, waits = found.counts, found.rates, found.latencies
    assert (counts.requests, counts.finished, counts.unfinished) == (3, 2, 0)
    assert (counts.input_tokens, counts.hit_tokens, counts.output_tokens) == (400, 40, 13)
    assert (counts.computed_tokens, counts.steps) == (360, 10)
    assert rates.span_s == 10.0  # from 1 s to 11 s
    assert rates.input_tokens_per_s == 40.0
    assert rates.output_tokens_per_s_chip == pytest.approx(1.3 / 4)
    assert rates.busy_share == 1.0
    assert rates.in_system == pytest.approx((5 + 10) / 10)
    assert waits.ttft_s.mean == 2.0  # 1 s and 3 s
    assert waits.tpot_ms.mean == pytest.approx(1000.0)  # 4 s for 4 tokens, 7 s for 7
    assert waits.queueing_s.most == 1.0
    # Gaps of 1 s: 1 request x 2 steps, 2 x 2, 1 x 5.
    assert (waits.itl_ms.count, waits.itl_ms.p99) == (11, 1000.0)
    assert found.lawful, [c for c in found.checks if not c.holds]


def test_goodput_counts_requests_that_keep_every_level():
    found = summarize(_run(ttft_s=2.0, tpot_ms=1000.0, percentile=50)).goodput
    assert (found.requests, found.share) == (1, pytest.approx(1 / 3))
    assert found.requests_per_s == pytest.approx(0.1)
    assert found.output_tokens_per_s == pytest.approx(0.5)
    assert [(lv.name, lv.found, lv.is_met) for lv in found.levels] == [
        ("TTFT p50", 2.0, True),
        ("TPOT p50", 1000.0, True),
    ]
    assert summarize(_run()).goodput is None


def test_a_level_of_time_a_token_is_kept_by_an_answer_of_one():
    run = run_of([(0, 10, 1), (0, 10, 50)])
    assert good_requests(run, ServiceLevels(tpot_ms=1e-3)).tolist() == [True, False]


def test_levels_that_are_looser_are_kept_by_more():
    run = run_of([(i * 10**6, 200 + 50 * i, 30) for i in range(20)])
    kept = [good_requests(run, ServiceLevels(ttft_s=s)).sum() for s in (0.01, 0.03, 0.1, 1.0)]
    assert kept == sorted(kept)
    assert kept[0] < kept[-1] == 20


def test_a_request_longer_than_the_pool_is_refused_and_counted():
    pool = Resource(name="tokens", capacity=512.0, fixed=0.0, pages=((128, 128.0),))
    run = run_of([(0, 100, 10), (0, 600, 10)], resources=[pool])
    found = summarize(run)
    assert found.counts.refused == {"tokens": 1}
    assert found.lawful
    require_finished(run)
    with pytest.raises(InputError, match=r"none of the 1 requests fits .*1 for tokens"):
        require_finished(run_of([(0, 600, 10)], resources=[pool]))


def test_json_has_everything_as_plain_numbers():
    found = summarize(_run(ttft_s=2.0))
    read = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert read["latencies"]["ttft_s"]["mean"] == 2.0
    assert read["counts"]["refused"] == {"blocks": 1}
    assert len(read["over_time"]["busy_share"]) == 120
    assert all(check["holds"] is True for check in read["checks"])
