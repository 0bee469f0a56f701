"""Use of matrix units, memory and links over time: bookkeeping by hand, real steps in bounds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from simulator.serve import resource_use as module
from simulator.serve.metrics import summarize
from simulator.serve.over_time import over_time
from simulator.serve.resource_use import resource_use, shares_of
from simulator.serve.run import run_scenario
from simulator.serve.scenario_file import open_scenario
from tests.simulator.serve.run_cases import run_by_hand

S = 1_000_000_000


def test_steps_of_either_kind_count_by_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2 s with prompts, 4 s decode alone with 3 requests, 2 s nothing; bins of 4 s.
    run = run_by_hand(
        [
            dict(arrival_ns=0, admitted_ns=0, first_token_ns=2 * S, finish_ns=6 * S,
                 input_tokens=1000, output_tokens=500)
        ],
        [[(0, 1, 2 * S, 0, 4096, 1), (2 * S, 4, 4 * S, 3)]],
    )  # fmt: skip
    asked: list[tuple[str, int, int]] = []

    def shares(_: object, phase: str, amount: int, context: int) -> dict[str, float]:
        asked.append((phase, amount, context))
        return {"memory": 0.5, "link": 0.1} if phase == "decode" else {"matrix": 0.8, "link": 0.2}

    monkeypatch.setattr(module, "_shares", shares)
    found = resource_use(run, over_time(run.steps, run.requests, 0, 8 * S, bins=2))
    assert found.shares["matrix"].tolist() == pytest.approx([0.8 * 2 / 4, 0])
    assert found.shares["memory"].tolist() == pytest.approx([0.5 * 2 / 4, 0.5 * 2 / 4])
    assert found.shares["link"].tolist() == pytest.approx([0.2 * 0.5 + 0.1 * 0.5, 0.05])
    assert found.mean["memory"] == pytest.approx(0.25)
    # At 2 s the context is 1,000, at 6 s nothing decodes any more; prompts after 500 on average.
    assert asked == [("decode", 3, 1024), ("prefill", 4096, 512), ("decode", 3, 128)]
    assert found.points == 3


def test_mean_context_grows_with_answers() -> None:
    run = run_by_hand(
        [
            dict(arrival_ns=0, first_token_ns=10, finish_ns=60, input_tokens=100, output_tokens=50),
            dict(arrival_ns=0, first_token_ns=30, finish_ns=40, input_tokens=500, output_tokens=10),
        ],
        [[(0, 1, 10, 0, 100, 1), (10, 50, 50, 1)]],
    )
    found = module._mean_context(run, np.array([5.0, 20.0, 35.0, 70.0]))
    assert found.tolist() == pytest.approx([0, 110, (125 + 505) / 2, 0])


def test_shares_are_busy_over_whole_time() -> None:
    kernels = [SimpleNamespace(busy_ps={"memory": 3, "matrix": 1}),
               SimpleNamespace(busy_ps={"memory": 2})]  # fmt: skip
    result = SimpleNamespace(kernels=kernels, total_ps=10)
    assert shares_of(result) == {"memory": 0.5, "matrix": 0.1}


def test_a_real_run_needs_memory_most_and_nothing_twice() -> None:
    changes = ["fidelity=roofline", "engine=ideal", "traffic.made.requests=60"]
    run = run_scenario(open_scenario("chat", changes))
    summary = summarize(run)
    found = resource_use(run, summary.over_time)
    assert found.points < 60  # of 120 bins with steps of two kinds
    for name, values in found.shares.items():
        assert np.all(values >= 0), name
        assert np.all(values <= summary.over_time.busy_share + 1e-9), name
    # Decode of a few requests reads weights.
    assert found.mean["memory"] > 3 * found.mean["matrix"] > 0
