"""Counted replays against the closed forms, at the sizes of V4 and at any other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.prefix.window_geometry import WindowGeometry
from simulator.prove.replay_count import count_first_token, count_whole_window
from workloads.deepseek_v4.config import find_model


@pytest.mark.parametrize(
    ("model", "first_token", "tokens", "kv_rows", "token_layers"),
    [
        ("v4-flash", 5_461, 5_462, 120_185, 114_723),
        ("v4-pro", 7_747, 7_748, 240_218, 232_470),
    ],
)
def test_at_full_size(model, first_token, tokens, kv_rows, token_layers):
    config = find_model(model)
    ratios = config.layer_ratios
    first = count_first_token(config.sliding_window, ratios)
    whole = count_whole_window(config.sliding_window, ratios)
    assert first.tokens == first_token
    assert (whole.tokens, whole.kv_rows, whole.token_layers) == (tokens, kv_rows, token_layers)


def test_by_hand():
    """Window 5, three layers: 5 rows on top, 9 below, 13 at the bottom."""
    count = count_whole_window(5, [0, 0, 0])
    assert [layer.kv_rows for layer in count.layers] == [13, 9, 5]
    assert [layer.whole for layer in count.layers] == [9, 5, 0]
    assert [layer.kv_rows for layer in count_first_token(5, [0, 0, 0]).layers] == [12, 8, 4]


RATIOS = st.lists(st.sampled_from([0, 4, 128]), min_size=1, max_size=70)


@given(st.integers(5, 512), RATIOS)
def test_closed_forms(window, ratios):
    layers = len(ratios)
    geometry = WindowGeometry(window, layers)
    first, whole = count_first_token(window, ratios), count_whole_window(window, ratios)
    trimmed = geometry.trimmed(1 << 40)
    assert first.tokens == geometry.first_token_tokens == (window - 1) * layers
    assert whole.tokens == geometry.tight_tokens == window + (layers - 1) * (window - 1)
    assert whole.kv_rows == trimmed.kv_rows
    assert whole.token_layers == trimmed.token_layers
    assert first.kv_rows == (window - 1) * layers * (layers + 1) // 2
    assert first.token_layers == (window - 1) * layers * (layers - 1) // 2


@given(st.integers(2, 64), RATIOS, st.integers(0, 400))
def test_the_start_of_the_prompt_cuts_the_triangle(window, ratios, reach):
    count = count_whole_window(window, ratios, reach)
    unbounded = count_whole_window(window, ratios)
    assert count.tokens == min(reach, unbounded.tokens)
    assert count.kv_rows == sum(min(reach, need.kv_rows) for need in unbounded.layers)


def test_a_short_window_still_needs_the_overlap_rows():
    """Window 2 with ratio 4 on top: 4 tokens for the compressor, more than the window wants."""
    count = count_first_token(2, [0, 4])
    assert count.layers[1].kv_rows == 1
    assert count.layers[1].inputs == 4
    assert count.tokens == 4 + 1
