"""Bounds of hits: none passes the upper one; the lower is the optimum of equal objects."""

from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.prefix.belady import belady_hits, know_future
from simulator.prefix.bounds import farthest_bytes, pfoo_hits, upper_bytes
from simulator.prefix.cached_bytes import CachedBytes
from simulator.prefix.reference import capacity_counts, reference_counts
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policies
from tests.oracles.object_pool import evictions, pool_bytes
from tests.simulator.prefix.made_traces import prompts, trace_of
from workloads.deepseek_v4.config import find_model
from workloads.traffic.trace import as_runs

POLICIES = ["lru", "fifo", "cost", "sieve", "s3fifo", "arc", "gdsf", "lfu:20", "predict:1e6"]


def objects_of(asked):
    """Paths as numbers of blocks, and what each block needs."""
    numbers, parents, paths = {}, [], []
    for ids in asked:
        path, before = [], -1
        for n in range(len(ids)):
            number = numbers.setdefault(tuple(ids[: n + 1]), len(numbers))
            if number == len(parents):
                parents.append(before)
            path.append(number)
            before = number
        paths.append(path)
    return paths, parents


def best_bytes(paths, parents, sizes, capacity):
    """By trying every closed set after every request that fits."""

    def fits(kept):
        return sum(sizes[one] for one in kept) <= capacity and all(
            parents[one] < 0 or parents[one] in kept for one in kept
        )

    @cache
    def most(request, held):
        if request == len(paths):
            return 0
        hit = sum(sizes[one] for one in paths[request] if one in held)
        near = sorted(held | set(paths[request]))
        subsets = (frozenset(c) for n in range(len(near) + 1) for c in combinations(near, n))
        return hit + max(most(request + 1, kept) for kept in subsets if fits(kept))

    return most(0, frozenset())


@settings(max_examples=60, deadline=None)
@given(prompts(max_requests=5, max_blocks=4), st.integers(1, 5), st.data())
def test_both_bounds_hold_the_optimum_between_them(asked, capacity, data):
    """By exhaustive search; for objects of one size the lower bound is the optimum."""
    paths, parents = objects_of([ids[:3] for ids in asked])
    equal = [1] * len(parents)
    best = best_bytes(paths, parents, equal, capacity)
    assert farthest_bytes(paths, equal, capacity, parents) == best
    assert upper_bytes(paths, equal, capacity) >= best
    sizes = [data.draw(st.integers(1, 3)) for _ in parents]
    best = best_bytes(paths, parents, sizes, capacity)
    assert farthest_bytes(paths, sizes, capacity, parents) <= best
    assert upper_bytes(paths, sizes, capacity) >= best


@settings(max_examples=100)
@given(prompts(), st.integers(1, 40))
def test_bounds_hold_over_all_policies(asked, capacity):
    """Both forms of each bound agree on blocks."""
    trace = trace_of(asked)
    future = know_future([as_runs(ids).tolist() for ids in asked])
    lower, _ = belady_hits(future, capacity)
    upper = int(pfoo_hits(future, capacity).sum())
    paths, parents = objects_of(asked)
    equal = [1] * len(parents)
    assert farthest_bytes(paths, equal, capacity, parents) == lower.sum() <= upper
    assert upper_bytes(paths, equal, capacity) == upper
    for name in POLICIES:
        [found] = capacity_counts(trace, name, [capacity * 4])
        assert found.hit_blocks <= lower.sum()
    rows = {
        row.eviction: row.hit_blocks
        for name in ("belady", "pfoo")
        for row in capacity_counts(trace, name, [capacity * 4])
    }
    assert rows["belady"] <= rows["pfoo"]


SIZES = CachedBytes(
    page_tokens=4, page_bytes=8, page_objects=1, window_bytes=11, overlap_bytes=2,
    checkpoint_objects=1, row_bytes=5,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(prompts(max_requests=12), st.integers(4, 160), st.integers(0, 5))
def test_every_eviction_lies_below_the_bounds_that_are_printed(asked, capacity, warm_up):
    """Pools of blocks as counted, pools of pages and windows by an independent count."""
    trace = trace_of(asked)
    trace = replace(trace, warm_up=min(warm_up, len(trace) - 1))
    policies = parse_window_policies("full,periodic:8,boundary,junction+boundary,zero")
    geometry = WindowGeometry.of_model(find_model("v4-flash"))
    names = [name for name in POLICIES if not name.startswith("predict")]
    counts = reference_counts(
        trace, policies, geometry, [capacity], [*names, "belady"], sizes=SIZES
    )
    [blocks] = counts.bounds
    found = {row.eviction: row.hit_tokens for row in counts.capacities}
    assert max(found.values()) <= blocks.upper_hit_tokens
    assert found["belady"] == blocks.lower_hit_tokens
    assert blocks.gap_tokens == blocks.upper_hit_tokens - blocks.lower_hit_tokens >= 0
    if not trace.warm_up:
        assert max(found.values()) == blocks.lower_hit_tokens
    assert [row.policy for row in counts.window_bounds] == [policy.name for policy in policies]
    for row in counts.window_bounds:
        assert 0 <= row.lower_bytes <= row.upper_bytes <= row.used_bytes
        assert row.gap_bytes == row.upper_bytes - row.lower_bytes


@settings(max_examples=60, deadline=None)
@given(prompts(max_requests=10), st.integers(10, 200), st.integers(0, 4), st.data())
def test_pools_of_pages_and_windows_by_an_independent_count(asked, capacity, first, data):
    """Windows hang on pages, as objects of a pool do; no eviction passes the relaxation."""
    paths, parents = objects_of(asked)
    sizes = [data.draw(st.integers(1, 9)) for _ in parents]
    for path in paths:
        if path and data.draw(st.booleans()):
            parents.append(path[-1])
            sizes.append(13)
            path.append(len(parents) - 1)
    upper = upper_bytes(paths, sizes, capacity, first)
    hits = {
        name: pool_bytes(paths, sizes, capacity, parents, worth, first)
        for name, worth in evictions(sizes).items()
    }
    assert farthest_bytes(paths, sizes, capacity, parents, first) == hits["farthest"]
    assert max(hits.values()) <= upper


def test_a_window_is_an_object_by_hand():
    """Two prompts of two blocks that share both: 16 B of pages and 13 B of a window are hit."""
    trace = trace_of([[1, 2], [1, 2], [1, 2]])
    policy = parse_window_policies("boundary")
    geometry = WindowGeometry.of_model(find_model("v4-flash"))
    [row] = reference_counts(trace, policy, geometry, [20], sizes=SIZES).window_bounds
    assert (row.capacity_bytes, row.used_bytes) == (40, 3 * 29)
    assert row.lower_bytes == row.upper_bytes == 2 * 29
    [row] = reference_counts(trace, policy, geometry, [8], sizes=SIZES).window_bounds
    # The window leaves, pages stay; 16 B of room over two steps hold one window and a byte more.
    assert (row.capacity_bytes, row.lower_bytes) == (16, 2 * 16)
    assert row.upper_bytes == 2 * 16
    assert np.all(trace.input_tokens == 8)
