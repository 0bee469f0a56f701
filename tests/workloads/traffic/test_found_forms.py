"""Forms of files that users have: each gives what it holds, or is refused with what it lacks."""

import json

import pytest

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import notes_with, write_rows
from workloads.traffic.readers import read_trace
from workloads.traffic.summary import trace_summary

HASHED = [
    {"request_id": n, "type": "text", "input_length": 272, "img_ids": []}
    | {"hash_ids": [*range(10), *range(100 + 7 * n, 107 + 7 * n)]}
    for n in range(4)
]
TIMED = [
    {"request_id": n, "type": "text", "input_length": 60 + n, "output_length": 2000 + n}
    | {"duration": 12000 + 50 * n}
    for n in range(4)
]
REPLAY = (
    "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"
    "0,100,0,0,2000,200,300\n0,100,1,2200,350,130,150\n1,900,0,0,1500,100,0\n"
)


def profiled(number, start_ns, **about):
    """A record of a load generator."""
    return {
        "metadata": {"session_num": number, "turn_index": 0, "request_start_ns": start_ns}
        | {"request_end_ns": start_ns + 1, "benchmark_phase": "profiling", "was_cancelled": False}
        | about,
        "metrics": {
            "input_sequence_length": {"value": 550, "unit": "tokens"},
            "output_sequence_length": {"value": 100, "unit": "tokens"},
        },
    }


EXPORT = [profiled(0, 0), profiled(1, 10**9)]
CHATS = [
    {"id": "a", "conversations": [
        {"from": "human", "value": "Name a colour."}, {"from": "gpt", "value": "Blue."},
        {"from": "human", "value": " And another?"}, {"from": "gpt", "value": "Red."},
    ]},
]  # fmt: skip
BATCH = [
    {"custom_id": f"r{n}", "method": "POST", "url": "/v1/chat/completions"}
    | {"body": {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 99}}
    for n in range(2)
]
CUSTOM = [{"prompt": "Count to ten.", "output_tokens": 64}] * 2


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


FOUND = {
    "servegen-offline": lines(HASHED),
    "tracelab-replay": REPLAY,
    "aiperf-export": lines(EXPORT),
    "sharegpt": json.dumps(CHATS),
    "openai-batch": lines(BATCH),
    "custom": lines(CUSTOM),
}


def written(folder, text):
    path = folder / "trace"
    path.write_text(text)
    return path


def test_offline_requests_with_ids(tmp_path):
    trace = read_trace(write_rows(tmp_path / "t", HASHED))
    assert (trace.format, trace.block_tokens) == ("servegen-offline", 16)
    assert trace.arrival_ns.tolist() == trace.output_tokens.tolist() == [0] * 4
    assert trace_summary(trace)["shared_block_ids"] == 10
    assert notes_with(trace, "4 requests without an output length, taken as 0")
    assert notes_with(trace, "no request has an arrival")
    pictured = [row | {"img_ids": [1, 2], "type": "image"} for row in HASHED[:1]] + HASHED[1:]
    trace = read_trace(write_rows(tmp_path / "u", pictured))
    assert notes_with(trace, "2 images in 1 of 4 requests, dropped")
    assert notes_with(trace, "1 image, 3 text")


def test_offline_requests_with_durations(tmp_path):
    trace = read_trace(write_rows(tmp_path / "t", TIMED))
    assert trace.format == "servegen-offline"
    assert trace.output_tokens.tolist() == [2000, 2001, 2002, 2003]
    assert notes_with(trace, "durations of 12 to 12.15 s are not used")


def test_replay_rows(tmp_path):
    trace = read_trace(written(tmp_path, REPLAY))
    assert trace.input_tokens.tolist() == [2000, 2550, 1500]
    assert trace.observed_cached_tokens.tolist() == [0, 2200, 0]
    assert trace.session.tolist() == [0, 0, 1]
    assert trace.parent.tolist() == [-1, 0, -1]
    assert trace.arrival_ns.tolist() == [100_000_000, -1, 900_000_000]
    assert trace.delay_ns.tolist() == [0, 300_000_000, 0]
    assert notes_with(trace, "tool wait: 1 round, 0.3 s")
    assert notes_with(trace, "which delay nothing: 1, 0.15 s")
    mixed = REPLAY.splitlines()
    mixed = "\n".join([mixed[0], mixed[2], mixed[3], mixed[1]])
    again = read_trace(written(tmp_path, mixed))
    assert again.input_tokens.tolist() == [2000, 2550, 1500]
    assert notes_with(again, "out of order of session and round_idx")


def test_records_of_a_load_generator(tmp_path):
    rows = [*EXPORT, profiled(2, 5, was_cancelled=True), profiled(3, 6, benchmark_phase="warmup")]
    trace = read_trace(write_rows(tmp_path / "t", rows))
    assert trace.arrival_ns.tolist() == [0, 10**9]
    assert trace.input_tokens.tolist() == [550, 550]
    assert trace.output_tokens.tolist() == [100, 100]
    assert notes_with(trace, "dropped 1 request that were cancelled")
    assert notes_with(trace, "dropped 1 request that were warmup")
    clock = [profiled(n, 1_790_000_000 * 10**9 + n * 10**9) for n in range(2)]
    assert read_trace(write_rows(tmp_path / "u", clock)).arrival_ns.tolist() == [0, 10**9]


