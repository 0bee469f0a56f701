"""Smallest exact replays found by running, for V4's layer lists and others."""

from pathlib import Path

import pytest

from simulator.prefix.window_policy import parse_window_policy
from simulator.prove.proof import Prover, plan_lengths
from simulator.prove.replay_count import count_first_token, count_whole_window
from simulator.prove.small_model import LISTS, narrow_model


def _lengths(tmp_path, window, ratios):
    config = narrow_model("searched", window, ratios)
    prover = Prover(config, Path(tmp_path), plan_lengths(config))
    stored = prover._stored(parse_window_policy("zero"))
    prover.prefill([stored])
    return prover.replay_lengths(stored)


@pytest.mark.parametrize(
    ("window", "ratios"),
    [
        (8, LISTS["flash-like"]),
        (16, LISTS["pro-like"]),
        (8, (0, 0, 0)),
        (11, (4, 128, 4)),
        (3, (0, 4)),
        (2, (128, 4, 128)),
    ],
)
def test_smallest_exact_replay(tmp_path, window, ratios):
    lengths = _lengths(tmp_path, window, ratios)
    found = lengths.search()
    counted = (count_first_token(window, ratios), count_whole_window(window, ratios))
    if window >= 5:
        assert counted[0].tokens == (window - 1) * len(ratios)
        assert counted[1].tokens == window + (len(ratios) - 1) * (window - 1)
        assert found.whole_window.tokens == counted[1].tokens
        assert found.first_token.not_finite_below > 0
        assert found.whole_window.not_finite_below > 0
    # In shorter windows overlap rows decide: an entry without them is passed over, not NaN.
    assert found.first_token.tokens == counted[0].tokens


def test_error_of_bounded_replay_falls_with_its_length(tmp_path):
    lengths = _lengths(tmp_path, 8, (0, 128, 4, 128, 4))
    errors = list(lengths.bounded_errors())
    assert [error.tokens for error in errors] == [8, 16, 24, 32, 34, 35, 36]
    assert errors[0].all_tokens > 1e-2 > errors[3].all_tokens
    assert errors[-1].all_tokens < 1e-12
    assert errors[-1].same_window
    assert not errors[0].same_window
