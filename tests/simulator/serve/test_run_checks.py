"""Laws of every run: kept whatever comes, and broken ones noticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.serve.metrics import check_run
from simulator.serve.resources import Resource
from simulator.serve.run import run_scenario
from simulator.serve.scenario_file import open_scenario
from simulator.serve.scheduler_rule import SchedulerRule
from simulator.serve.step_log import StepLog
from tests.simulator.serve.run_cases import run_of

POOL = Resource(name="tokens", capacity=4000.0, fixed=10.0, pages=((128, 128.0),))
requests = st.lists(
    st.tuples(st.integers(0, 10**9), st.integers(1, 2500), st.integers(1, 900)),
    min_size=1,
    max_size=12,
)
rules = st.builds(
    SchedulerRule,
    max_requests=st.integers(1, 6),
    step_tokens=st.sampled_from([64, 512, 4096]),
    order=st.sampled_from(["decode-first", "prefill-first"]),
    tokens_per_step=st.sampled_from([1.0, 2.5]),
    step_overhead_ns=st.sampled_from([0, 777]),
)


@settings(max_examples=150)
@given(requests, rules, st.booleans(), st.integers(1, 3))
def test_every_run_keeps_the_laws(rows, rule, tight, replicas):
    run = run_of(rows, rule, [POOL] if tight else [], replicas=replicas)
    broken = [check.sentence for check in check_run(run) if not check.holds]
    assert not broken


def test_laws_hold_where_requests_give_way_again_and_again():
    draw = np.random.default_rng(0)
    preemptions = 0
    for _ in range(200):
        count = int(draw.integers(2, 14))
        rows = [
            (int(at), int(given), int(asked))
            for at, given, asked in zip(
                draw.integers(0, 10**9, count),
                draw.integers(1, 1500, count),
                draw.integers(1, 1500, count),
                strict=True,
            )
        ]
        rule = SchedulerRule(
            max_requests=int(draw.integers(1, 9)),
            step_tokens=int(draw.choice([32, 64, 512])),
            order=draw.choice(["decode-first", "prefill-first"]),
            tokens_per_step=float(draw.choice([1.0, 2.5])),
        )
        run = run_of(rows, rule, [POOL])
        assert [check.sentence for check in check_run(run) if not check.holds] == []
        preemptions += int(run.requests.column("preemptions").sum())
    assert preemptions > 100


ROWS = [(0, 500, 40), (3_000_000, 20, 60), (9_000_000, 900, 5)]


def _broken(run) -> list[str]:
    return [check.name for check in check_run(run) if not check.holds]


def _changed(name: str, row: int, by: int) -> list[str]:
    run = run_of(ROWS)
    assert not _broken(run)
    run.requests.column(name)[row] += by
    return _broken(run)


@pytest.mark.parametrize(
    ("name", "by", "told"),
    [
        ("prefilled_tokens", 1, "prompt tokens of steps"),
        ("hit_tokens", -1, "input tokens = hit"),
        ("output_tokens", 1, "output tokens ="),
        ("first_token_ns", 10_000_000, "request-seconds of decode steps"),
    ],
)
def test_what_does_not_add_up_is_noticed(name, by, told):
    assert any(law.startswith(told) for law in _changed(name, 1, by))


def test_a_lost_request_and_steps_that_overlap_are_noticed():
    run = run_of(ROWS)
    run.requests.column("finish_ns")[2] = -1
    assert "requests = finished + refused" in _broken(run)
    run = run_of(ROWS)
    twice = StepLog()
    for record in zip(*run.steps[0].columns().values(), strict=True):
        twice.add(*(int(value) for value in record))
    twice.start_ns[1] -= 1
    assert _broken(replace(run, steps=(twice,))) == ["steps that overlap, or end after the run"]


def test_littles_law_by_hand():
    # Two requests of 1 token each, 1.02 ms apart in service: in the system 1.02 and 2.04 ms.
    run = run_of([(0, 1, 1), (0, 1, 1)], SchedulerRule(max_requests=1))
    law = next(c for c in check_run(run) if c.name.startswith("Little"))
    assert law.left == pytest.approx((1.02 + 2.04) / 2.04)
    assert law.right == pytest.approx(2 / 2.04 * (1.02 + 2.04) / 2)
    assert law.holds


# A scenario whose pools hold far fewer requests than come, costed by the roofline.
TIGHT = (
    "fidelity=roofline",
    "engine=vllm-0.33",
    "memory_share=0.296",
    "scheduler.max_requests=400",
    "traffic.made.requests=100",
    "traffic.made.rate_per_s=200",
    "traffic.made.input_tokens=600",
    "traffic.made.output_tokens=4000",
)


@pytest.mark.parametrize(
    "changes",
    [
        ["prefix_cache={}"],
        ["disaggregation={prefill_replicas: 1}"],
        ["prefix_cache={}", "disaggregation={prefill_replicas: 2}", "replicas=2"],
        ["speculation={draft_tokens: 2, accepted: [1.79, 2.27]}", "memory_share=0.2985"],
        ["scheduler.order=prefill-first", "replicas=3", "routing=least-loaded"],
        ["engine=sglang-0.5", "memory_share=0.295", "disaggregation={prefill_replicas: 1}"],
    ],
)
def test_laws_hold_in_tight_deployments(changes: list[str]) -> None:
    run = run_scenario(open_scenario("chat", [*TIGHT, *changes]))
    assert [check.sentence for check in check_run(run) if not check.holds] == []
    assert run.requests.finished.all()
    slots = next(c for c in check_run(run) if c.name.startswith("requests that decode at once"))
    assert 0 < slots.left <= slots.right < 400
