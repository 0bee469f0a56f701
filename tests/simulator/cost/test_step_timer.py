"""The timer meets the whole step to the picosecond, and remembers."""

import pytest

from simulator.cost.question import ask
from simulator.cost.step import cost_step
from simulator.cost.step_timer import StepTimer, distinct_layers
from workloads.deepseek_v4.config import find_model
from workloads.step_shape import StepShape

ASKED = [
    {"model": "v4-pro", "chip": "b200", "count": 8, "batch": 64, "context": 131072},
    {"model": "v4-flash", "chip": "h200", "count": 8, "batch": 3, "context": 5001},
    {"model": "v4-flash", "chip": "h200", "count": 8, "dp": 4, "batch": 9, "ep": 8},
    {"model": "v4-flash", "chip": "h200", "count": 8, "phase": "prefill", "context": 3000},
    {"model": "v4-flash", "chip": "b200", "count": 8, "engine": "sglang-0.5", "batch": 8},
    {"model": "tiny", "chip": "h20", "fidelity": "roofline", "batch": 2, "context": 300},
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda a: " ".join(map(str, a.values())))
def test_the_timer_meets_the_whole_step(asked):
    step = ask(**asked)
    whole = cost_step(step.question, step.config, step.chip, step.node)
    timer = StepTimer(step.question, step.config, step.chip, step.node)
    assert timer.asked_ps() == whole.total_ps
    assert timer.asked_ps() == whole.total_ps


def test_every_pair_of_neighbours_is_costed_once():
    reduced, repeats = distinct_layers(find_model("v4-pro"))
    assert reduced.compress_ratios == (128, 128, 4, 128, 4, 128, 4)
    # Hash layers 0-2; then 29 layers of ratio 128, each before one of ratio 4, the last before
    # the head.
    assert list(repeats.values()) == [1, 1, 1, 29, 28, 0, 1]
    assert sum(repeats.values()) == 61


def test_ragged_steps_are_timed_too():
    step = ask(model="v4-flash", chip="h200", count=8)
    timer = StepTimer(step.question, step.config, step.chip, step.node)
    mixed = timer.total_ps(StepShape(((512, 0), (1, 8000), (1, 20000))))
    assert mixed > timer.total_ps(StepShape(((1, 8000), (1, 20000))))
