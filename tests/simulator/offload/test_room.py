"""Room with and without the offload."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.capacity.capacity import capacity_of
from simulator.offload.buffered_geometry import ceiling
from simulator.offload.room import room, whole_geometry
from tests.simulator.offload.questions import asked


@pytest.mark.parametrize("engine", ["sglang-0.5", "sglang-0.5-cap"])
def test_without_the_offload_it_is_the_capacity(engine: str) -> None:
    question = asked(engine=engine)
    whole = capacity_of(question.capacity)
    one = room(question, False)
    assert one.requests == 2 * int(whole.requests / 2)
    assert one.fit.budget_bytes == whole.budget_bytes
    assert one.request_host_bytes == 0


def test_exact_sizing_by_hand() -> None:
    one = room(asked(engine="ideal"), True)
    # Pages of 128 tokens: 1,719 of index keys (21 layers) and C128 entries (20); buffers of 32
    # pages of 18,688 B; the window 2 pages x 43 layers, with as many of the compressor's rows.
    index, c128 = 1719 * 21 * 32 * 132, 1719 * 20 * 584
    plain = room(asked(engine="ideal"), False)
    c4 = 1719 * 21 * 18_688
    assert plain.request_bytes - one.request_bytes == c4 - 21 * 32 * 18_688
    assert one.request_bytes > index + c128 + 21 * 32 * 18_688
    assert one.request_host_bytes == c4
    assert one.requests == 2 * (one.fit.budget_bytes // one.request_bytes)


@pytest.mark.parametrize("model", ["v4-flash", "v4-pro"])
def test_the_buffer_keeps_it_below_the_ceiling_which_long_contexts_near(model: str) -> None:
    count = 2 if model == "v4-flash" else 8
    question = asked(model=model, engine="ideal", count=count, dp=count)
    limit = ceiling(whole_geometry(question))
    ratios = []
    for tokens in (20_000, 200_000, 1_000_000):
        one = question.at(tokens, 1)
        fits = [room(one, offload).fit.requests for offload in (False, True)]
        ratios.append(fits[1] / fits[0])
    assert ratios == sorted(ratios)
    assert ratios[0] < 0.7 * limit
    assert 0.9 * limit < ratios[-1] < limit


def test_larger_buffers_hold_fewer_requests() -> None:
    fits = [
        room(asked(buffer_entries=512 * times), True).requests for times in (1, 2, 4, 8, 16, 64)
    ]
    assert fits == sorted(fits, reverse=True)
    assert fits[0] > fits[-1]


def test_a_buffer_of_all_entries_holds_no_more_than_the_device_alone() -> None:
    question = asked(engine="ideal", buffer_entries=55_040)
    assert room(question, True).requests <= room(question, False).requests


def test_host_memory_binds() -> None:
    question = asked()
    free = room(question, True)
    one = room(replace(question, host_bytes=20 * free.request_host_bytes), True)
    assert (one.requests, one.binds) == (20, "host memory")
    tensor = asked(dp=1)
    assert room(replace(tensor, host_bytes=20 * free.request_host_bytes), True).requests == 10


def test_pool_of_a_host_ratio_binds_by_buffers_or_by_tokens() -> None:
    few = room(asked(host_ratio=100, offload_window_ratio=0.003), True)
    # Buffers of 1,024 entries out of 550 a request: about every second request has one.
    assert few.binds == "buffers"
    assert few.requests * 1024 <= 2 * few.fit.tokens // 400
    assert room(asked(host_ratio=10), True).binds == "full tokens"


def test_fewer_window_slots_leave_more_tokens() -> None:
    one, other = room(asked(), True), room(asked(offload_window_ratio=0.0025), True)
    assert other.requests > one.requests
    assert room(asked(offload_window_ratio=0.0025), False).requests == room(asked(), False).requests
