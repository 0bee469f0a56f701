"""Synthetic traces: the means asked for, same seed same bytes, both formats, what is refused."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import hit_tokens, notes_with
from workloads.traffic.readers import read_trace
from workloads.traffic.summary import distinct_ids, longest_inputs, trace_summary
from workloads.traffic.synth import synth_sessions
from workloads.traffic.synth_files import write_synth
from workloads.traffic.synth_spec import KINDS, SynthSpec, synth_spec
from workloads.traffic.trace import Trace

AGENTS = {"sessions": 30, "requests": 900, "input_mean": 60_000.0, "last_input_mean": 90_000.0}


def written(path, format="weka-ranges", kind="agent", **given):
    write_synth(path, synth_spec(kind, **given), format)
    return read_trace(path, strict=True)


def test_the_large_agent_trace(tmp_path):
    """710 sessions, 49,334 requests, 122 K tokens mean, contexts that grow to 183 K."""
    trace = written(
        tmp_path / "t.jsonl", sessions=710, requests=49_334, input_mean=122_000.0,
        last_input_mean=183_000.0, subagent_share=0.05, rewrite_share=0.05,
    )  # fmt: skip
    assert (len(trace), trace.sessions) == (49_334, 710)
    assert trace.input_tokens.mean() == pytest.approx(122_000, rel=1e-3)
    assert longest_inputs(trace).mean() == pytest.approx(183_000, rel=2e-3)
    assert trace.block_tokens == 64
    assert notes_with(trace, "sub-agents")


@pytest.mark.parametrize("format", ["weka-ranges", "aiperf"])
def test_means_of_a_small_trace(tmp_path, format):
    trace = written(tmp_path / "t.jsonl", format, **AGENTS)
    assert (len(trace), trace.sessions) == (900, 30)
    assert trace.input_tokens.mean() == pytest.approx(60_000, rel=1e-3)
    assert longest_inputs(trace).mean() == pytest.approx(90_000, rel=1e-3)
    assert trace.output_tokens.mean() == pytest.approx(400, rel=0.15)
    waits = trace.delay_ns[trace.parent >= 0] / 1e9
    assert waits.mean() == pytest.approx(12, rel=0.3)


def test_both_formats_hold_the_same_lengths_and_hits(tmp_path):
    """Contexts agree; hits do up to the shared system prompt, which only groups share."""
    weka = written(tmp_path / "a.jsonl", "weka-ranges", **AGENTS, groups=3)
    deltas = written(tmp_path / "b.jsonl", "aiperf", **AGENTS, groups=3)
    assert np.array_equal(weka.input_tokens, deltas.input_tokens)
    assert np.array_equal(weka.output_tokens, deltas.output_tokens)
    assert np.array_equal(weka.delay_ns, deltas.delay_ns)
    assert hit_tokens(weka) == hit_tokens(deltas) > 0.8 * weka.input_tokens.sum()


@pytest.mark.parametrize("format", ["weka-ranges", "aiperf"])
@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bytes(tmp_path, format, kind):
    paths = [tmp_path / f"{i}.jsonl" for i in range(3)]
    for path, seed in zip(paths, (7, 7, 8), strict=True):
        write_synth(path, synth_spec(kind, sessions=20, seed=seed), format)
    first, second, third = (path.read_bytes() for path in paths)
    assert first == second != third


def test_a_compressed_trace_is_the_same(tmp_path):
    for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl.gz"):
        write_synth(tmp_path / name, synth_spec("chat", sessions=9), "aiperf")
    packed = (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "a.jsonl").read_bytes()
    assert packed == (tmp_path / "c.jsonl.gz").read_bytes()


@pytest.mark.parametrize(("arrival", "cv"), [("poisson", 1.0), ("gamma", 3.0), ("weibull", 0.4)])
@pytest.mark.parametrize("format", ["weka-ranges", "aiperf"])
def test_arrivals_of_sessions(tmp_path, format, arrival, cv):
    trace = written(
        tmp_path / "t.jsonl", format, "single", sessions=4000, rate_per_s=5.0,
        arrival=arrival, arrival_cv=cv,
    )  # fmt: skip
    gaps = np.diff(trace.arrival_ns) / 1e9
    assert gaps.mean() == pytest.approx(0.2, rel=0.15)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.15)


def test_shared_system_prompts_are_shared_within_groups(tmp_path):
    trace = written(
        tmp_path / "t.jsonl", "weka-ranges", "single", sessions=300, groups=2, system_tokens=640
    )
    starts = {tuple(trace.block_ids(i)[:10].tolist()) for i in range(len(trace))}
    assert len(starts) == 2
    assert hit_tokens(trace) == (300 - 2) * 640


def test_subagents_begin_with_the_system_prompt_of_their_session(tmp_path):
    path = tmp_path / "t.jsonl"
    written(path, **AGENTS, subagent_share=0.2, system_tokens=6400)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    subs = [(row, r) for row in rows for r in row["reqs"] if r["k"] == "sub"]
    assert len(subs) == 180
    assert all(r["h"][0][0] == 1 and r["h"][0][1] >= 100 for _, r in subs)
    for row, r in subs:
        main = {i for m in row["reqs"] if m["k"] == "main" for a, b in m["h"]
                for i in range(a, b + 1)}  # fmt: skip
        own = {i for a, b in r["h"] for i in range(a, b + 1)}
        assert own & main == set(range(1, 101))


def test_rewritten_blocks_cut_the_prefix(tmp_path):
    whole = written(tmp_path / "a.jsonl", **AGENTS)
    cut = written(tmp_path / "b.jsonl", **AGENTS, rewrite_share=0.5)
    assert np.array_equal(whole.input_tokens, cut.input_tokens)
    lost = hit_tokens(whole) - hit_tokens(cut)
    assert lost / 64 == pytest.approx(0.5 * 870, rel=0.15)
    assert distinct_ids(cut) - distinct_ids(whole) == lost // 64


@settings(max_examples=25)
@given(
    st.integers(1, 12), st.integers(0, 200), st.integers(0, 5000), st.integers(0, 3),
    st.floats(0, 0.5), st.integers(0, 99),
)  # fmt: skip
def test_contexts_hold_what_came_before(sessions, more, system, groups, share, seed):
    """Law: a turn's input is the one before, its reply and at least one new token."""
    spec = SynthSpec(
        sessions=sessions, turns_mean=1.0, requests=sessions * 3 + more, system_tokens=system,
        groups=groups, subagent_share=share / 2, seed=seed, input_mean=200_000.0,
        rewrite_share=share,
    )  # fmt: skip
    drawn = synth_sessions(spec)
    chains = [c for s in drawn for c in (s.main, *s.subagents)]
    assert sum(len(c.input_tokens) for c in chains) == spec.total
    assert len(drawn) == sessions
    for chain in chains:
        assert (chain.new_tokens >= 1).all()
        assert (chain.output_tokens >= 1).all()
        grown = chain.input_tokens[:-1] + chain.output_tokens[:-1] + chain.new_tokens[1:]
        assert np.array_equal(chain.input_tokens[1:], grown)
        assert chain.input_tokens[0] == chain.new_tokens[0] > system


