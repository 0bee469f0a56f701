"""The decode step under another physical layout."""

from __future__ import annotations

import pytest

from simulator.cost.question import ask
from simulator.cost.step_timer import StepTimer
from simulator.engine.profile import list_profiles
from simulator.layout.layout_step import LayoutStep
from simulator.layout.padding import ENGINE, parse_padding
from tests.simulator.layout.layout_cases import groupings
from workloads.step_shape import StepShape

CONTEXTS = (131_072,) * 8
SHAPE = StepShape(tuple((1, n - 1) for n in CONTEXTS))


def step_of(engine: str, page_tokens: int | None = None) -> tuple[LayoutStep, StepTimer]:
    asked = ask(
        model="v4-flash", chip="ascend-910c" if "ascend" in engine else "h200", count=8, dp=8, ep=8,
        batch=8, context=131_072, engine=engine, page_tokens=page_tokens,
        kv_dtype=groupings(engine=engine).kv,
    )  # fmt: skip
    timer = StepTimer(asked)
    return LayoutStep(asked, CONTEXTS, 0.0), timer


@pytest.mark.parametrize("engine", list_profiles())
def test_the_engines_own_layout_is_the_step(engine: str) -> None:
    step, timer = step_of(engine)
    own = groupings(engine=engine).cut("engine", ENGINE, "all", 0)
    assert step.total_ps(own) == timer.total_ps(SHAPE)


@pytest.mark.parametrize("engine", ["sglang-0.5", "vllm-0.33", "ideal"])
@pytest.mark.parametrize("page", [128, 512, 2048])
def test_another_page_is_the_step_with_that_page(engine: str, page: int) -> None:
    step, _ = step_of(engine)
    _, paged = step_of(engine, page)
    cut = groupings(engine=engine).cut("engine", ENGINE, "all", page)
    assert step.total_ps(cut) == paged.total_ps(SHAPE)


@pytest.mark.parametrize("engine", ["ideal", "sglang-0.5", "vllm-0.33"])
def test_padded_rows_take_the_time_of_their_bytes(engine: str) -> None:
    step, _ = step_of(engine)
    plain, padded = (
        step.total_ps(groupings(engine=engine).cut("separate", parse_padding(padding), "all", 256))
        for padding in ("none", "row:576")
    )
    # 132 B keys in strides of 576: 21 layers x 32,768 keys x 444 B more at 4.8 TB/s are 64 us; rows
    # of 584 in strides of 1,152: 20 layers of 1,024 entries and 43 windows of 128 add 3 us. Kernels
    # hide a part of that behind the multiplication of the keys.
    assert 20e6 < padded - plain < 110e6
