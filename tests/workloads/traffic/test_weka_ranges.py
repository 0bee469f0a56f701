"""Weka sessions with ids as ranges: the real first five, a made-up one, and what is refused."""

import gzip
import json

import numpy as np
import pytest

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import needs_traces, notes_with, real, write_rows
from workloads.traffic.readers import read_trace
from workloads.traffic.trace import SESSION_STRIDE


def request(t, tokens, ranges, **more):
    fields = {"t": t, "k": "main", "a": "", "in": tokens, "out": 9, "api": 1.5, "think": 4.0}
    return {**fields, "h": ranges, **more}


def session(name="s1", **more):
    requests = [
        request(0.0, 200, [[1, 3]]),
        request(6.0, 330, [[1, 2], [4, 6]]),
        request(9.0, 130, [[70, 71]], k="sub", a="agent_001", think=0.0),
    ]
    return {"id": name, "block_size": 64, "scope": "local", "n": 3, "reqs": requests, **more}


@needs_traces
def test_real_sessions_hold_the_ids_that_the_file_spells_out():
    path = real("agentic_weka_first5.ranges.jsonl")
    trace = read_trace(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    requests = [(number, r) for number, row in enumerate(rows) for r in row["reqs"]]
    assert len(trace) == len(requests) == 744
    assert trace.sessions == 5
    for i in (0, 50, 300, 743):
        number, r = requests[i]
        ids = np.concatenate([np.arange(a, b + 1) for a, b in r["h"]]) + number * SESSION_STRIDE
        assert np.array_equal(trace.block_ids(i), ids)
    assert trace.input_tokens.sum() == sum(r["in"] for _, r in requests)
    assert (trace.arrival_ns >= 0).sum() == 5


def test_sample(tmp_path):
    trace = read_trace(write_rows(tmp_path / "t.jsonl", [session("a"), session("b", start=2.5)]))
    assert trace.parent.tolist() == [-1, 0, 1, -1, 3, 4]
    assert trace.arrival_ns.tolist() == [0, -1, -1, 2_500_000_000, -1, -1]
    assert (trace.delay_ns[:3] / 1e9).tolist() == [0, 4, 1.5]
    assert trace.block_ids(1).tolist() == [1, 2, 4, 5, 6]
    assert trace.block_ids(4).tolist() == [SESSION_STRIDE + i for i in (1, 2, 4, 5, 6)]
    assert notes_with(trace, "a partial last block has no id")


def test_global_ids_are_shared(tmp_path):
    rows = [session("a", scope="global"), session("b", scope="global")]
    trace = read_trace(write_rows(tmp_path / "t.jsonl", rows))
    assert trace.block_ids(0).tolist() == trace.block_ids(3).tolist() == [1, 2, 3]


def test_gzip_and_its_damage(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    whole = gzip.compress("".join(json.dumps(session(str(i))) + "\n" for i in range(200)).encode())
    path.write_bytes(whole)
    assert len(read_trace(path)) == 600
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="gzip data end early or are damaged"):
        read_trace(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 4}, r":2: 3 requests where 'n' says 4"),
        ({"reqs": [request(0, 200, [[3, 1]])], "n": 1}, r":2: id range \[3, 1\]"),
        ({"reqs": [request(0, 200, [[1]])], "n": 1}, r":2: id range \[1\], expected"),
        ({"reqs": [request(0, 200, [1, 3])], "n": 1}, r":2: id range 1, expected"),
        ({"reqs": [request(0, 200, [["a", 3]])], "n": 1}, r":2: id range \['a', 3\]"),
        ({"reqs": [request(0, 200, [[1, 1 << 41]])], "n": 1}, r":2: id range .*, expected"),
        ({"reqs": [request(0, 200, [[1, 1 << 80]])], "n": 1}, "too large"),
        ({"reqs": [request(0, 200, [[1, 9]])], "n": 1}, r":2: 9 block ids for 200 tokens"),
        ({"reqs": [request(0, 200, [[1, 3]], k="other")], "n": 1}, "expected 'main' or 'sub'"),
        ({"reqs": [7], "n": 1}, r":2: a request is 7"),
        ({"reqs": None}, r":2: no list 'reqs'"),
    ],
)
def test_bad_sessions_are_refused_with_their_line(tmp_path, change, words):
    rows = [session("a"), session("b", **change)]
    with pytest.raises(InputError, match=words):
        read_trace(write_rows(tmp_path / "t.jsonl", rows))
