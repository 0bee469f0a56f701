"""Storage on the clock: one read alone, and loads that wait for writes of their tier."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.sourced import Sourced
from simulator.prefix.tier import Tier
from tests.simulator.prefix.made_traces import prompts, trace_of
from tests.simulator.prefix.test_replay import replay, tiers_of


def size(value, unit):
    return Sourced(value=value, unit=unit, kind="published", source="gds-bench")


def test_one_read_alone_takes_latency_and_bytes_at_the_rate():
    """Five Gen5 drives read into a GPU: 49.0 GB/s; 1,237 MB were measured to take 24.7 ms."""
    tier = Tier(
        name="raid", capacity=size(1, "TB"), read=size(49.0, "GB/s"), write=size(49.0, "GB/s"),
        latency=size(100, "us"), queue_depth=size(16, "1"),
    )  # fmt: skip
    taken = tier.read_ns(1_237_000_000, 1)
    assert taken == round(1e9 * 1.237 / 49.0) + 100_000
    assert taken == pytest.approx(24.7e6, rel=0.1)


def close(asked):
    """Requests that come while those before are being written."""
    return trace_of(asked, block_tokens=32, arrival_s=[n * 0.002 for n in range(len(asked))])


def rated(capacities, factor):
    """Tiers whose writes are so many times as fast, and without latency if that has no end."""
    tiers = tiers_of(*capacities)
    for place, tier in enumerate(tiers[1:], start=1):
        speed = min(tier.write.si * factor, 1e18)
        rate = Sourced(value=speed, unit="B/s", kind="guessed", note="test")
        late = Sourced(value=1e-9 if factor > 1e6 else 10, unit="us", kind="guessed", note="test")
        tiers[place] = tier.model_copy(update={"write": rate, "latency": late})
    return tiers


@settings(max_examples=60)
@given(prompts(max_requests=15), st.sampled_from(["boundary", "zero", "periodic:64", "full"]))
def test_writes_never_shorten_a_first_token(asked, name):
    """A device of no room, slow writes: loads wait for them, some or none."""
    capacities, trace = [1_000, 10**8, 10**8], close(asked)
    for factor in (1e-4, 1.0):
        tiers = rated(capacities, factor)
        plain, _ = replay(trace, name, capacities, tiers=tiers)
        waits, _ = replay(trace, name, capacities, tiers=tiers, share_writes=True)
        if plain.loaded_tokens == waits.loaded_tokens:
            assert (waits.ttft_ns >= plain.ttft_ns).all()
            assert waits.link_wait_ns >= 0


@settings(max_examples=60)
@given(prompts(max_requests=15), st.sampled_from(["boundary", "zero", "full"]), st.booleans())
def test_writes_that_take_no_time_change_nothing(asked, name, share_link):
    """To the nanosecond that replays count in."""
    capacities, trace = [1_000, 10**8, 10**8], close(asked)
    tiers = rated(capacities, 1e15)
    plain, _ = replay(trace, name, capacities, tiers=tiers, share_link=share_link)
    waits, _ = replay(
        trace, name, capacities, tiers=tiers, share_link=share_link, share_writes=True
    )
    assert waits.ttft_ns.tolist() == plain.ttft_ns.tolist()
    assert waits.tiers == plain.tiers


def test_a_load_waits_for_the_writes_before_it():
    """By hand: what is being written when the second of two equal prompts comes."""
    capacities = [1_000, 10**8]
    tiers = rated(capacities, 1e-6)
    trace = trace_of([list(range(20))] * 2, block_tokens=32, arrival_s=[0, 0.05])
    plain, _ = replay(trace, "zero", capacities, tiers=tiers)
    waits, cache = replay(trace, "zero", capacities, tiers=tiers, share_writes=True)
    busy = cache.stores[1].writes
    assert waits.link_wait_ns > 0
    assert waits.ttft_ns[1] == plain.ttft_ns[1] + waits.link_wait_ns
    assert waits.link_wait_ns <= busy.busy_s * 1e9
