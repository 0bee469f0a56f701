"""Pages and windows that share the bytes of a tier: against a slow count, block by block."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.prefix.window_policy import parse_window_policy
from simulator.prefix.write_policy import WRITE_POLICIES
from tests.oracles.shared_room import SlowTier
from tests.simulator.prefix.made_traces import prompts
from tests.simulator.prefix.test_replay import POLICIES, SIZES, far_apart, replay, tiers_of

BLOCK = SIZES.page_tokens


def shared(capacities):
    return [tier.model_copy(update={"window_share": None}) for tier in tiers_of(*capacities)]


@settings(max_examples=150)
@given(prompts(max_requests=15), st.integers(300, 9_000), st.integers(1, 3))
def test_one_room_is_lru_over_both(asked, capacity, periods):
    """Periodic windows: hits of every prompt, by a cache that is only dictionaries."""
    policy = parse_window_policy(f"periodic:{periods * BLOCK}")
    totals, _ = replay(far_apart(asked), policy.name, [capacity], tiers=shared([capacity]))
    slow = SlowTier(capacity, SIZES.page_bytes, SIZES.checkpoint_bytes)
    replayed = 16 * 5
    right = 0
    for ids in asked:
        tokens = len(ids) * BLOCK
        reach = min(slow.run(ids), (tokens - 1) // BLOCK) * BLOCK
        at = slow.last_window(ids, reach, BLOCK)
        clipped = reach - at > replayed
        hit = reach - min(reach - at, replayed)
        loaded = reach // BLOCK if clipped else -(-hit // BLOCK)
        slow.touch_pages(ids, loaded)
        if at and not clipped:
            slow.touch_window(ids, at, BLOCK)
            # A window that was loaded is in the fastest tier: it is there already.
        right += hit
        slow.store_pages(ids)
        first = hit if not clipped else reach - 1
        step = periods * BLOCK
        for token in range(first // step * step + step, tokens + 1, step):
            slow.store_window(ids, token, BLOCK)
    assert totals.loaded_tokens == right


@settings(max_examples=80)
@given(
    prompts(max_requests=15), st.sampled_from(POLICIES), st.sampled_from(sorted(WRITE_POLICIES)),
    st.lists(st.integers(1_000, 12_000), min_size=1, max_size=3), st.booleans(),
)  # fmt: skip
def test_laws_of_shared_room(asked, name, write, capacities, choose):
    """Tokens add up, no tier is over its capacity, the index holds no garbage."""
    trace = far_apart(asked)
    totals, cache = replay(trace, name, capacities, write, choose, tiers=shared(capacities))
    parts = totals.loaded_tokens + totals.recomputed_tokens + totals.computed_tokens
    assert parts == totals.input_tokens
    for tier in totals.tiers:
        assert 0 <= tier.end_bytes <= tier.peak_bytes <= tier.capacity_bytes
    for segment in cache.index:
        assert segment.pins == 0
        assert segment.children or segment.holders
    assert (np.asarray(totals.ttft_ns) > 0).all()


@given(prompts(max_requests=10), st.sampled_from(["boundary", "periodic:64", "zero", "full"]))
def test_with_room_for_all_no_share_matters(asked, name):
    """Shared or divided."""
    trace = far_apart(asked)
    divided, _ = replay(trace, name, [10**9])
    one, _ = replay(trace, name, [10**9], tiers=shared([10**9]))
    assert one.ttft_ns.tolist() == divided.ttft_ns.tolist()
