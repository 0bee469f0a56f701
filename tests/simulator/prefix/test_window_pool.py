"""Checkpoints of windows: LRU against a twin, splits, capacity."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from simulator.prefix.eviction import parse_eviction
from simulator.prefix.prefix_index import PrefixIndex
from simulator.prefix.window_pool import WindowPool
from tests.simulator.prefix.made_traces import prompts
from workloads.traffic.trace import as_runs


@given(prompts(), st.integers(1, 10), st.sampled_from(["lru", "fifo"]))
def test_checkpoints_are_those_of_a_twin(asked, capacity, name):
    index = PrefixIndex(4)
    pool = WindowPool(index, capacity, parse_eviction(name))
    twin: OrderedDict[tuple, None] = OrderedDict()
    for ids in asked:
        found = index.match(as_runs(ids).tolist())
        limit = 4 * found.blocks
        kept = [len(key) * 4 for key in twin if tuple(ids[: len(key)]) == key]
        best = max((token for token in kept if token <= limit), default=0)
        assert pool.last(found.path, limit) == best
        if best:
            pool.touch(index.holder_of(found.path, best), best)
            if name == "lru":
                twin.move_to_end(tuple(ids[: best // 4]))
        path = index.insert(as_runs(ids).tolist(), found=found)
        key = tuple(ids)
        pool.store(path[-1], 4 * len(ids))
        if key in twin:
            if name == "lru":
                twin.move_to_end(key)
        else:
            if len(twin) == capacity:
                twin.popitem(last=False)
            twin[key] = None
        index.prune(path[-1])
        assert pool.used == len(twin) <= capacity
        assert sum(segment.holders for segment in index) == pool.used
        assert all(segment.pins == 0 for segment in index)


def test_windows_are_forgotten_after_their_time():
    index = PrefixIndex(4)
    pool = WindowPool(index, None, parse_eviction("ttl:10"))
    path = index.insert([(0, 4)])
    pool.store(path[0], 8, now_s=0.0)
    pool.store(path[0], 16, now_s=5.0)
    pool.expire(10.0)
    assert pool.last(path, 16) == 16
    pool.expire(12.0)
    assert pool.last(path, 15) == 0
    pool.expire(30.0)
    assert pool.used == 0
    assert index.segments == 0
