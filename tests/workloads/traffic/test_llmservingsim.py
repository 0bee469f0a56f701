"""LLMServingSim rows: token ids become blocks, agentic lines become sessions."""

import pytest

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import notes_with, write_rows
from workloads.traffic.readers import read_trace


def flat(arrival, ids, **more):
    row = {"input_toks": len(ids), "output_toks": 3, "arrival_time_ns": arrival}
    return {**row, "input_tok_ids": ids, **more}


def test_flat_token_ids_become_chained_blocks(tmp_path):
    shared = list(range(16))
    rows = [
        flat(0, shared + [7] * 16),
        flat(5, shared + [8] * 20),
        flat(9, [1] * 16 + [7] * 16),
    ]
    trace = read_trace(write_rows(tmp_path / "t.jsonl", rows))
    assert trace.block_tokens == 16
    ids = [trace.block_ids(i).tolist() for i in range(3)]
    assert [len(i) for i in ids] == [2, 2, 2]
    assert ids[0][0] == ids[1][0]
    assert ids[0][1] != ids[2][1]  # the same tokens after another block are another prefix
    assert notes_with(trace, "a partial last block has no id")
    assert notes_with(trace, "token ids cut into 5 distinct blocks")


def test_without_token_ids_the_trace_says_so(tmp_path):
    rows = [{"input_toks": 20, "output_toks": 3, "arrival_time_ns": 4}]
    trace = read_trace(write_rows(tmp_path / "t.jsonl", rows))
    assert trace.block_tokens == 0
    assert notes_with(trace, "no block ids: prefix hits between requests cannot be known")


def test_some_without_token_ids_are_counted(tmp_path):
    rows = [flat(0, [1] * 20), {"input_toks": 20, "output_toks": 3, "arrival_time_ns": 4}]
    path = write_rows(tmp_path / "t.jsonl", rows)
    assert notes_with(read_trace(path), "1 request without block ids")
    with pytest.raises(InputError, match="strict"):
        read_trace(path, strict=True)


def agentic(arrival):
    steps = [
        {"input_toks": 20, "output_toks": 3, "tool_duration_ns": 700},
        {"input_toks": 40, "output_toks": 3},
    ]
    return {"session_id": f"s{arrival}", "arrival_time_ns": arrival, "sub_requests": steps}


def test_agentic_sessions_wait_for_tools_and_are_sorted(tmp_path):
    path = write_rows(tmp_path / "t.jsonl", [agentic(90), agentic(10)])
    trace = read_trace(path)
    assert trace.arrival_ns.tolist() == [10, -1, 90, -1]
    assert trace.delay_ns.tolist() == [0, 700, 0, 700]
    assert trace.parent.tolist() == [-1, 0, -1, 2]
    assert trace.session.tolist() == [0, 0, 1, 1]
    assert notes_with(trace, "2 requests earlier")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (flat(0, [1, 2], input_toks=3), r":1: 2 token ids for 3 input_toks"),
        (flat(0, [1, "b"]), r":1: 'input_tok_ids' are expected to be whole numbers"),
        (flat(-1, [1]), r":1: 'arrival_time_ns' is -1"),
        ({"arrival_time_ns": 0, "sub_requests": [3]}, r":1: a sub-request is 3"),
        ({"arrival_time_ns": 0, "sub_requests": [{"input_toks": 1}]}, "'output_toks' is missing"),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path, row, words):
    with pytest.raises(InputError, match=words):
        read_trace(write_rows(tmp_path / "t.jsonl", [row]))
