"""Trace blocks against cache granules."""

from simulator.prefix.granularity import known_tokens, rounding_note, whole_granules


def test_the_last_block_may_be_partial():
    assert known_tokens(3, 512, 10_000) == 1_536
    assert known_tokens(3, 512, 1_100) == 1_100
    assert whole_granules(1_100, 128) == 1_024


def test_the_note_says_what_both_sizes_lose():
    note = rounding_note(512, 128)
    assert "up to 511 tokens" in note
    assert "divide a trace block" in note
    note = rounding_note(64, 256)
    assert "up to 63 tokens" in note
    assert "loses up to 255 more" in note
    assert "hit at any token" in rounding_note(512, 1)
    assert "every token" in rounding_note(1, 1)
