"""Whether pools hold what is priced: nothing is said where they do, the gap where they do not."""

from __future__ import annotations

import pytest

from simulator.capacity.capacity import capacity_of
from simulator.capacity.capacity_question import ask_capacity
from simulator.cost.memory import room_note
from simulator.cost.question import ask

PRO = {"model": "v4-pro", "chip": "h200", "count": 8, "engine": "sglang-0.5"}


def test_nothing_is_said_where_requests_fit() -> None:
    assert room_note(ask(**PRO, batch=8, context=131_072, expert_dtype="fp4")) is None


def test_more_requests_than_the_pools_hold() -> None:
    note = room_note(ask(**PRO, batch=40, context=131_072, expert_dtype="fp4"))
    held = capacity_of(ask_capacity(**PRO, contexts="131072", expert_dtype="fp4")).requests
    assert note is not None
    assert f"hold {held:,.2f} requests of 131,072 tokens, not the 40 of this step" in note


def test_weights_that_do_not_fit() -> None:
    note = room_note(ask(**PRO, batch=1, context=8192))
    assert note is not None
    assert "experts in fp8 does not fit 8 x h200 as tp8 dp1 ep1" in note
    assert "times are as if they did fit" in note


@pytest.mark.parametrize("engine", ["ideal", "vllm-0.33", "trtllm-1.3", "ascend"])
def test_formats_that_an_engine_does_not_store_are_not_judged(engine: str) -> None:
    asked = ask(model="v4-flash", chip="h200", count=8, engine=engine, index_dtype="bf16")
    assert room_note(asked) is None
