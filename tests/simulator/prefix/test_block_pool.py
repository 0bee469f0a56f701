"""Evictions of single blocks: each against a slow count of its own, and laws of all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.prefix.belady import belady_hits, know_future
from simulator.prefix.block_pool import (
    BLOCK_POLICIES,
    BlockPool,
    block_hits,
    parse_block_policy,
)
from simulator.prefix.evictions.policy import BlockPolicy
from simulator.prefix.reference import capacity_counts
from tests.oracles.evictions import SLOW, Slow
from tests.simulator.prefix.made_traces import prompts, trace_of
from tests.simulator.prefix.test_segment_pool import lru_twin
from workloads.traffic.trace import as_runs


def test_every_policy_has_a_slow_count():
    assert {name.partition(":")[0] for name in SLOW} == set(BLOCK_POLICIES)


def timed(asked, gaps):
    """Arrivals a gap after each other."""
    times, now = [], 0.0
    for number in range(len(asked)):
        now += gaps[number % len(gaps)]
        times.append(now)
    return times


@pytest.mark.parametrize("name", SLOW)
@settings(max_examples=150)
@given(prompts(), st.integers(1, 40), st.lists(st.sampled_from([0.5, 1.0, 4.0]), min_size=1))
def test_hits_are_those_of_a_slow_count(name, asked, capacity, gaps):
    times = timed(asked, gaps)
    trace = trace_of(asked, arrival_s=times)
    make = parse_block_policy(name)
    assert make is not None
    found, peak = block_hits(trace, make, capacity)
    slow = SLOW[name](capacity)
    assert found.tolist() == [slow.ask(ids, now) for ids, now in zip(asked, times, strict=True)]
    assert peak <= capacity


@settings(max_examples=100)
@given(prompts(), st.integers(1, 40))
def test_plain_policy_is_lru(asked, capacity):
    """As the pool of segments, its twin and the slow list have it."""
    pool = BlockPool(capacity, BlockPolicy(capacity))
    found = [pool.ask(ids, turn) for turn, ids in enumerate(asked)]
    assert found == lru_twin(asked, capacity)
    slow = Slow(capacity)
    assert found == [slow.ask(ids) for ids in asked]


@pytest.mark.parametrize("name", ["arc", "sieve", "s3fifo", "gdsf", "lfu:50", "predict:1e9"])
@settings(max_examples=60)
@given(prompts(), st.integers(1, 40))
def test_no_policy_hits_more_than_who_knows_the_future(name, asked, capacity):
    """Nor more than with room for all; and with room for all every policy hits all."""
    trace = trace_of(asked)
    found = capacity_counts(trace, name, [capacity * 4, 10**6])
    most, _ = belady_hits(know_future([as_runs(ids).tolist() for ids in asked]), capacity)
    assert found[0].hit_blocks <= most.sum()
    assert found[1].hit_blocks == capacity_counts(trace, "lru", [10**6])[0].hit_blocks


@pytest.mark.parametrize("text", ["arc:3", "lfu:0", "lfu:x", "predict:-1", "sieve:1"])
def test_values_that_do_not_do(text):
    with pytest.raises(InputError, match="eviction policy"):
        parse_block_policy(text)


def test_other_names_are_of_other_pools():
    assert parse_block_policy("lru") is None
