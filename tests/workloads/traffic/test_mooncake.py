"""Mooncake rows: the published figures of the conversation trace, and repairs that are counted."""

import numpy as np
import pytest

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import hit_tokens, needs_traces, real, write_rows
from workloads.traffic.readers import read_trace


def row(timestamp, input_length, output_length=5, ids=None):
    blocks = -(-input_length // 512)
    return {
        "timestamp": timestamp,
        "input_length": input_length,
        "output_length": output_length,
        "hash_ids": list(range(blocks)) if ids is None else ids,
    }


ROWS = [row(0, 1000), row(3000, 1100, ids=[0, 7, 8]), row(3000, 512, ids=[0]), row(9000, 700)]


@needs_traces
def test_figures_of_the_conversation_trace():
    """Figures of the trace as an independent count gives them (facts, reference figures)."""
    trace = read_trace(real("mooncake_conversation.jsonl.gz"))
    assert len(trace) == 12_031
    assert trace.block_tokens == 512
    assert trace.arrival_ns.max() - trace.arrival_ns.min() == 3_536_999_000_000  # 3,537 s
    assert len(np.unique(trace.arrival_ns)) == 1_180
    assert round(trace.input_tokens.mean()) == 12_035
    assert round(trace.input_tokens.sum() / 1e6, 1) == 144.8
    percentiles = np.percentile(trace.input_tokens, [50, 90, 99, 100]).round().tolist()
    assert percentiles == [6_909, 27_367, 85_400, 126_195]
    assert round(trace.output_tokens.mean()) == 343
    assert np.percentile(trace.output_tokens, [50, 99]).round().tolist() == [350, 1_119]
    assert trace.run_count.sum() == 288_500
    ids = np.concatenate([trace.block_ids(i) for i in range(len(trace))])
    assert len(np.unique(ids)) == 182_790
    assert any("rounded to 3 s (1,180 distinct)" in note for note in trace.notes)


@needs_traces
@pytest.mark.parametrize(
    ("rows", "percent"), [(12_031, 37.36), (1000, 21.6), (2000, 29.4), (5000, 33.9)]
)
def test_ids_of_the_conversation_trace_hit_as_counted_elsewhere(rows, percent):
    """Unlimited cache, in order of the file (facts, reference figures)."""
    trace = read_trace(real("mooncake_conversation.jsonl.gz")).head(rows)
    found = 100 * hit_tokens(trace) / trace.input_tokens.sum()
    assert round(found, 2 if rows == 12_031 else 1) == percent


@needs_traces
def test_spread_of_the_conversation_trace():
    path = real("mooncake_conversation.jsonl.gz")
    plain, spread = read_trace(path), read_trace(path, spread_seed=7)
    moved = spread.arrival_ns - plain.arrival_ns
    assert -3e6 <= moved.min() < moved.max() < 3.003e9  # steps are off by up to 3 ms
    assert moved.mean() == pytest.approx(1.5e9, rel=0.02)
    assert (np.diff(spread.arrival_ns) >= 0).all()
    assert np.array_equal(spread.input_tokens, plain.input_tokens)
    again = read_trace(path, spread_seed=7)
    assert np.array_equal(again.arrival_ns, spread.arrival_ns)
    assert not np.array_equal(read_trace(path, spread_seed=8).arrival_ns, spread.arrival_ns)


def test_sample(tmp_path):
    trace = read_trace(write_rows(tmp_path / "t.jsonl", ROWS))
    assert trace.arrival_ns.tolist() == [0, 3 * 10**9, 3 * 10**9, 9 * 10**9]
    assert trace.input_tokens.tolist() == [1000, 1100, 512, 700]
    assert trace.block_ids(1).tolist() == [0, 7, 8]
    assert trace.runs(1).tolist() == [[0, 1], [7, 2]]
    assert trace.session.tolist() == [0, 1, 2, 3]
    assert trace.parent.tolist() == [-1] * 4


def test_unsorted_and_missing_times_are_counted(tmp_path):
    rows = [row(3000, 600, ids=[4, 5]), row(1000, 500, ids=[6]), row(2000, 512, ids=[7])]
    del rows[2]["timestamp"]
    path = write_rows(tmp_path / "t.jsonl", rows)
    trace = read_trace(path)
    assert trace.arrival_ns.tolist() == [0, 10**9, 3 * 10**9]
    assert [trace.block_ids(i).tolist() for i in range(3)] == [[7], [6], [4, 5]]
    assert f"1 request without a time set to 0, the first at {path}:3" in trace.notes
    assert any(note.startswith("2 requests earlier than a request before") for note in trace.notes)
    with pytest.raises(InputError, match="strict"):
        read_trace(path, strict=True)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row(0, 1000), row(0, 1000, ids=[0])], "one of the two is damaged"),
        ([row(0, 1000), row(0, 1000, ids=[0, 1, 2])], r":2: 3 block ids for 1,000 tokens"),
        ([row(0, 1000), row(0, -5, ids=[0])], r":2: 'input_length' is -5"),
        ([row(0, 1000), row(-1, 5, ids=[0])], r":2: 'timestamp' is -1"),
        ([row(0, 1000, output_length="x")], r":1: 'output_length' is 'x'"),
        ([row(0, 1000, ids=[1, "a"])], r":1: block id 'a' is str"),
        ([row(0, 1000, ids=5)], r":1: 'hash_ids' is 5, expected a list"),
        ([row(0, 1000, output_length=True)], "expected a whole number"),
        ([{"timestamp": 0, "input_length": 5}], "'output_length' is missing"),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path, rows, words):
    with pytest.raises(InputError, match=words):
        read_trace(write_rows(tmp_path / "t.jsonl", rows))
