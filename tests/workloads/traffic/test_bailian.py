"""Qwen-Bailian chats: sessions by parent, global ids of 16 tokens."""

import pytest

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import notes_with, write_rows
from workloads.traffic.readers import read_trace


def chat(number, parent, timestamp, tokens, ids, **more):
    row = {"chat_id": number, "parent_chat_id": parent, "timestamp": timestamp}
    lengths = {"input_length": tokens, "output_length": 4, "type": "text", "turn": 1}
    return {**row, **lengths, "hash_ids": ids, **more}


ROWS = [
    chat(159, -1, 61.114, 33, [1089, 1090, 1091]),
    chat(7, -1, 61.5, 16, [1089]),
    chat(160, 159, 62.5, 40, [1089, 1090, 5]),
    chat(161, 3, 63.0, 10, [8]),
]


def test_sample(tmp_path):
    trace = read_trace(write_rows(tmp_path / "t.jsonl", ROWS))
    assert trace.block_tokens == 16
    assert trace.arrival_ns.tolist() == [61_114_000_000, 61_500_000_000, 62_500_000_000, 63 * 10**9]
    assert trace.session.tolist() == [0, 1, 0, 2]
    assert trace.parent.tolist() == [-1, -1, 0, -1]
    assert trace.runs(2).tolist() == [[1089, 2], [5, 1]]
    assert notes_with(trace, "1 chat whose parent is not before it")


def test_hashes_of_64_bits_are_numbered_anew(tmp_path):
    big = (1 << 64) - 1
    rows = [chat(1, -1, 0, 32, [big, -4]), chat(2, -1, 1, 32, [big, 9]), chat(3, -1, 2, 16, [-4])]
    trace = read_trace(write_rows(tmp_path / "t.jsonl", rows))
    ids = [trace.block_ids(i).tolist() for i in range(3)]
    assert ids[0][0] == ids[1][0]
    assert ids[0][1] == ids[2][0]
    assert ids[1][1] == 9
    assert len({ids[0][0], ids[0][1], 9}) == 3
    assert notes_with(trace, "2 ids too large or negative")


def test_a_chat_id_given_twice_is_counted(tmp_path):
    path = write_rows(tmp_path / "t.jsonl", [ROWS[0], ROWS[0]])
    assert notes_with(read_trace(path), "1 chat_id given a second time")
    with pytest.raises(InputError, match="strict"):
        read_trace(path, strict=True)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (chat(None, -1, 70, 16, [1]), r":5: 'chat_id' is missing"),
        (chat("a", -1, 70, 16, [1]), r":5: 'chat_id' is 'a'"),
        (chat(9, -1, 70, 16, [1, 2]), r":5: 2 block ids for 16 tokens, expected 1"),
        (chat(9, -1, 1e30, 16, [1]), r":5: 'timestamp' is 1e\+30"),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path, row, words):
    with pytest.raises(InputError, match=words):
        read_trace(write_rows(tmp_path / "t.jsonl", [*ROWS, row]))


def test_a_chat_that_arrives_before_its_parent_is_unlinked(tmp_path):
    rows = [chat(1, -1, 9.0, 16, [1]), chat(2, 1, 8.0, 16, [2]), chat(3, 2, 9.5, 16, [3])]
    trace = read_trace(write_rows(tmp_path / "t.jsonl", rows))
    assert trace.input_tokens.tolist() == [16, 16, 16]
    assert trace.parent.tolist() == [-1, -1, 0]
    assert notes_with(trace, "1 request arriving before the one they follow")
