"""Fleets: prefixes that are hit, routing that finds them, prefill apart, pipeline lanes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simulator.serve.deployment import deploy
from simulator.serve.fleet import transferred_bytes
from simulator.serve.money import storage_of
from simulator.serve.run import ServingRun, run_scenario
from simulator.serve.scenario import (
    Disaggregation,
    FixedShape,
    Parallel,
    PrefixCache,
    Scenario,
    Traffic,
)
from workloads.traffic.trace import NO_REQUEST, NO_TIME, Trace, pack_runs

BASE = Scenario(
    name="small",
    model="v4-flash",
    chip="h200",
    parallel=Parallel(tp=8),
    fidelity="roofline",
    traffic=Traffic(made=FixedShape(input_tokens=1, output_tokens=1, requests=1, rate_per_s=1)),
)
BLOCK = 64


def sessions(count: int, turns: int, gap_ns: int = 10**6) -> Trace:
    """Sessions that start a gap apart; each prompt adds 4,096 tokens to the last one."""
    rows, runs = [], []
    for session in range(count):
        for turn in range(turns):
            parent = len(rows) - 1 if turn else NO_REQUEST
            rows.append((session, parent, 4096 * (turn + 1)))
            runs.append(np.array([[10**6 * session, 64 * (turn + 1)]]))
    columns = np.array(rows, dtype=np.int64)
    offsets, first, counts = pack_runs(runs)
    length = len(rows)
    return Trace(
        name="sessions",
        block_tokens=BLOCK,
        arrival_ns=np.where(columns[:, 1] == NO_REQUEST, gap_ns * columns[:, 0], NO_TIME),
        delay_ns=np.full(length, 10**8),
        input_tokens=columns[:, 2],
        output_tokens=np.full(length, 64),
        session=columns[:, 0],
        parent=columns[:, 1],
        run_offsets=offsets,
        run_first=first,
        run_count=counts,
    )


def run(trace: Trace, **changes: object) -> ServingRun:
    return run_scenario(BASE.model_copy(update=changes), trace=trace)


def test_a_session_hits_what_it_left() -> None:
    cache = PrefixCache(window_policy="boundary")
    found = run(sessions(1, 3), prefix_cache=cache)
    # The ideal engine keeps whole pages of 128 tokens; the reply's end is a boundary as well.
    assert found.requests.column("hit_tokens").tolist() == [0, 4096, 8192]
    plain = run(sessions(1, 3))
    assert plain.requests.column("hit_tokens").tolist() == [0, 0, 0]
    assert found.end_ns < plain.end_ns
    for one in (found, plain):
        log = one.requests
        computed = log.column("input_tokens") - log.column("hit_tokens")
        assert sum(sum(steps.prompt_tokens) for steps in one.steps) == computed.sum()


def test_lower_tiers_are_written_loaded_and_paid() -> None:
    cache = PrefixCache(window_policy="boundary", tiers="node")
    found = run(sessions(4, 3), prefix_cache=cache)
    uses = {use.name: use for use in storage_of(found)}
    assert list(uses) == ["hbm", "dram", "nvme", "remote"]
    assert uses["hbm"].loaded_tokens == found.requests.column("hit_tokens").sum()
    for name in ("dram", "nvme"):
        assert uses[name].written_bytes > 0
        assert uses[name].gb_hours > 0
        assert uses[name].usd > 0
    assert uses["nvme"].wear_share is not None
    assert 0 < uses["nvme"].wear_share < 1e-6
    assert uses["hbm"].usd == 0
    assert storage_of(run(sessions(1, 1))) == ()


def test_swapped_requests_read_their_state_back() -> None:
    # A host that launches kernel by kernel takes as long for one token as for many.
    deployment = deploy(BASE.model_copy(update={"without": ("host",)}))
    tight = tuple(
        replace(r, capacity=r.fixed * 8 + r.units_per_token * 34_000) if r.pages else r
        for r in deployment.resources
    )
    found = {}
    for preempt in ("recompute", "swap"):
        rule = replace(deployment.rule, preempt=preempt)
        scenario = BASE.model_copy(update={"traffic": made(8, 1000.0, output_tokens=600)})
        limited = replace(deployment, resources=tight, rule=rule)
        found[preempt] = run_scenario(scenario, deployment=limited)
    again, back = found["recompute"].requests, found["swap"].requests
    assert again.finished.all()
    assert back.finished.all()
    assert back.column("preemptions").sum() > 0
    assert back.column("recomputed_tokens").sum() == 0 < again.column("recomputed_tokens").sum()
    # All that was not read back is one token for each time that a request gave way.
    extra = back.column("prefilled_tokens") - back.column("input_tokens")
    assert extra.sum() == back.column("preemptions").sum()
    # What is read back is no hit: without a prefix cache there is none.
    assert back.column("hit_tokens").sum() == again.column("hit_tokens").sum() == 0
    assert found["swap"].end_ns < found["recompute"].end_ns


def test_hits_need_room_in_device_memory() -> None:
    cache = PrefixCache(window_policy="boundary")
    deployment = deploy(BASE)
    small = [
        r if r.name == "requests" else type(r)(
            name=r.name, capacity=r.fixed * 2 + r.units_per_token * 15000, fixed=r.fixed,
            pages=r.pages,
        )
        for r in deployment.resources
    ]  # fmt: skip
    tight = replace(deployment, resources=tuple(small))
    scenario = BASE.model_copy(update={"prefix_cache": cache})
    roomy = run_scenario(scenario, deployment=deployment, trace=sessions(6, 3))
    narrow = run_scenario(scenario, deployment=tight, trace=sessions(6, 3))
    hits = [one.requests.column("hit_tokens").sum() for one in (roomy, narrow)]
    assert hits[0] == 6 * (4096 + 8192)
    assert hits[1] < hits[0]
    assert narrow.requests.finished.all()


def test_routing_by_prefix_finds_what_turns_left() -> None:
    cache = PrefixCache(window_policy="boundary")
    trace = sessions(7, 3, gap_ns=10**9)
    turn = run(trace, prefix_cache=cache, replicas=2)
    aware = run(trace, prefix_cache=cache, replicas=2, routing="prefix-aware")
    hits = [one.requests.column("hit_tokens").sum() for one in (turn, aware)]
    assert hits[0] < hits[1] == 7 * (4096 + 8192)
    # Where replicas are busy, a home is left for one that is faster in spite of the hit.
    crowd = run(sessions(7, 3), prefix_cache=cache, replicas=2, routing="prefix-aware")
    assert 0 < crowd.requests.column("hit_tokens").sum() < hits[1]


def made(requests: int, rate: float, output_tokens: int = 200) -> Traffic:
    return Traffic(
        made=FixedShape(
            input_tokens=4000, output_tokens=output_tokens, requests=requests, rate_per_s=rate
        )
    )


def test_prefill_apart() -> None:
    split = BASE.model_copy(
        update={
            "traffic": made(40, 20.0),
            "disaggregation": Disaggregation(prefill_replicas=1),
        }
    )
    found = run_scenario(split)
    together = run_scenario(split.model_copy(update={"disaggregation": None}))
    assert found.chips == 2 * together.chips
    assert found.requests.finished.all()
    decode, prefill = (steps.columns() for steps in found.steps)
    assert not decode["prompt_tokens"].any()
    assert not prefill["decoding"].any()
    assert prefill["prompt_tokens"].sum() == 40 * 4000
    # Answers do not wait for prompts any more.
    assert found.requests.tpot_ns().max() < together.requests.tpot_ns().max()


def test_state_of_a_prompt_by_hand() -> None:
    geometry = deploy(BASE).geometry
    # 1,003 tokens: 250 entries a C4 layer, 7 a C128 layer, a full window; 3 open tokens and the
    # four before them in a C4 compressor, 1,003 - 7 x 128 in a C128 one.
    by_hand = 21 * (250 * (584 + 132) + (3 + 4) * (8192 + 2048))
    by_hand += 20 * (7 * 584 + (1003 - 896) * 4096) + 43 * 128 * 584
    assert transferred_bytes(geometry, 1003) == by_hand


def test_pipeline_lanes_share_the_memory_of_a_stage() -> None:
    deep = BASE.model_copy(update={"parallel": Parallel(tp=2, pp=4), "traffic": made(60, 50.0)})
    found = run_scenario(deep)
    assert len(found.steps) == 4
    assert found.chips == 8
    assert found.requests.finished.all()


@pytest.mark.parametrize("routing", ["round-robin", "least-loaded"])
def test_replicas_share_the_load(routing: str) -> None:
    scenario = BASE.model_copy(
        update={"traffic": made(60, 50.0), "replicas": 3, "routing": routing}
    )
    homes = run_scenario(scenario).requests.column("replica")
    assert np.bincount(homes, minlength=3).min() >= 15


def test_what_is_hit_again_is_not_computed_again() -> None:
    # A host that launches kernel by kernel takes as long for one token as for many.
    deployment = deploy(BASE.model_copy(update={"without": ("host",)}))
    tight = tuple(
        replace(r, capacity=r.fixed * 8 + r.units_per_token * 34_000) if r.pages else r
        for r in deployment.resources
    )
    traffic = made(8, 1000.0, output_tokens=600)
    scenario = BASE.model_copy(
        update={"traffic": traffic, "prefix_cache": PrefixCache(tiers="node")}
    )
    log = run_scenario(scenario, deployment=replace(deployment, resources=tight)).requests
    names = ("input_tokens", "recomputed_tokens", "preemptions", "hit_tokens", "prefilled_tokens")
    given, again, gave_way, hit, computed = (log.column(name) for name in names)
    assert gave_way.sum() > 0
    assert (hit <= given).all()
    # Each time it gives way, the last token had no state of its own yet.
    assert (given + again + gave_way == hit + computed).all()


def test_requests_over_the_positions_of_the_model_are_refused() -> None:
    longest = deploy(BASE).capacity.question.config.max_position_embeddings
    trace = replace(
        sessions(2, 1),
        input_tokens=np.array([longest - 64, longest - 63]),
        output_tokens=np.array([64, 64]),
    )
    run = run_scenario(BASE, trace=trace)
    assert run.requests.finished.tolist() == [True, False]
    assert run.refused == {"the 1,048,576 positions of the model": 1}
