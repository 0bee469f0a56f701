"""The study: what is in it, and questions that have no answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.basis.errors import DoesNotFitError, InputError
from simulator.offload.published import HISPARSE, is_published
from simulator.offload.study import study
from tests.simulator.offload.questions import asked


def test_published_gain_lies_within_ours() -> None:
    found = study(asked(), [])
    gains = {case.settings: case.comparison.gain or 0 for case in found.published}
    assert len(gains) == 6
    assert 1.2 < min(gains.values()) < HISPARSE.gain < max(gains.values()) < found.ceiling
    for case in found.published:
        assert case.difference == pytest.approx(gains[case.settings] / 3 - 1)
    # The first is the question itself: defaults on both sides.
    assert found.published[0].comparison == found.asked


@pytest.mark.parametrize(
    "changes",
    [{"chip": "h200", "count": 8}, {"prompt_tokens": 100_000}, {"engine": "ideal"}],
)
def test_other_questions_are_not_the_published_one(changes: dict[str, object]) -> None:
    assert is_published(asked())
    assert not is_published(asked(**changes))


def test_grid_has_the_asked_point_and_falls_with_overlap() -> None:
    question = replace(asked(), buffer_entries=1500, overlap=0.93)
    found = study(question, [8192])
    points = {(p.buffer_entries, p.overlap): p.gain for p in found.grid}
    assert points[1500, 0.93] == pytest.approx(found.asked.gain)
    for size in {size for size, _ in points}:
        gains = [gain for (one, _), gain in sorted(points.items()) if one == size and gain]
        assert gains == sorted(gains)
        assert len(gains) == 13
    assert found.contexts[0].context_tokens == 8192
    assert any("0.95" in text for text in found.assumptions)


def test_lengths_keep_their_share_of_output() -> None:
    found = study(asked(), [22_000])
    room = found.contexts[0].plain_room
    assert found.contexts[0].context_tokens == 22_000
    assert room.tokens(22_000) == room.requests * 22_000


@pytest.mark.parametrize("context", [1, 2_000_000])
def test_lengths_out_of_range(context: int) -> None:
    with pytest.raises(InputError, match=r"one of the contexts is .* expected 2 to 1,048,576"):
        study(asked(), [context])


def test_nothing_fits() -> None:
    question = asked(chip="h200")
    with pytest.raises(DoesNotFitError, match="not one request of 220,000 tokens runs on 2 x h200"):
        study(question, [])


def test_host_memory_too_small_for_one_request_leaves_the_device() -> None:
    found = study(replace(asked(), host_bytes=10**6), [])
    assert found.asked.offload_room.requests == 0
    assert found.asked.plain_room.requests > 0
    assert found.asked.gain is None
