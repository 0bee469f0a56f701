"""Gain, and where it turns into a loss."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from simulator.offload.comparison import compare, gain_of
from simulator.offload.decode import DecodeTimer
from simulator.offload.misses import StatedMisses
from tests.simulator.offload.questions import asked

QUESTION = asked()
TIMER = DecodeTimer(QUESTION, StatedMisses(overlap=0.95))


@dataclass(frozen=True)
class Given:
    """So many misses whatever is asked."""

    misses: float

    def a_query(self, entries: int, top_k: int, buffer_entries: int) -> float:
        return self.misses


def test_long_contexts_gain_by_the_larger_batch() -> None:
    one = compare(TIMER, QUESTION)
    assert one.offloaded is not None
    assert one.plain is not None
    assert one.gain is not None
    assert one.gain > 1.2
    batches = one.offload_room.requests / one.plain_room.requests
    assert one.gain == pytest.approx(batches * one.plain.step_s / one.offloaded.step_s)
    assert one.gain < batches


def test_equal_throughput_at_the_misses_that_are_named() -> None:
    one = compare(TIMER, QUESTION)
    assert one.even_misses is not None
    assert one.plain is not None
    even = gain_of(TIMER, QUESTION, one.offload_room.requests, one.plain, Given(one.even_misses))
    assert even == pytest.approx(1, rel=1e-9)
    assert one.even_overlap is not None
    stated = StatedMisses(overlap=one.even_overlap).a_query(52_500, 512, 1024)
    assert stated == pytest.approx(one.even_misses)


def test_fewest_requests_that_gain() -> None:
    one = compare(TIMER, QUESTION)
    assert one.even_requests is not None
    assert one.plain is not None
    at, below = (
        TIMER.offloaded(requests, QUESTION.mean_context).tokens_per_s
        for requests in (one.even_requests, one.even_requests - 2)
    )
    assert below < one.plain.tokens_per_s <= at
    assert one.plain_room.requests < one.even_requests <= one.offload_room.requests


def test_where_requests_and_not_memory_bind_it_loses() -> None:
    short = compare(TIMER, QUESTION.at(30_000, 3_000))
    assert short.plain_room.requests == short.offload_room.requests == 512
    assert short.gain is not None
    assert short.gain < 1
    assert short.gain == short.same_batch_gain
    assert short.even_misses is None
    assert short.even_requests is None


def test_too_little_overlap_loses() -> None:
    one = compare(DecodeTimer(QUESTION, StatedMisses(overlap=0.0)), QUESTION)
    assert one.gain is not None
    assert one.gain < 1
    assert one.even_requests is None


def test_no_room_has_no_gain() -> None:
    # A window slot for every other token leaves no room for a request; one in a hundred does.
    question = asked(
        count=1,
        dp=1,
        prompt_tokens=1_000_000,
        output_tokens=20_000,
        window_ratio=0.5,
        offload_window_ratio=0.01,
    )
    one = compare(DecodeTimer(question, StatedMisses(overlap=0.95)), question)
    assert (one.plain_room.requests, one.plain, one.same_batch) == (0, None, None)
    assert one.offload_room.requests > 0
    assert one.offloaded is not None
    assert one.gain is one.same_batch_gain is one.even_requests is None
