"""Whether load is carried: told of rates above capacity, and of no others."""

import numpy as np
import pytest

from simulator.serve.metrics import summarize
from simulator.serve.saturation import saturation_of
from simulator.serve.scenario import FixedShape, Traffic
from simulator.serve.scheduler_rule import SchedulerRule
from tests.simulator.serve.run_cases import run_of

# One at a time, 1 ms + 100 tokens x 20 us + 9 steps of about 1 ms: 12.1 ms, 82 requests a second.
ONE = SchedulerRule(max_requests=1)


def _run(rate: float, count: int = 800, **fields):
    gaps = np.random.default_rng(3).exponential(1e9 / rate, count)
    return run_of([(int(at), 100, 10) for at in np.cumsum(gaps)], ONE, **fields)


@pytest.mark.parametrize("rate", [100, 120, 300])
def test_a_rate_above_capacity_is_told_with_figures(rate):
    found = saturation_of(_run(rate).requests)
    assert found.offered_per_s == pytest.approx(rate, rel=0.15)
    assert found.served_per_s == pytest.approx(82, rel=0.05)
    # A second of arrivals takes offered / served seconds to serve: waiting grows by the rest.
    ratio = found.offered_per_s / found.served_per_s
    assert found.growth == pytest.approx(ratio - 1, rel=0.25)
    assert "saturated" in found.sentence
    assert "add replicas or lower the rate" in found.sentence


@pytest.mark.parametrize("rate", [10, 40, 60])
def test_a_rate_that_is_carried_is_not(rate):
    assert saturation_of(_run(rate).requests) is None


def test_too_few_requests_do_not_tell():
    assert saturation_of(_run(300, count=20).requests) is None


def test_a_closed_loop_is_never_saturated():
    made = FixedShape(input_tokens=1, output_tokens=1, requests=1, concurrency=4)
    assert summarize(_run(300)).saturation is not None
    assert summarize(_run(300, traffic=Traffic(made=made))).saturation is None
