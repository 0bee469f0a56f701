"""A replica: times by hand, and that jumping over equal steps changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.serve.request_log import COLUMNS
from simulator.serve.resources import Ledger, Resource
from simulator.serve.scheduler_rule import SchedulerRule
from tests.simulator.serve.serve_cases import LineClock, serve, trace_of

POOL = Resource(name="tokens", capacity=6000.0, fixed=10.0, pages=((128, 128.0),))

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


def test_one_request_by_hand() -> None:
    world = serve(trace_of([(500, 10, 3)]), clock=LineClock())
    # Prompt: 1 ms + 10 tokens x 20 us; then two steps at contexts 11 and 12.
    first = 500 + 1_200_000
    step = [1_010_000 + 3 * c + 1000 - c for c in (11, 12)]
    assert world.log.column("first_token_ns").tolist() == [first]
    assert world.log.column("finish_ns").tolist() == [first + sum(step)]


def test_chunks_of_a_long_prompt() -> None:
    world = serve(trace_of([(0, 1000, 1)]), rule=SchedulerRule(step_tokens=400))
    steps = world.replica.log.columns()
    assert steps["prompt_tokens"].tolist() == [400, 400, 200]
    by_hand = 3e6 + 1000 * 2e4 + 1.5 * (400 * 400 + 200 * 800)
    assert world.log.column("finish_ns").tolist() == [round(by_hand)]


def test_prompts_go_first_where_the_rule_says_so() -> None:
    trace = trace_of([(0, 10, 50), (5_000_000, 2000, 2)])
    mixed = serve(trace, rule=SchedulerRule(step_tokens=100))
    alone = serve(trace, rule=SchedulerRule(step_tokens=100, order="prefill-first"))
    assert alone.log.column("first_token_ns")[1] < mixed.log.column("first_token_ns")[1]
    assert alone.log.column("finish_ns")[0] > mixed.log.column("finish_ns")[0]
    decoding = alone.replica.log.columns()
    assert not decoding["decoding"][decoding["prompts"] > 0].any()


@settings(max_examples=80)
@given(requests, rules)
def test_jumps_change_nothing(rows: list[tuple[int, int, int]], rule: SchedulerRule) -> None:
    trace = trace_of(rows)
    jumped = serve(trace, rule=rule, resources=[POOL])
    stepped = serve(trace, rule=rule, resources=[POOL], jumps=False)
    for name in COLUMNS:
        np.testing.assert_array_equal(jumped.log.column(name), stepped.log.column(name), name)
    for name, column in jumped.replica.log.columns().items():
        np.testing.assert_array_equal(column, stepped.replica.log.columns()[name], name)


@settings(max_examples=80)
@given(requests, rules)
def test_everybody_is_served_and_memory_is_returned(
    rows: list[tuple[int, int, int]], rule: SchedulerRule
) -> None:
    world = serve(trace_of(rows), rule=rule, resources=[POOL])
    log = world.log
    assert log.finished.all()
    assert (log.column("first_token_ns") <= log.column("finish_ns")).all()
    assert (log.column("arrival_ns") <= log.column("admitted_ns")).all()
    assert world.replica.ledger.held == [0.0, 0.0]
    steps = world.replica.log.columns()
    # Every prompt token is computed once, and again what a preemption threw away.
    computed = log.column("input_tokens").sum() + log.column("recomputed_tokens").sum()
    extra = log.column("preemptions").sum()
    assert steps["prompt_tokens"].sum() == computed + extra


def test_a_pool_that_runs_full_makes_the_last_give_way() -> None:
    small = Resource(name="tokens", capacity=2048.0, fixed=0.0, pages=((128, 128.0),))
    world = serve(trace_of([(0, 600, 400), (1, 600, 400)]), resources=[small])
    assert world.log.column("preemptions").tolist() == [0, 0]
    tight = Resource(name="tokens", capacity=1792.0, fixed=0.0, pages=((128, 128.0),))
    world = serve(trace_of([(0, 600, 400), (1, 600, 400)]), resources=[tight])
    assert world.log.column("preemptions").tolist() == [0, 1]
    assert world.log.finished.all()


def test_a_request_that_never_fits_is_refused() -> None:
    world = serve(trace_of([(0, 10, 1)]), resources=[POOL])
    request = type("R", (), {"input_tokens": 5900, "output_tokens": 200})()
    assert world.replica.refuses(request) == "tokens"


@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=20),
    st.integers(1, 5000),
    st.floats(1, 3),
)
def test_ledger_agrees_with_counting_one_by_one(
    contexts: list[int], most: int, rate: float
) -> None:
    resource = Resource(name="x", capacity=40000.0, fixed=3.0, pages=((128, 128.0), (2048, 7.0)))
    ledger = Ledger([resource])
    array = np.array(contexts, dtype=float)
    assert resource.units_of_all(array) == pytest.approx(sum(map(resource.units, contexts)))

    def fits(steps: int) -> bool:
        return resource.units_of_all(array + rate * steps) <= resource.capacity

    found = ledger.steps_that_fit(array, rate, most)
    assert found == 0 or fits(found)
    assert found == most or not fits(found + 1)
