"""A decode step with the offload is one without, and the layers' copies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.offload.decode import DecodePoint, DecodeTimer
from simulator.offload.misses import StatedMisses
from tests.simulator.offload.questions import asked

TIMER = DecodeTimer(asked(), StatedMisses(overlap=0.95))


def test_what_a_step_takes_by_hand() -> None:
    plain, point = TIMER.plain(100, 210_000), TIMER.offloaded(100, 210_000)
    assert (plain.copy_s, plain.test_s, plain.miss_bytes) == (0, 0, 0)
    assert plain.step_s == plain.compute_s == point.compute_s
    # 50 requests a chip, 21 layers, 52,500 entries.
    misses = 25.6 * (1 - 512 / (52_500 - 512))
    assert point.misses == pytest.approx(misses)
    assert point.miss_bytes == pytest.approx(50 * 21 * misses * 584)
    useful = TIMER.gather.useful_bytes_per_s
    assert point.copy_s == pytest.approx(21 * 1e-6 + point.miss_bytes / useful)
    chip = TIMER.question.step.chip
    lists = 2 * 50 * 1024 * 16 / chip.hbm_bandwidth_bytes_per_s
    assert point.test_s == pytest.approx(21 * (2 * 1.37e-6 + lists))
    assert point.step_s == pytest.approx(plain.step_s + point.copy_s + point.test_s)
    assert point.tokens_per_s == pytest.approx(100 / point.step_s)
    # One entry in four tokens goes back.
    assert point.backup_bytes == pytest.approx(50 * 21 * 584 / 4)
    assert point.backup_share == pytest.approx(point.backup_bytes / 63e9 / point.step_s)
    assert point.link_share == pytest.approx(point.miss_bytes / 63e9 / point.step_s)


def test_the_busiest_chip_counts() -> None:
    odd, even = TIMER.offloaded(101, 210_000), TIMER.offloaded(102, 210_000)
    assert odd.miss_bytes == even.miss_bytes


def test_a_backup_that_the_link_cannot_carry_stretches_the_step() -> None:
    point = DecodePoint(requests=10, compute_s=1.0, copy_s=0.5, test_s=0.1, backup_s=4.0)
    assert point.step_s == 4.0
    assert point.backup_share == 1.0
    assert point.tokens_per_s == 2.5


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 200))
@settings(max_examples=25)
def test_less_overlap_is_never_faster_and_the_offload_never_than_without(
    one: float, other: float, requests: int
) -> None:
    low, high = sorted((one, other))
    slow, fast = (
        TIMER.offloaded(requests, 100_000, misses_of=StatedMisses(overlap=share))
        for share in (low, high)
    )
    assert slow.step_s >= fast.step_s > TIMER.plain(requests, 100_000).step_s


def test_a_short_context_has_no_misses() -> None:
    point = TIMER.offloaded(8, 4000)
    assert point.misses == point.copy_s == point.miss_bytes == 0
    assert point.test_s > 0


def test_every_rank_of_a_tensor_group_reads_all_its_misses() -> None:
    tensor = DecodeTimer(asked(dp=1), StatedMisses(overlap=0.95))
    both = tensor.offloaded(100, 210_000), TIMER.offloaded(100, 210_000)
    assert both[0].miss_bytes == pytest.approx(2 * both[1].miss_bytes)


def test_a_stated_gather_share_is_used() -> None:
    question = replace(asked(), gather_share=0.1)
    slow = DecodeTimer(question, StatedMisses(overlap=0.95)).offloaded(100, 210_000)
    assert slow.copy_s == pytest.approx(21e-6 + slow.miss_bytes / 6.3e9)
