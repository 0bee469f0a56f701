"""The typical decode step is the mean over the period in which compressed entries complete."""

from __future__ import annotations

import pytest

from simulator.cost.question import AskedStep, ask
from simulator.cost.step import cost_step
from simulator.cost.step_timer import StepTimer
from simulator.cost.typical_step import step_classes, typical_step
from simulator.engine.profile import list_profiles
from workloads.step_shape import StepShape


def asked(engine: str = "sglang-0.5", **options: object) -> AskedStep:
    chip = "ascend-910c" if engine == "ascend" else "h200"
    given = {"model": "v4-flash", "count": 8, "batch": 8, "context": 16_384, **options}
    return ask(chip=chip, engine=engine, **given)


def test_classes_of_v4_by_hand() -> None:
    period, classes = step_classes((0, 4, 128), 1024)
    assert period == 128
    # 96 steps complete nothing, 31 a C4 entry, 1 both; the asked one is last.
    assert [(round(one.share * 128), one.context) for one in classes] == [
        (96, 1023), (31, 1020), (1, 1024),
    ]  # fmt: skip
    period, classes = step_classes((0, 4, 128), 1023)
    assert [round(one.share * 128) for one in classes][-1] == 96
    assert classes[-1].context == 1023


def test_a_model_of_windows_has_one_class() -> None:
    assert step_classes((0, 0), 77)[0] == 1
    assert [one.context for one in step_classes((0, 0), 77)[1]] == [77]


def test_short_contexts_take_the_first_period() -> None:
    classes = step_classes((4, 128), 50)[1]
    assert sum(one.share for one in classes) == pytest.approx(1)
    assert all(1 <= one.context <= 128 for one in classes)


def test_ratios_without_common_factors_are_counted_over_a_bound() -> None:
    period, classes = step_classes((7, 11, 1021, 1023), 2**19)
    assert period == 2**18
    assert sum(one.share for one in classes) == pytest.approx(1)


@pytest.mark.parametrize("engine", list_profiles())
@pytest.mark.parametrize("context", [16_384, 16_383, 16_380])
def test_it_is_the_mean_of_all_steps_of_the_period(engine: str, context: int) -> None:
    step = asked(engine, context=context)
    result, timer = typical_step(step), StepTimer(step)
    steps = [
        timer.total_ps(StepShape.uniform(8, 1, n - 1)) for n in range(context - 127, context + 1)
    ]
    assert result.total_ps == pytest.approx(sum(steps) / 128, rel=5e-4)
    assert result.period is not None
    assert result.period.shortest_ps <= result.total_ps <= result.period.longest_ps
    assert result.period.longest_ps == pytest.approx(max(steps), rel=1e-3)
    for kernel in result.kernels:
        assert sum(kernel.causes_ps.values()) == kernel.duration_ps
    assert result.counts is not None
    # By class they may differ: an engine multiplies in another format than is stored.
    total = sum(amount for kernel in result.kernels for amount in kernel.flops.values())
    assert total == pytest.approx(result.counts.total.total_flops, rel=1e-9)


def test_one_step_of_the_period_is_the_exact_one() -> None:
    step = asked()
    exact = cost_step(step)
    assert exact.period is None
    result = typical_step(step)
    assert result.period is not None
    assert result.period.longest_ps == exact.total_ps
    assert result.memory == exact.memory
    assert [k.path for k in result.kernels] == [k.path for k in exact.kernels]


def test_prefill_is_one_step() -> None:
    step = asked(phase="prefill", new_tokens=512)
    assert typical_step(step).total_ps == cost_step(step).total_ps