def test_an_export_without_lengths_says_what_it_lacks(tmp_path):
    text = json.dumps({"experiments": [{"requests": [{"timestamp": 1, "request_inputs": {}}]}]})
    with pytest.raises(InputError, match="no lengths in tokens"):
        read_trace(written(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sharegpt", "2 requests with 2 distinct prompts"),
        ("openai-batch", "max_tokens 99, which is a limit and not a length"),
        ("custom", r"2 requests with 1 distinct prompt \(custom\), outputs of 64 tokens"),
    ],
)
def test_text_has_no_length(tmp_path, name, said):
    with pytest.raises(InputError, match=f"{said}.*--estimate-tokens"):
        read_trace(written(tmp_path, FOUND[name]))


def test_lengths_are_estimated_where_that_is_asked_for(tmp_path):
    chats = read_trace(written(tmp_path, FOUND["sharegpt"]), chars_per_token=4)
    assert chats.input_tokens.tolist() == [4, 8]  # 14 and 32 characters
    assert chats.output_tokens.tolist() == [2, 1]
    assert chats.parent.tolist() == [-1, 0]
    assert notes_with(chats, "estimated at 4 characters a token")
    custom = read_trace(written(tmp_path, FOUND["custom"]), chars_per_token=4)
    assert custom.output_tokens.tolist() == [64, 64]
    assert custom.block_ids(0).tolist() == custom.block_ids(1).tolist()
    batch = read_trace(written(tmp_path, FOUND["openai-batch"]), chars_per_token=4)
    assert notes_with(batch, "is a limit and not a length: their outputs are unknown")


def test_equal_beginnings_of_texts_are_shared_blocks(tmp_path):
    rows = [{"prompt": "x" * 640 + end} for end in ("a" * 70, "b" * 70)]
    trace = read_trace(written(tmp_path, lines(rows)), chars_per_token=4)
    first, second = trace.block_ids(0).tolist(), trace.block_ids(1).tolist()
    assert len(first) == len(second) == 12
    assert [a == b for a, b in zip(first, second, strict=True)] == [True] * 10 + [False] * 2


def test_any_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when,p,g,chat,note\n1500,100,5,a,x\n2500,200,6,a,y\n,300,7,b,z\n")
    trace = read_trace(path, columns="time=when:ms,input=p,output=g,session=chat")
    assert trace.arrival_ns.tolist() == [0, 1_500_000_000, 2_500_000_000]
    assert trace.input_tokens.tolist() == [300, 100, 200]
    assert notes_with(trace, "not read: note")
    rows = [
        {"usage": {"in": 32, "out": 1}, "w": 250, "s": "a", "b": [1, 2]},
        {"usage": {"in": 48, "out": 1}, "w": 50, "s": "a", "b": [1, 2, 3]},
    ]
    named = "input=usage.in,output=usage.out,session=s,ids=b"
    path = write_rows(tmp_path / "t.jsonl", rows)
    after = read_trace(path, columns=f"{named},wait_after=w:ms", block_tokens=16)
    assert (after.arrival_ns.tolist(), after.delay_ns.tolist()) == ([0, -1], [0, 250_000_000])
    before = read_trace(path, columns=f"{named},wait=w:ms", block_tokens=16)
    assert before.delay_ns.tolist() == [0, 50_000_000]
    assert before.block_ids(1).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("input=a", "says nothing of output"),
        ("input=a,output=b,clock=c", "unknown part of --columns 'clock'"),
        ("input=a,output=b,time=c:h", "unknown unit of time"),
        ("input=a,output", "write a part and a column, output=NAME"),
        ("input=a,input=b,output=c", "names input twice"),
        ("input=a,output=b,ids=i", "give --block-tokens"),
        ("input=a,output=b,wait=i,wait_after=j", "say the same"),
        ("input=a,output=missing", "no column 'missing'"),
    ],
)
def test_columns_that_do_not_do(tmp_path, columns, said):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,i,j\n1,1,1,1,1\n")
    with pytest.raises(InputError, match=said):
        read_trace(path, columns=columns)


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("queueTime", "a time"), ("wait_ms", "a time"), ("cached_tokens", "a length"),
        ("prompt_len", "a length"), ("userId", "an id"), ("conversation", "an id"),
    ],
)  # fmt: skip
def test_a_key_that_a_request_may_hang_on_is_not_passed_over(tmp_path, key, what):
    row = {"input_length": 9, "output_length": 1, "timestamp": 0, key: 1}
    path = write_rows(tmp_path / "t.jsonl", [row, row])
    with pytest.raises(InputError, match=f"'{key}' looks like {what}.*--ignore {key}"):
        read_trace(path)
    trace = read_trace(path, ignore=(key,))
    assert notes_with(trace, f"not read: {key}")
    with pytest.raises(InputError, match="'other' is to be ignored, but no row has it"):
        read_trace(path, ignore=(key, "other"))
