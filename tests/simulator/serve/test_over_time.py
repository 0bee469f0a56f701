"""A run in bins: by hand, and nothing is lost between bins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.serve.over_time import over_time, time_integral
from tests.simulator.serve.run_cases import run_by_hand, run_of

S = 1_000_000_000


def test_two_bins_by_hand():
    # Arrives at 0, admitted at 1 s, first token at 2 s; 4 steps of 1 s; nothing in the last 2 s.
    run = run_by_hand(
        [
            dict(
                arrival_ns=0,
                admitted_ns=1 * S,
                first_token_ns=2 * S,
                finish_ns=6 * S,
                output_tokens=5,
            )
        ],
        [[(1 * S, 1, 1 * S, 0, 100, 1), (2 * S, 4, 4 * S, 1)]],
    )
    bins = over_time(run.steps, run.requests, 0, 8 * S, bins=2)
    assert bins.bin_s == 4.0
    assert bins.busy_share.tolist() == [3 / 4, 2 / 4]
    assert bins.decoding.tolist() == [2 / 4, 2 / 4]
    assert bins.queued.tolist() == [1 / 4, 0]
    assert bins.in_prefill.tolist() == [1 / 4, 0]
    assert bins.prompt_tokens_per_s.tolist() == [25.0, 0]
    assert bins.output_tokens_per_s.tolist() == [3 / 4, 2 / 4]
    assert bins.arrivals_per_s.tolist() == [1 / 4, 0]
    assert bins.finished_per_s.tolist() == [0, 1 / 4]


def test_covered_time_by_hand():
    # Two intervals, 0 to 10 and 4 to 6, at 5 and at 20.
    assert time_integral([0, 4], [10, 6], [5, 20]).tolist() == [6.0, 12.0]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**8), st.integers(1, 2500), st.integers(1, 300)),
        min_size=1,
        max_size=10,
    ),
    st.integers(1, 3),
    st.integers(1, 50),
)
def test_bins_add_up_to_the_run(rows, replicas, bins):
    run = run_of(rows, replicas=replicas)
    log = run.requests
    begin = int(log.column("arrival_ns").min())
    found = over_time(run.steps, log, begin, run.end_ns, bins)
    busy = sum(sum(steps.duration_ns) for steps in run.steps) / 1e9
    total = {name: values.sum() * found.bin_s for name, values in found.columns().items()}
    assert total["busy_share"] == pytest.approx(busy / len(run.steps))
    assert total["prompt_tokens_per_s"] == pytest.approx(log.column("input_tokens").sum())
    assert total["output_tokens_per_s"] == pytest.approx(log.column("output_tokens").sum())
    assert total["arrivals_per_s"] == pytest.approx(len(rows))
    waits = log.queueing_ns().sum() / 1e9
    assert total["queued"] == pytest.approx(waits, abs=1e-6)
    answers = (log.column("finish_ns") - log.column("first_token_ns")).sum() / 1e9
    assert total["decoding"] == pytest.approx(answers, abs=1e-6)
    assert np.all(found.busy_share <= 1 + 1e-9)
