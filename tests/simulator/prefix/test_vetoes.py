"""Every pool can keep a known prefix from being a hit, and says so: a case each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.prefix.made_traces import prompts
from tests.simulator.prefix.test_replay import SIZES, far_apart, replay

BLOCK = SIZES.page_tokens
LARGE = 10**9


def vetoes(asked, name, capacity, **options):
    totals, _ = replay(far_apart(asked), name, [capacity], **options)
    return totals.vetoed_tokens


def test_pages_that_left():
    """Room for seven pages and four windows: the first prompt's pages are gone, its window not."""
    gone = vetoes([list(range(7)), list(range(100, 107)), list(range(7))], "boundary", 3_200)
    assert gone == {"compressed": 7 * BLOCK - 1}


def test_a_window_that_is_not_kept():
    """The second prompt parts from the first where no prompt ended."""
    assert vetoes([[0, 1, 2, 3], [0, 1, 9]], "boundary", LARGE) == {"window": 2 * BLOCK}


def test_states_that_left_before_their_window():
    """Windows by last use, states by age: the first prompt's window was used, its states are old.

    Five prompts fill the room for ten of each, two a prompt. The first is asked for again before
    the sixth comes, so that its windows outlive another's, and its states do not.
    """
    others = [[100 * n, 100 * n + 1] for n in range(1, 5)]
    asked = [[0, 1], *others, [0, 1], [900, 901], [0, 1]]
    room = round(10 * SIZES.checkpoint_bytes / 0.3)
    pages = {"page_eviction": "lru", "window_eviction": "lru"}
    joined = vetoes(asked, "boundary", room, **pages)
    split = vetoes(asked, "boundary", room, **pages, state_eviction="fifo")
    assert "overlap" not in joined
    assert split.get("overlap", 0) == BLOCK


def test_the_rule_of_an_engine_that_drafts():
    """A granule of each hit."""
    found = vetoes([[0, 1, 2, 3]] * 2, "boundary", LARGE, draft_granules=1)
    assert found == {"drafts": BLOCK}


@pytest.mark.parametrize("write", ["through", "back", "on-eviction", "selective"])
@settings(max_examples=50)
@given(
    asked=prompts(max_requests=15), name=st.sampled_from(["boundary", "periodic:64"]),
    capacities=st.lists(st.integers(1_000, 12_000), min_size=1, max_size=3),
    states=st.sampled_from(["lru", "fifo", "cost"]),
)  # fmt: skip
def test_laws_of_states_in_pools_of_their_own(write, asked, name, capacities, states):
    """Tokens add up, no tier is over its capacity; with room for all nothing is another."""
    trace = far_apart(asked)
    totals, cache = replay(trace, name, capacities, write, state_eviction=states)
    parts = totals.loaded_tokens + totals.recomputed_tokens + totals.computed_tokens
    assert parts == totals.input_tokens
    for tier in totals.tiers:
        assert 0 <= tier.end_bytes <= tier.peak_bytes <= tier.capacity_bytes
    for segment in cache.index:
        assert segment.pins == 0
        assert segment.children or segment.holders
    joined, _ = replay(trace, name, [LARGE], write)
    split, _ = replay(trace, name, [LARGE], write, state_eviction=states)
    assert split.ttft_ns.tolist() == joined.ttft_ns.tolist()
    assert split.vetoed_tokens == joined.vetoed_tokens
