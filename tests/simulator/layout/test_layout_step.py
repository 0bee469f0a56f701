"""The decode step under another layout's runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.cost.question import ask
from simulator.cost.step_timer import StepTimer
from simulator.layout.gather_runs import PoolRuns
from simulator.layout.layout_step import LayoutStep
from simulator.layout.sweep import own_runs
from tests.simulator.layout.layout_cases import question
from workloads.step_shape import StepShape

CONTEXTS = (131_072,) * 8


def step_of(engine: str, runs: tuple[PoolRuns, ...]) -> tuple[LayoutStep, StepTimer]:
    asked = ask(
        model="v4-flash", chip="h200", count=8, dp=8, ep=8, batch=8, context=131_072, engine=engine
    )
    timer = StepTimer(asked.question, asked.config, asked.chip, asked.node)
    return LayoutStep(asked, CONTEXTS, runs), timer


def test_calibrated_engine_with_its_own_layout_takes_the_calibrated_time() -> None:
    runs = own_runs(question())
    step, timer = step_of("sglang-0.5", runs)
    shape = StepShape(tuple((1, n - 1) for n in CONTEXTS))
    assert step.total_ps(runs) == timer.total_ps(shape)


@pytest.mark.parametrize("engine", ["ideal", "sglang-0.5"])
def test_worse_runs_take_longer(engine: str) -> None:
    own = own_runs(question(engine=engine))
    step, _ = step_of(engine, own)
    times = [
        step.total_ps(tuple(replace(run, efficiency=run.efficiency * share) for run in own))
        for share in (1.0, 0.5, 0.25)
    ]
    assert times == sorted(times)
    # 112.3 MB of reads at 4.8 TB/s: 23.4 us at full rate, so 4 x as long is some 77 us more.
    added = times[2] - times[0]
    assert 40e6 < added < 110e6
