"""Energy of a step: its classes add up, and no chip draws more than its limit."""

from __future__ import annotations

import pytest

from hwmodels.chip import find_chip
from simulator.cost.energy import step_energy
from simulator.cost.question import ask
from simulator.cost.step import cost_step


@pytest.mark.parametrize("chip", ["h200", "b200"])
@pytest.mark.parametrize(("phase", "batch"), [("decode", 1), ("decode", 64), ("prefill", 1)])
def test_power_lies_between_idle_and_the_limit(chip: str, phase: str, batch: int) -> None:
    asked = ask(model="v4-flash", chip=chip, count=8, phase=phase, batch=batch, context=8192)
    step, spec = cost_step(asked), find_chip(chip)
    found = step_energy(step, spec)
    assert 0.11 * spec.tdp_w < found.watts <= spec.tdp_w * (1 + 1e-9)
    parts = found.idle_j + found.matrix_j + found.memory_j + found.links_j
    assert found.chip_j == pytest.approx(parts)
    assert found.joules_per_token > 8 * found.chip_j / step.tokens


def test_a_fuller_batch_takes_less_energy_a_token() -> None:
    def energy(batch: int) -> float:
        asked = ask(model="v4-flash", chip="h200", count=8, batch=batch, context=8192)
        return step_energy(cost_step(asked), find_chip("h200")).joules_per_token

    assert energy(64) < energy(8) < energy(1)
