"""Bounds of hits: none passes the upper one; the lower is the optimum of equal objects."""

from functools import cache
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.prefix.belady import belady_hits, know_future
from simulator.prefix.bounds import farthest_bytes, pfoo_hits, upper_bytes
from simulator.prefix.reference import capacity_counts
from tests.simulator.prefix.made_traces import prompts, trace_of
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
