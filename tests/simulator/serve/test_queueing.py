"""Against queueing theory: one server, Poisson arrivals, a million and more of them.

M/D/1 (all services alike) and M/M/1 (exponential services): Pollaczek and Khinchine's mean wait is
rho / (1 - rho) x mean service x (1 + cv^2) / 2.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from simulator.serve.metrics import summarize
from simulator.serve.run import run_scenario
from simulator.serve.scheduler_rule import SchedulerRule
from tests.sampling import tenth
from tests.simulator.serve.run_cases import deployment_of, scenario_of
from tests.simulator.serve.serve_cases import trace_of

ARRIVALS = 1_000_000
SERVICE_NS = 1_000_000
RHO = 0.5


class DrawnClock:
    """Every prompt takes what is drawn next; requests of one token never decode."""

    knee_tokens = 1

    def __init__(self, services: Iterator[float]) -> None:
        self.services = services

    def decode_ns(self, groups: object) -> float:
        raise AssertionError("a request of one token has no decode step")

    def step_ns(self, groups: object, chunks: object) -> float:
        return next(self.services)

    def segment(self, mean: float) -> float:
        raise AssertionError("a request of one token has no decode step")


@pytest.mark.parametrize(("name", "cv"), tenth([("M/D/1", 0.0), ("M/M/1", 1.0)], 3))
def test_waiting_of_one_server(name: str, cv: float) -> None:
    draw = np.random.default_rng(20)
    arrival = np.cumsum(draw.exponential(SERVICE_NS / RHO, ARRIVALS)).astype(np.int64)
    service = draw.exponential(SERVICE_NS, ARRIVALS) if cv else np.full(ARRIVALS, SERVICE_NS)
    one = np.ones(ARRIVALS, dtype=np.int64)
    run = run_scenario(
        scenario_of(),
        deployment=deployment_of(
            SchedulerRule(max_requests=1), clock=DrawnClock(iter(service.tolist()))
        ),
        trace=trace_of(np.stack([arrival, one, one], axis=1)),
    )
    found = summarize(run)
    theory = RHO / (1 - RHO) * SERVICE_NS * (1 + cv**2) / 2
    assert run.requests.queueing_ns().mean() == pytest.approx(theory, rel=0.02), name
    assert found.lawful, [check.sentence for check in found.checks if not check.holds]
    # Little's law, its sides from different records: busy time of the step log for the number in
    # service, waits of the request log for the queue, against rate x latency.
    busy = sum(run.steps[0].duration_ns) / (run.end_ns - arrival[0])
    queue = theory / SERVICE_NS * RHO
    assert busy == pytest.approx(RHO, rel=0.02)
    assert found.rates.in_system == pytest.approx(queue + RHO, rel=0.02)
    little = next(check for check in found.checks if check.name.startswith("Little"))
    assert little.left == pytest.approx(little.right, rel=1e-3)
    assert little.left == pytest.approx(
        busy + run.requests.queueing_ns().sum() / (run.end_ns - arrival[0]), rel=1e-3
    )
