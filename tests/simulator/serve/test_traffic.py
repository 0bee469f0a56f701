"""Requests of a scenario: made from numbers, drawn as sessions, read from a file and cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulator.basis.errors import FileFormatError, InputError
from simulator.serve.run import run_scenario
from simulator.serve.scenario import FixedShape, Parallel, Scenario, Traffic, load_scenario
from simulator.serve.traffic import answered, first_requests, made_trace, select, trace_of
from workloads.traffic.trace import NO_REQUEST


def scenario(traffic: Traffic, seed: int = 1) -> Scenario:
    return Scenario(name="x", model="v4-flash", chip="h200", traffic=traffic, seed=seed)


def test_made_requests_by_hand() -> None:
    shape = FixedShape(
        input_tokens=1000,
        output_tokens=10,
        requests=3000,
        rate_per_s=5.0,
        range_ratio=0.5,
        shared_prefix_tokens=300,
    )
    trace = made_trace(shape, 3)
    assert trace.input_tokens.min() >= 500
    assert trace.input_tokens.max() <= 1000
    assert len(trace) / (trace.arrival_ns[-1] / 1e9) == pytest.approx(5, rel=0.06)
    # Four whole blocks of 64 tokens are shared, everything behind them is a request's own.
    first, second = trace.block_ids(0), trace.block_ids(1)
    assert (first[:4] == second[:4]).all()
    assert not set(first[4:]) & set(second[4:])
    assert len(first) == -(-int(trace.input_tokens[0]) // 64)


def test_a_range_ratio_of_zero_draws_lengths_from_one_on() -> None:
    shape = FixedShape(
        input_tokens=20, output_tokens=4, requests=4000, concurrency=1, range_ratio=0.0
    )
    trace = made_trace(shape, 3)
    assert trace.notes == ()
    assert np.unique(trace.output_tokens).tolist() == [1, 2, 3, 4]
    assert np.unique(trace.input_tokens).tolist() == list(range(1, 21))
    assert trace.input_tokens.mean() == pytest.approx(10.5, abs=0.5)
    # As the smallest ratio above it, and each length as likely as any other: 1,000 of 4,000.
    near = made_trace(shape.model_copy(update={"range_ratio": 1e-9}), 3)
    assert (near.input_tokens == trace.input_tokens).all()
    assert abs(np.bincount(trace.output_tokens)[1:] - 1000).max() < 120
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        FixedShape(input_tokens=20, output_tokens=4, requests=1, concurrency=1, range_ratio=-0.1)


def test_lengths_that_are_not_made_as_asked_are_told() -> None:
    """Inputs of 100 to 1,000 with 300 shared tokens: those of less become 300."""
    keys = {"input_tokens": 1000, "output_tokens": 10, "requests": 500, "rate_per_s": 5.0}
    plain = made_trace(FixedShape(**keys, range_ratio=0.1), 3)  # type: ignore[arg-type]
    assert plain.notes == ()
    shape = FixedShape(**keys, range_ratio=0.1, shared_prefix_tokens=300)  # type: ignore[arg-type]
    trace = made_trace(shape, 3)
    short = int((plain.input_tokens < 300).sum())
    assert 0 < short < 500
    assert (trace.input_tokens == np.maximum(plain.input_tokens, 300)).all()
    assert trace.notes == (
        f"{short} of 500 inputs were drawn shorter than the 300 shared tokens, and are made as "
        "long",
        "of 300 shared tokens 256 can be found again: prompts are told apart in blocks of 64",
    )


def test_requests_without_output_are_served_with_one_token_and_told(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "0,100,5\n1,200,0\n2,300,0\n"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + rows)
    found = run_scenario(scenario(Traffic(trace=str(path))).model_copy(update={
        "parallel": Parallel(tp=8), "fidelity": "roofline",
    }))  # fmt: skip
    assert found.requests.column("output_tokens").tolist() == [5, 1, 1]
    assert found.trace.output_tokens.tolist() == [5, 1, 1]
    assert found.trace.notes[-1] == (
        "2 of 3 requests ask for no output token and are served with one, which the prompt's own "
        "step gives"
    )
    assert answered(found.trace) is found.trace


@pytest.mark.parametrize(("arrivals", "cv", "spread"), [("gamma", 2.0, 2.0), ("fixed", 1.0, 0.0)])
def test_gaps_have_the_variation_asked_for(arrivals: str, cv: float, spread: float) -> None:
    shape = FixedShape(
        input_tokens=10,
        output_tokens=1,
        requests=20_000,
        rate_per_s=1.0,
        arrivals=arrivals,  # type: ignore[arg-type]
        cv=cv,
    )
    gaps = np.diff(made_trace(shape, 1).arrival_ns)
    assert gaps.std() / gaps.mean() == pytest.approx(spread, rel=0.05, abs=1e-9)


def test_synthetic_sessions_are_seeded() -> None:
    traffic = Traffic(synth={"kind": "agent", "sessions": 3, "turns_mean": 5, "groups": 1})
    one, same = trace_of(scenario(traffic)), trace_of(scenario(traffic))
    other = trace_of(scenario(traffic, seed=2))
    assert len(one) == 15
    assert one.sessions == 3
    assert (one.input_tokens == same.input_tokens).all()
    assert (one.input_tokens != other.input_tokens).any()
    assert (one.parent[1:5] != NO_REQUEST).all()


def test_a_cut_trace_keeps_whole_chains() -> None:
    traffic = Traffic(synth={"kind": "agent", "sessions": 2, "turns_mean": 4})
    whole = trace_of(scenario(traffic))
    cut = trace_of(scenario(traffic.model_copy(update={"first": 6})))
    assert len(cut) == 6
    assert cut.notes[-1] == "6 of 8 requests"
    for request in range(6):
        assert (cut.block_ids(request) == whole.block_ids(request)).all()
    # A follower whose parent is left out is left out as well.
    rows = np.array([0, 2, 3])
    assert select(whole, rows).parent.tolist()[1] == NO_REQUEST
    assert len(first_requests(whole, 1)) == 1


@pytest.mark.parametrize(
    ("traffic", "sentence"),
    [
        ("{}", "give one of trace, made .* and synth, not none"),
        ("{trace: a.jsonl, synth: {}}", "not trace and synth"),
        ("{synth: {sesions: 3}}", "unknown parameter 'sesions': did you mean 'sessions'"),
        ("{synth: {kind: agents}}", "unknown kind 'agents': did you mean 'agent'"),
        ("{synth: {sessions: x}}", "synth: "),
        ("{made: {input_tokens: 5, output_tokens: 1, requests: 1}}", "rate_per_s .* or concurr"),
    ],
)
def test_faults(tmp_path: Path, traffic: str, sentence: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nmodel: v4-flash\nchip: h200\ntraffic: {traffic}\n")
    with pytest.raises(FileFormatError, match=sentence):
        load_scenario(path)


@pytest.mark.parametrize("rate_scale", [1.0, 1e-9])
def test_requests_that_come_too_late_to_be_counted(rate_scale: float) -> None:
    rate = 1e-9 / rate_scale
    made = FixedShape(input_tokens=100, output_tokens=2, requests=30, rate_per_s=rate)
    asked = scenario(Traffic(made=made, rate_scale=rate_scale))
    with pytest.raises(InputError, match=r"the last of 30 requests comes after .* s, expected at"):
        run_scenario(asked.model_copy(update={"parallel": Parallel(tp=8)}))
