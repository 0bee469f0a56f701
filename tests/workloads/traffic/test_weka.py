"""Weka sessions with ids written out: chains, sub-agents, private ids, one document or lines."""

import json

import pytest

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import notes_with, write_rows
from workloads.traffic.readers import read_trace
from workloads.traffic.trace import SESSION_STRIDE


def request(t, tokens, first=1, **more):
    ids = list(range(first, first + tokens // 64))
    return {"type": "n", "t": t, "in": tokens, "out": 7, "hash_ids": ids, "api_time": 2.0, **more}


def session(name="s1", **more):
    agent = {
        "type": "subagent",
        "t": 20.0,
        "agent_id": "agent_001",
        "requests": [
            request(25.0, 640, first=500, think_time=0.0),
            request(30.0, 700, first=500, think_time=3.0),
        ],
    }
    requests = [
        request(0.0, 200, think_time=0.0),
        request(10.0, 300, think_time=8.0),
        agent,
        request(60.0, 400, think_time=None),
    ]
    return {
        "id": name, "block_size": 64, "hash_id_scope": "local", "tool_tokens": 10,
        "requests": requests, **more,
    }  # fmt: skip


def test_chains_and_waits(tmp_path):
    trace = read_trace(write_rows(tmp_path / "t.jsonl", [session("a"), session("b")]))
    assert trace.block_tokens == 64
    assert trace.session.tolist() == [0] * 5 + [1] * 5
    assert trace.parent.tolist() == [-1, 0, 1, 2, 1, -1, 5, 6, 7, 6]
    assert trace.arrival_ns.tolist()[:5] == [0, -1, -1, -1, -1]
    # The sub-agent starts 25 - 10 - 2 s after the reply that called it; the last main wait is not
    # recorded: 60 - 10 - 2 s.
    assert (trace.delay_ns[:5] / 1e9).tolist() == [0, 8, 13, 3, 48]
    assert notes_with(trace, "2 waits not recorded")
    assert notes_with(trace, "2 sub-agents")
    assert trace.block_ids(0).tolist() == [1, 2, 3]
    assert trace.block_ids(5).tolist() == [SESSION_STRIDE + i for i in (1, 2, 3)]
    assert trace.runs(2).tolist() == [[500, 10]]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_that_is_one_session(tmp_path, indent):
    path = tmp_path / "trace_0001.json"
    path.write_text(json.dumps(session(), indent=indent))
    assert len(read_trace(path)) == 5


def test_unsorted_and_missing_starts(tmp_path):
    data = session()
    data["requests"] = [request(9.0, 300), request(4.0, 200), request(None, 400)]
    path = write_rows(tmp_path / "t.jsonl", [data])
    trace = read_trace(path)
    assert trace.input_tokens.tolist() == [200, 400, 300]
    assert notes_with(trace, "3 requests out of order of time")
    assert notes_with(trace, "1 request without a time")
    with pytest.raises(InputError, match="strict"):
        read_trace(path, strict=True)


def broken(**more):
    data = session("b")
    data["requests"][1] = {**data["requests"][1], **more}
    return [session("a"), data]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (broken(hash_ids=[1, 2]), r":2: 2 block ids for 300 tokens, expected 4 or 5"),
        (broken(hash_ids=[1, 2, 3, "4"]), r":2: block id '4' is str"),
        (broken(hash_ids=[1, 2, 3, 1 << 41]), r":2: a private id outside 0 to"),
        (broken(type="x"), r":2: 'type' is 'x', expected 'n', 's' or 'subagent'"),
        (broken(t="now"), r":2: 't' is 'now'"),
        ([session("a"), session("a")], r":2: session 'a' a second time"),
        ([session("a"), session("b", block_size=16)], r":2: 'block_size' is 16, expected 64"),
        ([session("a"), session("b", hash_id_scope="global")], "expected one scope"),
        ([session("a", hash_id_scope="all")], "expected 'local' or 'global'"),
        ([session("a", requests=5)], "'requests' is 5, expected a list"),
        ([session("a", requests=[])], "no request in it"),
    ],
)
def test_bad_sessions_are_refused_with_their_line(tmp_path, rows, words):
    with pytest.raises(InputError, match=words):
        read_trace(write_rows(tmp_path / "t.jsonl", rows))


def test_a_truncated_document_is_refused(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(session(), indent=1)[:-40])
    with pytest.raises(InputError, match="truncated or damaged JSON"):
        read_trace(path, "weka")


def test_a_folder_of_sessions(tmp_path):
    for number in (2, 1, 3):
        text = json.dumps(session(f"s{number}", block_size=64), indent=1)
        (tmp_path / f"trace_{number:04d}.json").write_text(text)
    trace = read_trace(tmp_path)
    assert (len(trace), trace.sessions) == (15, 3)
    (tmp_path / "trace_0002.json").write_text(text[:-30])
    with pytest.raises(InputError, match=r"trace_0002\.json: truncated or damaged JSON"):
        read_trace(tmp_path)
    (tmp_path / "trace_0002.json").write_text(json.dumps(broken(hash_ids=[1])[1]))
    with pytest.raises(InputError, match=r"trace_0002\.json: 1 block ids for 300 tokens"):
        read_trace(tmp_path)


def test_a_folder_without_sessions(tmp_path):
    with pytest.raises(InputError, match=r"the folder holds no \.json file"):
        read_trace(tmp_path)
