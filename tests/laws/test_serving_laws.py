"""Laws of serving with data ranks, a host and an exchange: what switching them on may change."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cost.step_clock import DecodeGroup, PromptChunk
from simulator.serve.deployment import DeployedReplica, deploy
from simulator.serve.metrics import summarize
from simulator.serve.rank_clock import RankClock
from simulator.serve.run import ServingRun, run_scenario
from simulator.serve.scenario import Scenario
from tests.simulator.serve.serve_cases import trace_of

PLAIN = ["host", "padding", "skew"]
MADE = {
    "input_tokens": 4096,
    "output_tokens": 256,
    "requests": 60,
    "rate_per_s": 6.0,
    "range_ratio": 0.1,
}


def scenario(**keys: Any) -> Scenario:
    data = {
        "name": "law",
        "model": "v4-flash",
        "chip": "h200",
        "engine": "sglang-0.5",
        "traffic": {"made": MADE},
        "seed": 3,
    }
    return Scenario.model_validate_json(json.dumps(data | keys))


@pytest.mark.parametrize(
    ("keys", "end_ns", "first_ns", "finish_ns"),
    [
        ({"parallel": {"tp": 8}}, 13507056575, 382404222977, 468290688633),
        (
            {
                "parallel": {"tp": 8},
                "scheduler": {"order": "prefill-first"},
                "speculation": {"draft_tokens": 2, "accepted": [1.8, 2.3]},
            },
            12738584011,
            382570924591,
            428959129105,
        ),
        (
            {"parallel": {"tp": 4}, "chip": "b200", "engine": "vllm-0.33"},
            13435231295,
            380494863741,
            451431149711,
        ),
        ({"parallel": {"tp": 4, "pp": 2}}, 13594182180, 381775105212, 455819814523),
    ],
)
def test_one_rank_without_host_is_what_it_was(
    keys: dict[str, Any], end_ns: int, first_ns: int, finish_ns: int
) -> None:
    """Times that replicas had before ranks, hosts and graphs were known to the simulation."""
    requests = run_scenario(scenario(**keys, without=PLAIN)).requests
    found = [int(requests.column(name).sum()) for name in ("first_token_ns", "finish_ns")]
    assert [int(requests.column("finish_ns").max()), *found] == [end_ns, first_ns, finish_ns]


@cache
def ranks(drafts: int = 0, chip: str = "h200") -> DeployedReplica:
    extra = {"speculation": {"draft_tokens": 1, "accepted": [1.8]}} if drafts else {}
    order = {"scheduler": {"order": "prefill-first", "max_requests": 64}}
    return deploy(scenario(parallel={"dp": 4}, chip=chip, without=PLAIN, **order, **extra))


def rank_clock(skew: float = 1.0) -> RankClock:
    own = ranks()
    return RankClock(own.clock, 4, own.padded, own.beside, 1, skew)  # type: ignore[arg-type]


requests = st.integers(0, 40)
contexts = st.integers(64, 40_000)
chunks = st.lists(st.tuples(st.integers(1, 4096), st.integers(0, 30_000)), max_size=2)


@settings(max_examples=40, deadline=None)
@given(requests, contexts, chunks, st.integers(0, 16_000), st.floats(1.0, 2.0))
def test_others_and_skew_never_shorten_a_step(
    count: int, context: int, parts: list[tuple[int, int]], others: int, skew: float
) -> None:
    """A rank's step beside the others, and the busiest's, is no shorter than the rank's own."""
    if not count and not parts:
        return
    groups = [DecodeGroup(requests=count, context_sum=float(count * context))] if count else []
    prompts = [PromptChunk(new, past) for new, past in parts]
    own = count + sum(new for new, _ in parts)
    plain, skewed = rank_clock(), rank_clock(skew)
    alone = plain.step_ns(groups, prompts, own)
    beside = plain.step_ns(groups, prompts, own + others)
    assert beside >= alone * (1 - 0.01)
    assert skewed.step_ns(groups, prompts, own + others) >= beside * (1 - 1e-9)
    if groups:
        assert skewed.decode_ns(groups) >= plain.decode_ns(groups) * (1 - 1e-9)


def served(rows: list[tuple[int, int, int]], drafts: int = 0, **keys: Any) -> ServingRun:
    extra = {"speculation": {"draft_tokens": 1, "accepted": [1.8]}} if drafts else {}
    order = {"scheduler": {"order": "prefill-first", "max_requests": 64}}
    asked = scenario(parallel={"dp": 4}, **order, **extra, **keys)
    return run_scenario(asked, deployment=deploy(asked), trace=trace_of(rows))


@pytest.mark.parametrize("drafts", [0, 1])
def test_ranks_with_identical_requests_are_the_representative_one(drafts: int) -> None:
    rows = [(wave * 10**9, 8192, 100) for wave in range(3) for _ in range(4)]
    together = served(rows, drafts, without=PLAIN)
    alone = served(rows, drafts, without=[*PLAIN, "lockstep"])
    assert together.deployment.ranks == 4
    assert alone.deployment.ranks == 1
    for name in ("first_token_ns", "finish_ns"):
        ours, theirs = together.requests.column(name), alone.requests.column(name)
        assert np.abs(ours - theirs).max() <= 1000  # rounded once a jump


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 1))
def test_random_runs_keep_the_laws(seed: int, drafts: int) -> None:
    """Little's law and conservation with ranks; lockstep and skew do not raise throughput."""
    draw = np.random.default_rng(seed)
    arrivals = np.sort(draw.integers(0, 4 * 10**9, 48))
    rows = [(int(at), int(draw.integers(100, 9000)), int(draw.integers(1, 300))) for at in arrivals]
    runs = {
        "ranks": served(rows, drafts, without=PLAIN),
        "one": served(rows, drafts, without=[*PLAIN, "lockstep"]),
        "skew": served(rows, drafts, without=["host", "padding"], expert_load={"zipf": 1.0}),
    }
    for run in runs.values():
        found = summarize(run)
        assert found.lawful, [check.sentence for check in found.checks if not check.holds]
    assert runs["ranks"].end_ns >= runs["one"].end_ns * 0.99
    assert runs["skew"].end_ns >= runs["ranks"].end_ns * 0.99


def test_jumps_change_nothing_with_ranks() -> None:
    draw = np.random.default_rng(5)
    rows = [
        (int(at), int(draw.integers(100, 9000)), int(draw.integers(1, 120)))
        for at in np.sort(draw.integers(0, 10**9, 24))
    ]
    asked = scenario(parallel={"dp": 4}, scheduler={"order": "prefill-first"})
    runs = [run_scenario(asked, trace=trace_of(rows), jumps=jumps) for jumps in (True, False)]
    for name in ("first_token_ns", "finish_ns"):
        ours, theirs = (run.requests.column(name) for run in runs)
        assert np.abs(ours - theirs).max() <= 20_000


def test_host_only_adds() -> None:
    # Of one request: among several, a longer step may gather prompts that a shorter one would not.
    rows = [(0, 4096, 64)]
    with_host, without = served(rows), served(rows, without=["host"])
    assert with_host.end_ns > without.end_ns
