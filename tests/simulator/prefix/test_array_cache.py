"""The compiled cache against the one of objects, on random traces: every figure of a replay."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.prefix.array_cache import ArrayCache, cache_of
from simulator.prefix.replay import Replay, ReplayRules
from simulator.prefix.restore_time import RestoreTimer
from simulator.prefix.tiered_cache import CacheRules, TieredCache
from simulator.prefix.window_policy import parse_window_policies, parse_window_policy
from simulator.prefix.write_policy import find_write_policy
from tests.simulator.prefix.made_traces import prompts
from tests.simulator.prefix.test_replay import (
    GEOMETRY,
    LARGE,
    SIZES,
    far_apart,
    prefill_ns,
    tiers_of,
)

POLICIES = [
    "full", "boundary", "periodic:64", "zero", "boundary+junction", "bounded:16", "zero:trimmed",
    "sglang", "periodic:96+boundary",
]  # fmt: skip


def figures(cache_class, trace, name, tiers, choose, drafts=0):
    """All totals as plain values, and the cache."""
    policy = parse_window_policy(name)
    rules = CacheRules(
        policy=policy, geometry=GEOMETRY, sizes=SIZES, write=find_write_policy("through"),
        draft_granules=drafts,
    )  # fmt: skip
    cache = cache_class(tiers, rules, trace.block_tokens)
    timer = RestoreTimer(
        tiers=tiers, sizes=SIZES, layers=5, prefill_ns=prefill_ns, rows_with_pages=policy.everywhere
    )
    how = ReplayRules(
        choose=choose, share_link=True, share_writes=True, token_ns=lambda context: 1_000
    )
    found = asdict(Replay(trace, cache, timer, how).run())
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.items()}
    return plain, cache


@settings(max_examples=400)
@given(
    prompts(max_requests=40, max_blocks=24), st.sampled_from(POLICIES),
    st.lists(st.integers(300, 15_000), min_size=1, max_size=2),
    st.sampled_from([None, 0.0, 0.3, 0.6]), st.booleans(), st.sampled_from([0, 0, 1]),
    st.sampled_from([16, 32, 48]), st.booleans(),
)  # fmt: skip
def test_every_figure_is_that_of_objects(asked, name, sizes, share, choose, drafts, block, roomy):
    sizes = [*sizes, LARGE] if roomy else sizes
    trace = replace(far_apart(asked), block_tokens=block)
    trace = replace(trace, input_tokens=np.array([max(1, len(ids) * block - 5) for ids in asked]))
    tiers = [t.model_copy(update={"window_share": share}) for t in tiers_of(*sizes)]
    slow, _ = figures(TieredCache, trace, name, tiers, choose, drafts)
    fast, _ = figures(ArrayCache, trace, name, tiers, choose, drafts)
    if roomy:
        assert fast == slow
    # What is still known of a prompt whose pages are gone everywhere while a window stays.
    for found in (fast, slow):
        found["vetoed_tokens"].pop("compressed", None)
    assert fast == slow


def test_the_fast_one_is_taken_where_it_follows():
    def made(**changes):
        options = {"policy": parse_window_policy("boundary"), "geometry": GEOMETRY, "sizes": SIZES}
        rules = CacheRules(**{**options, "write": find_write_policy("through"), **changes})
        return type(cache_of(tiers_of(10**6, 10**6, 10**6), rules, 32))

    assert made() is ArrayCache
    assert made(write=find_write_policy("back")) is TieredCache
    assert made(page_eviction="fifo") is TieredCache
    assert made(window_eviction="ttl:5") is TieredCache
    assert made(state_eviction="lru") is TieredCache
    [mixed] = parse_window_policies("hbm=zero/dram=full")
    assert made(policy=mixed) is TieredCache


def test_arrays_grow_to_what_they_hold():
    """More segments and windows than there is room for at first; every prompt comes again."""
    asked = [[*range(60 * n, 60 * n + 50), *range(10**6 + 40 * n, 10**6 + 40 * n + 30)]
             for n in range(2_600)]  # fmt: skip
    trace = far_apart([*asked, *asked[::-1]])
    slow, _ = figures(TieredCache, trace, "periodic:128", tiers_of(10**9), False)
    fast, cache = figures(ArrayCache, trace, "periodic:128", tiers_of(10**9), False)
    assert fast == slow
    assert fast["loaded_tokens"] > 2_600 * 2_000
    with pytest.raises(NotImplementedError, match="keeps the sizes"):
        cache.resize(0, 1)