def test_summary_of_a_hand_made_trace(tmp_path):
    rows = [
        {"timestamp": 0, "input_length": 600, "output_length": 10, "hash_ids": [1, 2]},
        {"timestamp": 4000, "input_length": 1000, "output_length": 30, "hash_ids": [1, 9]},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = trace_summary(read_trace(path))
    assert (found["requests"], found["sessions"], found["span_s"]) == (2, 2, 4.0)
    assert found["input_tokens"]["mean"] == 800
    assert found["input_tokens"]["p50"] == 800
    assert found["output_tokens"]["max"] == 30
    assert (found["block_ids"], found["distinct_block_ids"], found["id_runs"]) == (4, 3, 3)
    assert found["wait_s"] is None


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=20))
def test_distinct_ids_are_counted_once(runs):
    """Law: the union of runs is the set of the ids they hold."""
    first = np.array([a for a, _ in runs], dtype=np.int64)
    count = np.array([n for _, n in runs], dtype=np.int64)
    none = np.empty(0, dtype=np.int64)
    trace = Trace(
        name="t", block_tokens=1, arrival_ns=none, delay_ns=none, input_tokens=none,
        output_tokens=none, session=none, parent=none, run_offsets=np.zeros(1, dtype=np.int64),
        run_first=first, run_count=count,
    )  # fmt: skip
    assert distinct_ids(trace) == len({i for a, n in runs for i in range(a, a + n)})


@pytest.mark.parametrize(
    ("format", "given", "words"),
    [
        ("wekka", {}, "did you mean 'weka-ranges'"),
        ("aiperf", {"subagent_share": 0.1}, "subagent_share is 0.1, expected 0"),
        ("aiperf", {"rewrite_share": 0.1}, "rewrite_share is 0.1, expected 0"),
        ("aiperf", {"sessions": 0}, "sessions is 0, expected 1 to"),
        ("aiperf", {"requests": 50}, "50 main requests for 100 sessions, 50 short of one each"),
        ("aiperf", {"input_mean": 10_000.0}, "expected 8.,... to 1..,..."),
        ("aiperf", {"input_mean": 139_000.0}, "input_mean is 139,000 with last_input_mean 140,000"),
        ("aiperf", {"arrival": "poison"}, "did you mean 'poisson'"),
        ("aiperf", {"turns_cv": 99.0}, "turns_cv is 99.0, expected 0.01 to 30"),
        ("aiperf", {"turns": 5}, "unknown parameter 'turns'"),
        ("aiperf", {"sessions": 10_000_000}, "over the limit of 5,000,000"),
    ],
)
def test_bad_parameters_are_one_sentence(tmp_path, format, given, words):
    path = tmp_path / "t.jsonl"
    with pytest.raises(InputError, match=words):
        written(path, format, **given)
    assert not path.exists()


def test_a_mean_below_the_system_prompt_is_refused():
    with pytest.raises(
        InputError, match=r"input_mean is 500, but .* alone make [89]\d\d; raise it"
    ):
        synth_sessions(synth_spec("single", input_mean=500.0))


def test_an_unknown_kind_names_the_known():
    with pytest.raises(InputError, match="did you mean 'agent'"):
        synth_spec("agnt")
