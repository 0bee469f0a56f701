"""The timer meets the whole step to the picosecond, and remembers."""

import random

import pytest

from simulator.cost.question import ask, step_of
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
    {
        "model": "tiny",
        "chip": "h20",
        "engine": "ideal",
        "fidelity": "roofline",
        "batch": 2,
        "context": 300,
    },
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda a: " ".join(map(str, a.values())))
def test_the_timer_meets_the_whole_step(asked):
    step = ask(**asked)
    whole = cost_step(step, must_fit=False)
    timer = StepTimer(step)
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
    timer = StepTimer(step)
    mixed = timer.total_ps(StepShape(((512, 0), (1, 8000), (1, 20000))))
    assert mixed > timer.total_ps(StepShape(((1, 8000), (1, 20000))))


# Deployments whose steps are timed by a recording of another step.
DEPLOYMENTS = [
    {"model": "v4-pro", "chip": "b200", "count": 8},
    {"model": "v4-pro", "chip": "b200", "count": 8, "dp": 8, "ep": 8},
    {"model": "v4-flash", "chip": "h200", "count": 8, "dp": 2, "fidelity": "roofline"},
    {"model": "v4-pro", "chip": "b200", "count": 8, "engine": "sglang-0.5"},
    {"model": "v4-flash", "chip": "h200", "count": 8, "dp": 8, "ep": 8, "engine": "vllm-0.22"},
    {"model": "v4-flash", "chip": "b200", "count": 8, "dp": 4, "engine": "trtllm-1.3"},
    {"model": "v4-pro", "chip": "ascend-910c", "count": 8, "engine": "ascend"},
    {"model": "v4-flash", "chip": "mi300x", "count": 8, "engine": "sglang-0.5"},
    {"model": "v4-pro", "chip": "h200", "count": 8, "engine": "vllm-0.33", "expert_dtype": "fp4"},
    {"model": "v4-flash", "chip": "ascend-910b3", "count": 8, "index_dtype": "fp4"},
    {"model": "v4-flash", "chip": "ascend-950dt", "count": 8, "dp": 8, "ep": 8},
    {"model": "v4-flash", "chip": "h200", "count": 8, "index_dtype": "fp4"},
]


def _steps(seed: int) -> list[StepShape]:
    """Decode, prefill, mixed and ragged batches; some complete compressed entries."""
    rng = random.Random(seed)
    requests = [(rng.choice([1, 1, rng.randint(2, 3000)]), rng.randint(0, 40_000)) for _ in "x" * 9]
    return [
        StepShape.uniform(rng.randint(8, 300), 1, rng.randint(0, 130_000)),
        StepShape.uniform(8 * rng.randint(1, 30), 1, 128 * rng.randint(1, 900) - 1),
        StepShape(tuple((1, rng.randint(0, 100_000)) for _ in range(rng.randint(8, 40)))),
        StepShape.uniform(rng.randint(8, 12), rng.randint(2, 6000), rng.choice([0, 12_345])),
        StepShape(tuple(requests)),
    ]


@pytest.mark.parametrize("asked", DEPLOYMENTS, ids=lambda a: " ".join(map(str, a.values())))
def test_a_recorded_step_gives_the_picoseconds_of_its_kernels(asked):
    step = ask(batch=64, context=131_072, **asked)
    timer = StepTimer(step)
    timer.asked_ps()
    for shapes in (*_steps(1), *_steps(2), *_steps(3)[:2]):
        assert timer.total_ps(shapes) == timer.kernel_by_kernel_ps(shapes)


@pytest.mark.parametrize("engine", ["ideal", "sglang-0.5"])
def test_a_recorded_step_gives_the_picoseconds_of_the_whole_step(engine):
    given = {"model": "v4-flash", "chip": "b200", "count": 8, "engine": engine}
    first = ask(batch=64, context=131_072, **given)
    timer = StepTimer(first)
    timer.asked_ps()
    for batch, context in ((17, 30_001), (200, 8_192), (3, 999)):
        other = ask(batch=batch, context=context, **given)
        whole = cost_step(other, must_fit=False)
        assert timer.total_ps(step_of(other.question)) == whole.total_ps
