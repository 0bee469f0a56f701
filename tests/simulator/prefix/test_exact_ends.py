"""An equal prompt that comes again: what is hit, to the token, for any length and any sizes."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simulator.prefix.reference import reference_counts
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policy
from tests.simulator.prefix.made_traces import trace_of
from tests.simulator.prefix.test_replay import SIZES, replay

GEOMETRY = WindowGeometry(16, 5)
ENDS = ["full", "boundary", "vllm:0", "sglang", "boundary+junction"]


def twice(tokens, block, more=0):
    """A prompt of some tokens, and again with `more` behind; a partial last block has an id."""
    count = -(-tokens // block)
    again = list(range(tokens // block if more else count))
    again += range(1_000_000, 1_000_000 + -(-(tokens + more) // block) - len(again))
    return trace_of(
        [list(range(count)), again],
        block_tokens=block,
        lengths=[tokens, tokens + more],
        arrival_s=[0.0, 10_000.0],
    )


def sized(granule):
    return SIZES.__class__(
        **{f: getattr(SIZES, f) for f in SIZES.__slots__ if f != "page_tokens"},
        page_tokens=granule,
    )


def served(trace, name, granule, **options):
    """Tokens hit by the replay, with room for all."""
    totals, _ = replay(trace, name, [10**14], sizes=sized(granule), **options)
    return totals.loaded_tokens


def counted(trace, name, granule):
    """Tokens hit by the reference mode."""
    policy = parse_window_policy(name)
    return reference_counts(trace, [policy], GEOMETRY, granule_tokens=granule).policies[0]


def whole_granule(name, granule):
    return math.lcm(granule, parse_window_policy(name).granule_tokens or 1)


@settings(max_examples=250)
@given(
    st.integers(1, 5000), st.sampled_from([1, 4, 16, 48, 128, 256, 300, 512, 2048]),
    st.sampled_from([1, 16, 48, 64, 256, 300, 512, 1000, 4096]), st.sampled_from(ENDS),
)  # fmt: skip
def test_an_equal_prompt_hits_all_whole_granules_before_its_last_token(
    tokens, granule, block, name
):
    """floor((L - 1) / g) g, in the replay and in the reference mode alike."""
    trace = twice(tokens, block)
    right = (tokens - 1) // whole_granule(name, granule) * whole_granule(name, granule)
    assert served(trace, name, granule) == right
    row = counted(trace, name, granule)
    assert (row.hit_tokens, row.served_hit_tokens) == (right, right)


@settings(max_examples=100)
@given(
    st.integers(1, 5000), st.sampled_from([16, 48, 256]), st.sampled_from([1, 64, 300, 512]),
    st.sampled_from(ENDS), st.integers(1, 3),
)  # fmt: skip
def test_an_engine_that_drafts_hits_granules_less(tokens, granule, block, name, drafts):
    """The rule of a profile takes them, and windows are where that leaves the hit."""
    trace, g = twice(tokens, block), whole_granule(name, granule)
    right = max(0, (tokens - 1) // g - drafts) * g
    totals, _ = replay(trace, name, [10**14], sizes=sized(granule), draft_granules=drafts)
    assert totals.loaded_tokens == right
    assert totals.vetoed_tokens.get("drafts", 0) == min(drafts, (tokens - 1) // g) * g


@settings(max_examples=120)
@given(
    st.integers(1, 40), st.integers(-1, 1), st.sampled_from([16, 128, 256]),
    st.sampled_from([1, 16, 64, 256, 512]), st.sampled_from(ENDS),
)  # fmt: skip
def test_a_granule_more_never_lowers_a_hit(granules, off, granule, block, name):
    """At, before and behind the end of a granule; and the first prompt that goes on hits its whole
    blocks."""
    g = whole_granule(name, granule)
    tokens = max(1, granules * g + off)
    assert served(twice(tokens + g, block), name, granule) >= served(
        twice(tokens, block), name, granule
    )
    assume(tokens // block)
    longer = twice(tokens, block, more=g + 1)
    assert served(longer, name, granule) == tokens // block * block // g * g


@settings(max_examples=200)
@given(
    st.integers(1, 5000), st.sampled_from([16, 64, 256]), st.sampled_from([1, 16, 256, 512, 1000]),
    st.integers(1, 12),
)  # fmt: skip
def test_closed_form_of_periodic_windows(tokens, granule, block, periods):
    """Back to the last period, or n_win x L tokens where that is closer, from whole granules."""
    period = periods * granule
    reach = (tokens - 1) // granule * granule
    right = reach - min(reach % period, GEOMETRY.replay_tokens)
    name = f"periodic:{period}"
    assert served(twice(tokens, block), name, granule) == right
    assert counted(twice(tokens, block), name, granule).hit_tokens == right


@settings(max_examples=200)
@given(st.integers(1, 5000), st.sampled_from([1, 16, 64, 256]), st.sampled_from([1, 16, 512, 1000]))
def test_closed_form_of_zero(tokens, granule, block):
    """All whole granules but for a replay of n_win x L tokens."""
    right = max(0, (tokens - 1) // granule * granule - GEOMETRY.replay_tokens)
    assert served(twice(tokens, block), "zero", granule) == right
    assert counted(twice(tokens, block), "zero", granule).hit_tokens == right


@pytest.mark.parametrize("seed", range(4))
def test_reference_and_replay_agree_on_traces(seed):
    """Prompts far apart, without replies of their own: one cache, one count."""
    rng = np.random.default_rng(seed)
    asked, lengths = [], []
    for number in range(40):
        base = list(asked[rng.integers(len(asked))]) if asked and rng.random() < 0.7 else []
        base = base[: rng.integers(0, len(base) + 1)]
        base += range(1000 * number, 1000 * number + int(rng.integers(1, 12)))
        asked.append(base)
        lengths.append((len(base) - 1) * 64 + int(rng.integers(1, 65)))
    trace = trace_of(asked, 64, lengths, arrival_s=np.arange(40) * 1e4)
    for name in [*ENDS, "periodic:512", "zero", "junction", "bounded:16", "zero:trimmed"]:
        assert counted(trace, name, 128).hit_tokens == served(trace, name, 128)
