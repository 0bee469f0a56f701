"""Bounded pools: LRU against a per-block twin, Belady's bound, and laws of any policy."""

from collections import OrderedDict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.prefix.belady import belady_hits, know_future
from simulator.prefix.eviction import EVICTION_POLICIES, parse_eviction
from simulator.prefix.lru_distance import reuse_groups
from simulator.prefix.prefix_index import PrefixIndex
from simulator.prefix.reference import pool_hits
from simulator.prefix.segment_pool import SegmentPool
from tests.simulator.prefix.made_traces import prompts, trace_of
from workloads.traffic.trace import as_runs

NAMES = ["lru", "fifo", "cost", "ttl:3"]


def lru_twin(asked, capacity):
    """Per block; of a request the blocks are touched from the last to the first."""
    recent, hits = OrderedDict(), []
    for ids in asked:
        run = 0
        while run < len(ids) and tuple(ids[: run + 1]) in recent:
            run += 1
        hits.append(run)
        for n in range(len(ids), 0, -1):
            recent[tuple(ids[:n])] = True
            recent.move_to_end(tuple(ids[:n]))
            if len(recent) > capacity:
                recent.popitem(last=False)
    return hits


def hits_of(asked, name, capacity):
    hits, peak = pool_hits(trace_of(asked), parse_eviction(name), capacity)
    assert peak <= capacity
    return hits.tolist()


def belady(asked, capacity):
    hits, peak = belady_hits(know_future([as_runs(ids).tolist() for ids in asked]), capacity)
    assert peak <= capacity
    return hits.tolist()


@given(prompts(), st.integers(1, 40))
def test_lru_is_that_of_single_blocks(asked, capacity):
    expected = lru_twin(asked, capacity)
    assert hits_of(asked, "lru", capacity) == expected
    groups = reuse_groups([as_runs(ids).tolist() for ids in asked], len(asked))
    assert groups.hit_blocks(capacity).tolist() == expected
    distinct = len({tuple(ids[: n + 1]) for ids in asked for n in range(len(ids))})
    assert groups.peak_blocks(capacity) == min(capacity, distinct)


@settings(max_examples=40)
@given(prompts(max_requests=5, max_blocks=6), st.integers(0, 4))
def test_belady_is_the_best_of_all_choices(asked, capacity):
    """Against every way to choose what stays after each request."""
    asked = [ids[:3] for ids in asked]
    states = {frozenset(): 0}  # blocks held, and the most hits that lead there
    for ids in asked:
        own = [tuple(ids[: n + 1]) for n in range(len(ids))]
        later: dict[frozenset, int] = {}
        for held, hits in states.items():
            run = next((n for n, block in enumerate(own) if block not in held), len(own))
            pool = sorted(held | set(own))
            for kept in map(frozenset, combinations(pool, min(capacity, len(pool)))):
                later[kept] = max(later.get(kept, 0), hits + run)
        states = later
    assert sum(belady(asked, capacity)) == max(states.values())


@given(prompts(), st.integers(1, 40))
def test_belady_bounds_every_policy(asked, capacity):
    bound = sum(belady(asked, capacity))
    for name in NAMES:
        assert sum(hits_of(asked, name, capacity)) <= bound


@given(prompts(), st.integers(1, 40))
def test_less_capacity_never_raises_hits_under_lru_and_belady(asked, capacity):
    for hits in (lambda c: hits_of(asked, "lru", c), lambda c: belady(asked, c)):
        assert sum(hits(capacity)) <= sum(hits(capacity + 1))
    assert all(
        less <= more
        for less, more in zip(
            hits_of(asked, "lru", capacity), hits_of(asked, "lru", capacity + 1), strict=True
        )
    )


