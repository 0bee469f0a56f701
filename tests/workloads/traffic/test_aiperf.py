"""aiperf deltas: contexts that grow by input and reply, ids of the first row only shared."""

import pytest

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import needs_traces, notes_with, real, write_rows
from workloads.traffic.readers import read_trace
from workloads.traffic.trace import SESSION_STRIDE


def first(name, tokens, ids, block=512, **more):
    assert len(ids) == -(-tokens // block)
    row = {"session_id": name, "input_length": tokens, "output_length": 100, "hash_ids": ids}
    return {**row, "timestamp": 0.0, "group_id": 1, **more}


def later(name, tokens, ids, delay=1500.5):
    row = {"session_id": name, "input_length": tokens, "output_length": 60, "hash_ids": ids}
    return {**row, "delay": delay} if delay is not None else row


ROWS = [
    first("a", 1100, [0, 1, 90]),
    later("a", 400, [91]),
    later("a", 700, [92, 93]),
    first("b", 1300, [0, 1, 94]),
]


def test_contexts_of_the_sample(tmp_path):
    trace = read_trace(write_rows(tmp_path / "t.jsonl", ROWS))
    # 1,100; + 100 reply + 400; + 60 reply + 700.
    assert trace.input_tokens.tolist() == [1100, 1600, 2360, 1300]
    assert trace.parent.tolist() == [-1, 0, 1, -1]
    assert trace.arrival_ns.tolist() == [0, -1, -1, 0]
    assert trace.delay_ns.tolist() == [0, 1_500_500_000, 1_500_500_000, 0]
    ids = [trace.block_ids(i).tolist() for i in range(4)]
    assert ids[0] == [0, 1, 90]
    assert ids[3] == [0, 1, 94]
    own = SESSION_STRIDE
    assert ids[1][:3] == [0, 1, own + 2]  # 1,536 of 1,600 tokens in whole blocks
    assert ids[2][:4] == [0, 1, own + 2, own + 3]
    assert len(ids[1]) == 4
    assert len(ids[2]) == 5
    assert len({ids[0][-1], ids[1][-1], ids[2][-1]}) == 3  # partial blocks are never shared


@needs_traces
def test_real_trace():
    trace = read_trace(real("agentic_aiperf_synth_63s.jsonl"))
    assert (len(trace), trace.sessions, trace.block_tokens) == (783, 63, 512)
    # First session, by hand: 42,773 + 335 + 1,855; then 1,345 + 1,845.
    assert trace.input_tokens[:3].tolist() == [42_773, 44_963, 48_153]
    common = set(range(63))  # all sessions begin with the same 63 blocks
    starts = [i for i in range(783) if trace.parent[i] < 0]
    assert all(set(trace.block_ids(i)[:63].tolist()) == common for i in starts)


def test_deltas_read_as_whole_prompts_and_the_reverse_are_noticed(tmp_path):
    deltas = write_rows(tmp_path / "d.jsonl", ROWS)
    assert notes_with(read_trace(deltas, "mooncake"), "2 rows whose ids do not begin as those")
    whole = [first("a", 1100, [0, 1, 90]), later("a", 1600, [0, 1, 91, 92])]
    path = write_rows(tmp_path / "w.jsonl", whole)
    trace = read_trace(path)
    assert trace.notes[0] == "read as mooncake"
    assert not notes_with(trace, "do not begin")
    assert trace.delay_ns.tolist() == [0, 1_500_500_000]
    assert notes_with(read_trace(path, "aiperf"), "1 row whose ids begin as those of the session")


def test_blocks_of_another_size_are_found(tmp_path):
    rows = [first("a", 200, [1, 2, 3, 4], 64), later("a", 65, [5, 6])]
    trace = read_trace(write_rows(tmp_path / "t.jsonl", rows))
    assert trace.block_tokens == 64
    assert notes_with(trace, "blocks of 64 tokens, found from ids and lengths")


def test_a_missing_delay_is_counted(tmp_path):
    path = write_rows(tmp_path / "t.jsonl", [*ROWS, later("b", 5, [99], None)])
    assert notes_with(read_trace(path), "1 request without a delay, set to 0")
    with pytest.raises(InputError, match="strict"):
        read_trace(path, strict=True)


def test_repeated_ids_of_later_turns_are_counted(tmp_path):
    path = write_rows(tmp_path / "t.jsonl", [*ROWS, later("b", 5, [91])])
    assert notes_with(read_trace(path), "1 id of later turns given more than once")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (later("a", 700, [95]), r":5: 1 ids for 700 tokens in blocks of 512: this leaves out"),
        (later("a", 700, [95, "x"]), r":5: 'hash_ids' are expected"),
        (later("a", 700, [95, -1]), r":5: 'hash_ids' are expected"),
        ({"input_length": 1, "output_length": 1, "delay": 1}, r":5: 'session_id' is missing"),
        (later("a", 700, [95, 96], "soon"), r":5: 'delay' is 'soon'"),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path, row, words):
    with pytest.raises(InputError, match=words):
        read_trace(write_rows(tmp_path / "t.jsonl", [*ROWS, row]))
