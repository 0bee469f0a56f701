"""The sweep as a whole: order, checks of pages, and what the engine's own layout costs."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from simulator.basis.errors import InputError
from simulator.cost.engine_price import kernel_prices
from simulator.cost.question import ask
from simulator.layout import layout_step
from simulator.layout.layout_step import LayoutStep
from simulator.layout.padding import DEFAULT_PADDINGS, ENGINE
from simulator.layout.sweep import (
    DEFAULT_PAGES,
    OWN,
    LayoutPoint,
    SweepQuestion,
    check_page,
    cost_of,
    sweep,
    sweep_points,
)
from tests.simulator.layout.layout_cases import groupings, question

SHARED = ("separate", "buckets", "one-block")


def test_points_are_every_combination_once() -> None:
    points = sweep_points("all", (128, 256, 128), DEFAULT_PADDINGS, SHARED)
    assert points[0] == OWN
    assert len(points) == 1 + 2 * len(DEFAULT_PADDINGS) * 3 == len(set(points))


def test_own_layout_of_flash_in_sglang() -> None:
    cost = cost_of(question(), OWN, None)
    assert (cost.page_tokens, cost.granule_tokens, cost.lost_tokens_uniform) == (256, 256, 127.5)
    assert cost.bytes_per_token == 3_899.25
    assert cost.padding_share == 49 / 3_850.25
    assert cost.step_ps is None
    assert 0 < cost.wasted_share < 1


def test_own_layout_is_the_sweep_at_its_page() -> None:
    for engine in ("sglang-0.5", "vllm-0.33", "trtllm-1.3"):
        asked = question(engine=engine)
        own = cost_of(asked, OWN, None)
        same = cost_of(asked, LayoutPoint("all", own.page_tokens, ENGINE, "engine"), None)
        assert own.pools == same.pools
        assert own.requests == same.requests


def test_ascend_rounds_hits_to_2048() -> None:
    cost = cost_of(question("ascend-910c", engine="ascend"), OWN, None)
    assert (cost.page_tokens, cost.granule_tokens) == (128, 2048)
    assert cost.lost_tokens_uniform == 1023.5


def step_of(asked: SweepQuestion) -> LayoutStep:
    contexts = asked.mix.typical()
    step = ask(
        model="v4-flash", chip="h200", count=8, dp=8, ep=8, batch=len(contexts),
        context=asked.mix.longest_tokens, engine="sglang-0.5",
    )  # fmt: skip
    return LayoutStep(step, contexts, asked.neighbours)


def test_two_hundred_points_price_a_kernel_once_for_equal_rows() -> None:
    points = sweep_points("all", DEFAULT_PAGES[1:], DEFAULT_PADDINGS, SHARED)[:201]
    asked = question()
    step = step_of(asked)
    with patch.object(layout_step, "kernel_prices", wraps=kernel_prices) as priced:
        costs = list(sweep(asked, points, step))
    kernels = [demand for call in priced.call_args_list for demand in set(call.args[0])]
    assert len(kernels) == len(set(kernels))
    assert [cost.point for cost in costs] == points
    assert all(0 < cost.dram_efficiency <= 1 for cost in costs)
    assert all(cost.step_ps for cost in costs)


@pytest.mark.parametrize(
    ("pool", "page", "words"),
    [
        ("all", 64, "cannot hold one c128 entry"),
        ("c128", 96, r"stands for 128 tokens \(32 too few\); try 128"),
        ("c4", 32, "outside the sweep, which goes from 64 to 4,096"),
        ("all", 8192, "outside the sweep"),
    ],
)
def test_pages_that_cannot_be(pool: str, page: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_page(groupings().cut("engine", ENGINE, "all", 0), pool, page)


@pytest.mark.parametrize(("pool", "page"), [("c4", 64), ("window", 64), ("all", 128), ("all", 192)])
def test_pages_that_can_be(pool: str, page: int) -> None:
    check_page(groupings().cut("engine", ENGINE, "all", 0), pool, page)