@given(prompts(), st.sampled_from(NAMES), st.integers(1, 30))
def test_laws_of_every_policy(asked, name, capacity):
    """Never over capacity, no hit before a store, prefixes stay closed, no garbage in the index."""
    index = PrefixIndex(4)
    pool = SegmentPool(index, capacity, parse_eviction(name))
    stored = set()
    for now, ids in enumerate(asked):
        pool.expire(float(now))
        found = index.match(as_runs(ids).tolist())
        hit = pool.leading_blocks(found.path, found.blocks)
        assert all(tuple(ids[:n]) in stored for n in range(1, hit + 1))
        stored |= {tuple(ids[: n + 1]) for n in range(len(ids))}
        path = index.insert(as_runs(ids).tolist(), found=found)
        pool.store(path, float(now))
        index.prune(path[-1])
        assert pool.used_blocks == sum(s.count for s in index if s in pool) <= capacity
        assert pool.stored_blocks - pool.evicted_blocks == pool.used_blocks
        for segment in index:
            assert segment in pool
            assert segment.parent is index.root or segment.parent in pool
            followers = sum(child in pool for child in segment.children.values())
            assert pool.usage(segment).children == followers
        # The whole request is held as far as the pool is large.
        again = index.match(as_runs(ids).tolist())
        assert pool.leading_blocks(again.path, again.blocks) == min(len(ids), capacity)


@given(prompts(), st.sampled_from(NAMES), st.integers(1, 30))
def test_the_same_trace_gives_the_same_hits(asked, name, capacity):
    assert hits_of(asked, name, capacity) == hits_of(asked, name, capacity)


def test_lru_and_fifo_differ_where_an_old_prefix_is_used_again():
    asked = [[1, 2], [5, 6], [1, 2], [8, 9], [1, 2], [5, 6]]
    assert hits_of(asked, "lru", 4) == [0, 0, 2, 0, 2, 0]
    assert hits_of(asked, "fifo", 4) == [0, 0, 2, 0, 0, 0]


def test_cost_aware_lets_early_tokens_go():
    """Ends at 16 and 4 tokens: attention makes the late one dearer to compute again."""
    asked = [[1, 2, 3, 4], [5], [6, 7], [1, 2, 3, 4]]
    assert hits_of(asked, "cost", 6)[-1] == 4
    assert hits_of(asked, "lru", 6)[-1] == 3
    asked = [[5], [1, 2, 3, 4], [6], [1, 2, 3, 4], [5]]
    assert hits_of(asked, "cost", 5)[3:] == [4, 0]


def test_ttl_forgets_what_was_unused_for_longer():
    asked = [[1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3]]
    trace = trace_of(asked, arrival_s=[0.0, 10.0, 15.0, 30.0])
    hits, _ = pool_hits(trace, parse_eviction("ttl:10"), 100)
    assert hits.tolist() == [0, 2, 3, 0]


def test_a_pool_without_capacity_holds_all():
    index = PrefixIndex()
    pool = SegmentPool(index, None, parse_eviction("lru"))
    for n in range(50):
        assert pool.store(index.insert([(100 * n, 7)])) == 7
    assert pool.used_blocks == 350
    assert pool.evicted_blocks == 0


def test_evicted_ends_are_announced_before_they_go():
    index, gone = PrefixIndex(), []
    pool = SegmentPool(
        index, 4, parse_eviction("lru"), on_evict=lambda s, u: gone.append((s.first, s.count))
    )
    pool.store(index.insert([(0, 4)]))
    pool.store(index.insert([(10, 3)]))
    assert gone == [(1, 3)]
    assert np.all([segment in pool for segment in index])


@pytest.mark.parametrize(
    ("name", "says"),
    [("lur", "did you mean 'lru'"), ("ttl", "needs seconds"), ("ttl:-1", "needs seconds"),
     ("ttl:nan", "needs seconds"), ("lru:4", "lru takes no value")],
)  # fmt: skip
def test_a_wrong_name_is_a_sentence(name, says):
    with pytest.raises(InputError) as caught:
        parse_eviction(name)
    assert says in caught.value.message


def test_every_policy_can_be_named():
    for name in EVICTION_POLICIES:
        assert parse_eviction("ttl:5" if name == "ttl" else name).name.startswith(name)


@settings(max_examples=80)
@given(prompts(), st.integers(0, 3))
def test_the_whole_curve_from_one_pass(asked, warm_up):
    """Hits at every capacity, by interpolation between the bends."""
    groups = reuse_groups([as_runs(ids).tolist() for ids in asked], len(asked))
    bends, hits = groups.curve(warm_up)
    for capacity in range(50):
        right = groups.hit_blocks(capacity)[warm_up:].sum()
        assert np.interp(capacity, bends, hits) == pytest.approx(right, abs=1e-9)
