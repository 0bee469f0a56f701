"""Keys that a reader does not read are named, and none of them is the time in silence."""

import json
from pathlib import Path

import pytest

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import notes_with, write_rows
from workloads.traffic.readers import READERS, read_trace

START = 1790000000.0


def log(arrival, number=0):
    """A row of an engine's log of requests, whose times are seconds."""
    return {
        "request_id": f"r{number}",
        "input_toks": 900 + number,
        "output_toks": 50,
        "arrival_time": arrival,
        "queued_ts": 10.0,
    }


def test_arrivals_in_seconds_of_the_wall_clock(tmp_path):
    rows = [log(START + 2.5 * i, i) for i in range(4)]
    trace = read_trace(write_rows(tmp_path / "t.jsonl", rows))
    assert trace.arrival_ns.tolist() == [0, 2_500_000_000, 5_000_000_000, 7_500_000_000]
    assert notes_with(trace, "times are counted from 2026-09-21T14:13:20.000000000 UTC")
    assert notes_with(trace, "not read: request_id, queued_ts")


def test_arrivals_in_seconds_from_a_start_stay_as_they_are(tmp_path):
    rows = [log(3.25), log(5, 1)]
    trace = read_trace(write_rows(tmp_path / "t.jsonl", rows))
    assert trace.arrival_ns.tolist() == [3_250_000_000, 5_000_000_000]
    assert not notes_with(trace, "times are counted")
    with pytest.raises(InputError, match=r":1: 'arrival_time' is -1, expected a number of s"):
        read_trace(write_rows(tmp_path / "u.jsonl", [log(-1)]))
    with pytest.raises(InputError, match=r":1: 'arrival_time' is 'noon', expected a number of s"):
        read_trace(write_rows(tmp_path / "v.jsonl", [log("noon")]))


def session(**more):
    return {"id": "a", "requests": [{"t": 0, "in": 64, "out": 1, "hash_ids": [1], **more}]}


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


# Of every format a file with one more key or column, under the reader's name.
EXTRA = {
    "weka-ranges": lines([{"id": "a", "reqs": [{"t": 0, "in": 1, "out": 1, "h": [], "extra": 1}]}]),
    "weka": lines([session(extra=1)]),
    "bailian": lines(
        [{"chat_id": 1, "input_length": 9, "output_length": 1, "timestamp": 0, "extra": 1}]
    ),
    "aiperf": lines(
        [
            {"session_id": "a", "input_length": 512, "output_length": 1, "timestamp": 0}
            | {"hash_ids": [1]},
            {"session_id": "a", "input_length": 512, "output_length": 1, "delay": 5}
            | {"hash_ids": [2], "extra": 1},
        ]
    ),
    "mooncake": lines([{"input_length": 9, "output_length": 1, "timestamp": 0, "extra": 1}]),
    "llmservingsim": lines(
        [{"arrival_time_ns": 0, "sub_requests": [{"input_toks": 9, "output_toks": 1, "extra": 1}]}]
    ),
    "tracelab": "round_index,input_tokens_total,prefix_tokens,newly_append_tokens,output_tokens,"
    "t_first_event_s,extra\n0,9,0,9,1,0,1\n",
    "azure": "TIMESTAMP,extra,ContextTokens,GeneratedTokens\n2025-01-15 09:00:00,1,9,1\n",
    "burstgpt": "Timestamp,Request tokens,Response tokens,extra\n0,9,1,1\n",
    "vidur": "num_prefill_tokens,num_decode_tokens,extra\n9,1,1\n",
    "servegen-offline": lines(
        [{"request_id": 1, "type": "text", "input_length": 9, "output_length": 1, "extra": 1}]
    ),
    "aiperf-export": lines(
        [
            {"metadata": {"request_start_ns": 0, "extra": 1}}
            | {"metrics": {f"{side}_sequence_length": {"value": 9} for side in ("input", "output")}}
        ]
    ),
    "tracelab-replay": "session_id,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms,"
    "arrival_time,extra\n0,0,0,9,1,0,0,1\n",
    "sharegpt": json.dumps(
        [{"conversations": [{"from": "human", "value": "a"}], "id": "b", "extra": 1}]
    ),
    "openai-batch": lines([{"custom_id": "a", "body": {"prompt": "a"}, "extra": 1}]),
    "custom": lines([{"prompt": "a", "output_tokens": 1, "extra": 1}]),
    "servegen": "mean_rate_req_s,rate_weighted_iat_cv,commonest_family,mean_input_tokens,"
    "mean_output_tokens,extra\n1,1,gamma,9,9,1\n",
}


def test_every_format_has_a_case():
    assert set(EXTRA) == set(READERS)


def written(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", EXTRA)
def test_a_key_that_is_not_read_is_named_and_no_other(tmp_path, name):
    trace = read_trace(written(tmp_path, EXTRA[name]), chars_per_token=4)
    assert trace.format == name
    assert [note for note in trace.notes if note.startswith("not read")] == ["not read: extra"]
    plain = read_trace(written(tmp_path, EXTRA[name].replace("extra", "")), name, chars_per_token=4)
    assert not notes_with(plain, "not read")


def test_many_keys_are_counted(tmp_path):
    row = {"input_length": 9, "output_length": 1, "timestamp": 0} | {f"k{i}": 1 for i in range(30)}
    (note,) = notes_with(read_trace(write_rows(tmp_path / "t.jsonl", [row])), "not read")
    assert note.startswith("not read: k0, k1, ")
    assert note.endswith("k19 and 10 more")


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"input_length": 9, "output_length": 1, "arrival_time": 5}, "arrival_time"),
        ({"input_length": 9, "output_length": 1, "ts": 5}, "ts"),
        ({"input_toks": 9, "output_toks": 1, "arrived_at": 5}, "arrived_at"),
        ({"input_toks": 9, "output_toks": 1, "timestamp": 5}, "timestamp"),
        ({"chat_id": 1, "input_length": 9, "output_length": 1, "sent_ms": 5}, "sent_ms"),
    ],
)
def test_a_time_that_is_not_read_is_no_time_of_zero(tmp_path, row, key):
    path = write_rows(tmp_path / "t.jsonl", [row, row])
    with pytest.raises(InputError, match=f"but each may have one in '{key}', which is not read"):
        read_trace(path)


def test_a_column_of_times_that_is_not_read_is_no_time_of_zero(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens,arrival\n9,1,3\n")
    with pytest.raises(InputError, match=r"arrived_at in seconds\), but .* in 'arrival'"):
        read_trace(path)


def test_without_any_time_all_arrive_at_zero_and_it_is_said(tmp_path):
    row = {"input_length": 9, "output_length": 1, "colour": 5}
    trace = read_trace(write_rows(tmp_path / "t.jsonl", [row, row]))
    assert trace.arrival_ns.tolist() == [0, 0]
    assert notes_with(trace, "2 requests without a time set to 0")
    assert notes_with(trace, "not read: colour")


def test_images_are_dropped_and_counted(tmp_path):
    path = tmp_path / "lmm.csv"
    path.write_text(
        "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
        "2025-01-15 09:00:00.000000,3,2100,40\n2025-01-15 09:00:02.500000,0,300,90\n"
    )
    trace = read_trace(path)
    assert trace.arrival_ns.tolist() == [0, 2_500_000_000]
    assert notes_with(trace, "3 images in 1 of 2 requests, dropped")
    assert not notes_with(trace, "not read")
    path.write_text(path.read_text().replace(",3,", ",-3,"))
    with pytest.raises(InputError, match=r":2: 'NumImages' is '-3', expected a whole number"):
        read_trace(path)
