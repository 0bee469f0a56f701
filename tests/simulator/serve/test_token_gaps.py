"""Gaps between tokens: by hand, and against requests that are followed one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.serve.scheduler_rule import SchedulerRule
from simulator.serve.token_gaps import token_gaps
from tests.simulator.serve.run_cases import run_by_hand, run_of


def _gaps(run) -> dict[float, int]:
    values, weights = token_gaps(run.steps, run.requests)
    return {value: int(weights[values == value].sum()) for value in values[weights > 0]}


def test_a_gap_for_each_request_and_step():
    # A prompt of 10 us, then 3 steps of 2 us with 2 requests, then one of 5 us with a prompt.
    run = run_by_hand(
        [dict(arrival_ns=0, first_token_ns=10_000, finish_ns=21_000)] * 2,
        [[(0, 1, 10_000, 0, 5, 1), (10_000, 3, 6_000, 2), (16_000, 1, 5_000, 2, 7, 1)]],
    )
    assert _gaps(run) == {2000.0: 6, 5000.0: 2}


def test_prompts_that_run_alone_are_waited_for():
    # Request 0 decodes from 10, prompts of request 1 stop it from 12 to 22, both go on.
    run = run_by_hand(
        [
            dict(arrival_ns=0, first_token_ns=10, finish_ns=28),
            dict(arrival_ns=11, first_token_ns=22, finish_ns=28),
        ],
        [[(0, 1, 10, 0, 5, 1), (10, 1, 2, 1), (12, 1, 10, 0, 5, 1), (22, 2, 6, 2)]],
    )
    # 0: 2, then 22 + 3 - 12 = 13, then 3; 1: 3 and 3.
    assert _gaps(run) == {2.0: 1, 13.0: 1, 3.0: 3}


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**8), st.integers(1, 2500), st.integers(1, 90)),
        min_size=1,
        max_size=10,
    ),
    st.sampled_from(["decode-first", "prefill-first"]),
    st.sampled_from([64, 512, 4096]),
)
def test_gaps_add_up_to_the_answers(rows, order, step_tokens):
    run = run_of(rows, SchedulerRule(order=order, step_tokens=step_tokens))
    values, weights = token_gaps(run.steps, run.requests)
    log = run.requests
    assert weights.sum() == (log.column("output_tokens") - 1).sum()
    answers = (log.column("finish_ns") - log.column("first_token_ns")).sum()
    assert float(np.dot(values, weights)) == pytest.approx(float(answers))
