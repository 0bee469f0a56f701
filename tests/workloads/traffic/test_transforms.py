"""Live sessions, rate, samples, windows, warm-up: against a slow count, and by hand."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from simulator.prefix.granularity import in_granules
from simulator.prefix.reference import capacity_counts, reference_counts
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_policy import parse_window_policy
from tests.oracles.live_sessions import granules, live_order, lru_hits
from workloads.traffic.readers import read_trace
from workloads.traffic.trace import Trace, as_runs, expand_runs, pack_runs
from workloads.traffic.transforms import (
    Transforms,
    faster,
    live_sessions,
    open_sessions,
    order_text,
    sample_sessions,
    within,
)

BLOCK = 4


def trace_of(sessions):
    """A trace of sessions of (start s, tokens, ids); ids are made private."""
    rows = [(s, *request) for s, requests in enumerate(sessions) for request in requests]
    offsets, first, count = pack_runs([as_runs([i + s * 10_000 for i in r]) for s, _, _, r in rows])
    ints = lambda values: np.array(values, dtype=np.int64)  # noqa: E731
    return Trace(
        name="made",
        block_tokens=BLOCK,
        arrival_ns=ints([round(t * 1e9) for _, t, _, _ in rows]),
        delay_ns=ints([0 for _ in rows]),
        input_tokens=ints([n for _, _, n, _ in rows]),
        output_tokens=ints([1 for _ in rows]),
        session=ints([s for s, *_ in rows]),
        parent=ints([-1 for _ in rows]),
        run_offsets=offsets,
        run_first=first,
        run_count=count,
    )


@st.composite
def sessions(draw):
    """Sessions whose prompts grow, are rewritten from a place on, or start anew."""
    out = []
    for _ in range(draw(st.integers(1, 6))):
        requests, ids, fresh = [], [], 0
        for _ in range(draw(st.integers(1, 5))):
            ids = ids[: draw(st.integers(0, len(ids)))]
            more = draw(st.integers(0, 9))
            fresh += draw(st.integers(0, 1)) * 3
            ids = ids + list(range(fresh, fresh + more))
            fresh += more
            tokens = max(1, len(ids) * BLOCK + draw(st.integers(0, BLOCK - 1)))
            requests.append((draw(st.sampled_from([0, 0, 1, 2, 5, 299, 700])), tokens, ids))
        out.append(requests)
    return out


@settings(max_examples=150)
@given(sessions(), st.integers(1, 7))
def test_sessions_are_admitted_as_a_slow_count_admits_them(made, live):
    """Order, times and prompts."""
    trace = trace_of(made)
    asked = live_sessions(trace, live)
    right = live_order(made, live)
    assert asked.arrival_ns.tolist() == [round(at * 1e9) for _, _, at in right]
    for row, (session, number, _) in enumerate(right):
        ids = [i + session * 10_000 for i in made[session][number][2]]
        assert expand_runs(asked.runs(row)).tolist() == ids
    assert open_sessions(asked)[1] <= live


@settings(max_examples=150)
@given(sessions(), st.integers(1, 7), st.integers(1, 3), st.integers(1, 20))
def test_hits_of_live_sessions_in_a_pool(made, live, each, capacity):
    """Granules known by their last id, leading runs, LRU by block with the tail evicted first."""
    asked = in_granules(live_sessions(trace_of(made), live), each * BLOCK)
    found = capacity_counts(asked, "lru", [capacity * each * BLOCK])[0]
    names = [granules(s, made[s][n][2], each) for s, n, _ in live_order(made, live)]
    right = lru_hits(names, capacity)
    assert found.hit_tokens == sum(right) * each * BLOCK


@settings(max_examples=60)
@given(sessions())
def test_one_live_session_is_session_after_session(made):
    """In the order of the file."""
    trace = trace_of(made)
    order = np.lexsort((np.arange(len(trace)), trace.arrival_ns, trace.session))
    assert live_sessions(trace, 1).input_tokens.tolist() == trace.input_tokens[order].tolist()


def test_recorded_starts_of_sub_agents(tmp_path):
    """They are requests of the session by time, though they wait for a reply of another chain."""
    rows = [
        {"t": 0, "k": "main", "in": 64, "out": 1, "api": 1, "h": [[0, 0]]},
        {"t": 500, "k": "main", "in": 64, "out": 1, "api": 1, "think": 9, "h": [[0, 0]]},
        {"t": 20, "k": "sub", "a": "x", "in": 128, "out": 1, "api": 1, "h": [[0, 1]]},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(json.dumps({"id": f"s{n}", "reqs": rows}) for n in range(2)))
    asked = live_sessions(read_trace(path), 1)
    assert (asked.arrival_ns / 1e9).tolist() == [0, 20, 320, 320, 340, 640]
    assert asked.input_tokens.tolist() == [64, 128, 64] * 2
    # The sub-agent stands behind the later main request in the file, which cannot have called it.
    assert asked.parent.tolist() == [-1, -1, 0, -1, -1, 3]


def test_a_rate_moves_sessions_and_not_what_is_in_them():
    """Starts at 0 and 10 s, requests 2 s after them."""
    made = [[(0, 4, [0]), (2, 8, [0, 1])], [(10, 4, [0]), (12, 8, [0, 1])]]
    assert (faster(trace_of(made), 5).arrival_ns / 1e9).tolist() == [0, 2, 2, 4]


def test_windows_and_samples():
    """What is left, and what is said when nothing is."""
    trace = trace_of([[(at, 4, [0])] for at in range(10)])
    assert (within(trace, 2, 5).arrival_ns / 1e9).tolist() == [0, 1, 2]
    assert len(sample_sessions(trace, 0.3, 1)) == 3
    assert sample_sessions(trace, 0.3, 1).notes == sample_sessions(trace, 0.3, 1).notes
    with pytest.raises(InputError, match="arrivals are at 0 to 9 s"):
        within(trace, 20, 30)
    for wrong in ({"live": 0}, {"sample": 0.0}, {"rate": -1.0}, {"window_s": (3.0, 3.0)}):
        with pytest.raises(InputError):
            Transforms(**wrong)
    with pytest.raises(InputError, match="no rate of their own"):
        Transforms(live=3, rate=2.0)
    with pytest.raises(InputError, match="leaves none"):
        Transforms(warm_up=10).apply(trace)


def test_a_warm_up_fills_the_cache_and_is_not_counted():
    """The second of two equal prompts, alone."""
    trace = Transforms(warm_up=1).apply(trace_of([[(0, 8, [0, 1]), (1, 8, [0, 1])]]))
    counts = reference_counts(trace, [parse_window_policy("full")], WindowGeometry(4, 2), [16])
    assert (counts.requests, counts.input_tokens, counts.policies[0].hit_tokens) == (1, 8, 8)
    assert counts.capacities[0].hit_tokens == 8


def test_the_order_is_said_with_its_concurrency():
    """Interleaved sessions are open at once."""
    trace = trace_of([[(0, 4, [0]), (10, 4, [0])], [(5, 4, [0]), (15, 4, [0])]])
    assert order_text(trace) == (
        "requests meet the cache in file order (1.0 sessions open at once in the mean, 1 at most)"
    )
    assert "with 2 of 2 sessions live at once" in order_text(live_sessions(trace, 2))
    assert open_sessions(live_sessions(trace, 2))[1] == 2
