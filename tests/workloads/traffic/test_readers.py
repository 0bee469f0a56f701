"""Options of every reader: limits, drops, slowdown, excerpts of bad files, unknown names."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import notes_with, write_rows
from workloads.traffic.arrival_steps import spread_arrivals
from workloads.traffic.draft import IdRuns
from workloads.traffic.readers import READERS, read_trace, trace_assumptions
from workloads.traffic.trace import expand_runs


def rows(*lengths, **more):
    return [
        {"timestamp": 1000 * i, "input_length": n, "output_length": 4, **more}
        | {"hash_ids": list(range(100 * i, 100 * i + -(-n // 512)))}
        for i, n in enumerate(lengths)
    ]


@pytest.fixture
def path(tmp_path):
    return write_rows(tmp_path / "t.jsonl", rows(1000, 9000, 600))


def test_input_over_the_limit_is_refused_or_dropped(path):
    with pytest.raises(InputError, match=r":2: input of 9,000 tokens, 4,904 over the limit"):
        read_trace(path, max_input_tokens=4096)
    trace = read_trace(path, max_input_tokens=4096, over_limit="drop")
    assert trace.input_tokens.tolist() == [1000, 600]
    assert trace.block_ids(1).tolist() == [200, 201]
    assert notes_with(trace, "dropped 1 request over 4,096 tokens")


def test_requests_without_input_are_dropped(tmp_path):
    path = write_rows(tmp_path / "t.jsonl", rows(1000, 0, 600))
    trace = read_trace(path)
    assert len(trace) == 2
    assert notes_with(trace, "dropped 1 request without input tokens")
    with pytest.raises(InputError, match="strict"):
        read_trace(path, strict=True)


def test_a_dropped_parent_hands_its_children_on(tmp_path):
    def row(name, tokens, **more):
        ids = [0] if tokens else []
        lengths = {"input_length": tokens, "output_length": 1, "hash_ids": ids}
        return {"session_id": name, **lengths, **more}

    path = write_rows(
        tmp_path / "t.jsonl",
        [
            row("a", 0, timestamp=7),
            row("a", 5, delay=3),
            row("a", 0, delay=4),
            row("a", 5, delay=6),
        ],
    )
    trace = read_trace(path, "mooncake")
    assert trace.parent.tolist() == [-1, 0]
    assert trace.arrival_ns.tolist() == [7_000_000, -1]
    assert trace.delay_ns.tolist() == [0, 6_000_000]


def test_slowdown_and_longest_wait(tmp_path):
    steps = [{"input_toks": 20, "output_toks": 3, "tool_duration_ns": 5 * 10**9}] * 2
    row = {"session_id": "s", "arrival_time_ns": 10, "sub_requests": steps}
    path = write_rows(tmp_path / "t.jsonl", [row])
    trace = read_trace(path, slowdown=2.5, max_delay_s=2.0)
    assert trace.arrival_ns.tolist() == [25, -1]
    assert trace.delay_ns.tolist() == [0, 5 * 10**9]
    assert notes_with(trace, "1 wait cut to 2 s, the longest from 5.0 s")
    assert notes_with(trace, "all times multiplied by 2.5")


def test_block_size_of_the_user_wins(path):
    with pytest.raises(InputError, match=r":1: 2 block ids for 1,000 tokens, expected 15 or 16 in"):
        read_trace(path, block_tokens=64)


@pytest.mark.parametrize("cut", [10, 40, 70])
def test_a_truncated_line_is_refused_with_its_number(tmp_path, cut):
    text = "".join(json.dumps(row) + "\n" for row in rows(1000, 600, 700))
    path = tmp_path / "t.jsonl"
    path.write_text(text[:-cut])
    with pytest.raises(InputError, match=r":3: truncated or damaged JSON .*the file ends there"):
        read_trace(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the trace is empty"),
        (b"\n \n", "the trace is empty"),
        (b"hello", "of no known trace format"),
        (b'{"a": 1}\n', "of no known trace format"),
        (b"[1, 2]\n", "of no known trace format"),
        (b'{"input_length": 5, "output_length": 1, "timestamp": 0}\n[1]\n', r":2: a JSON list"),
        (b"\x1f\x8b\x08\x00broken", "gzip data end early or are damaged"),
        (b'{"input_length": 5,\xff "output_length"', r":1: truncated or damaged JSON"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path, content, words):
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as error:
        read_trace(path)
    assert "\n" not in error.value.message


def test_a_file_that_cannot_be_opened(tmp_path):
    with pytest.raises(InputError, match="cannot read trace"):
        read_trace(tmp_path / "none.jsonl")


def test_head_is_an_excerpt_that_says_so(path):
    trace = read_trace(path).head(2)
    assert trace.input_tokens.tolist() == [1000, 9000]
    assert trace.block_ids(1).tolist() == list(range(100, 118))
    assert len(trace.run_first) == 2
    assert trace.notes[-1] == "only the first 2 of 3 requests"
    assert len(read_trace(path).head(9)) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "moncake"}, "did you mean 'mooncake'"),
        ({"over_limit": "dorp"}, "did you mean 'drop'"),
        ({"zero_output": "keepp"}, "did you mean 'keep'"),
        ({"max_input_tokens": 0}, "max_input_tokens is 0, expected at least 1"),
        ({"block_tokens": -1}, "block_tokens is -1, expected at least 1"),
        ({"slowdown": 0.0}, "slowdown is 0"),
        ({"slowdown": float("nan")}, "slowdown is nan"),
        ({"spread_seed": -1}, "spread_seed is -1"),
        ({"max_delay_s": -1.0}, "max_delay_s is -1"),
        ({"duration_s": 0.0}, "duration_s is 0"),
    ],
)
def test_bad_options_are_one_sentence(path, options, words):
    with pytest.raises(InputError, match=words):
        read_trace(path, **options)


def test_assumptions_are_those_of_the_format(tmp_path, path):
    assert trace_assumptions(read_trace(path)) == ()
    spread = trace_assumptions(read_trace(path, spread_seed=1))
    assert len(spread) == 1
    assert spread[0].startswith("a rounded arrival time stands for")
    row = {"id": "a", "reqs": [{"t": 0, "in": 64, "out": 1, "h": [[1, 1]]}]}
    weka = read_trace(write_rows(tmp_path / "w.jsonl", [row]))
    assert weka.format == "weka-ranges"
    assert trace_assumptions(weka)[0].startswith("a request waits for the reply before it")


def test_every_format_says_what_it_is():
    assert all(reader.about for reader in READERS.values())
    assert len(READERS) == 17


@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=12), st.integers(1, 30))
def test_runs_hold_the_ids_they_were_made_of(lists, pending):
    """Law: packing and expanding gives back every list, whatever the batches."""
    collector = IdRuns(str)
    for place, ids in enumerate(lists):
        collector.add_list(ids, offset=1000 * place, private=True)
        if place % pending == 0:
            collector._flush()
    offsets, first, count = collector.finish()
    for place, ids in enumerate(lists):
        span = slice(offsets[place], offsets[place + 1])
        runs = np.stack([first[span], count[span]], axis=1)
        assert expand_runs(runs).tolist() == [1000 * place + i for i in ids]
    assert (count >= 1).all()


@given(st.lists(st.integers(0, 50), min_size=3, max_size=40), st.integers(0, 5))
def test_a_spread_stays_within_its_step_and_in_order(steps, seed):
    """Law: sorted arrivals stay sorted, and move by less than a step."""
    before = np.sort(np.array(steps, dtype=np.int64)) * 3 * 10**9
    after = before.copy()
    notes = []
    spread_arrivals(after, seed, notes)
    assert (np.diff(after) >= 0).all()
    assert len(notes) == 1
    if len(np.unique(before)) >= 3:
        step = float(notes[0].split("rounded to ")[1].split(" s")[0]) * 1e9
        assert ((after - before >= 0) & (after - before < step)).all()
