"""CSV traces (Azure, BurstGPT, Vidur, TraceLab): lengths, times, sessions, and what is refused."""

import json

import pytest

from simulator.basis.errors import InputError
from tests.workloads.traffic.samples import needs_traces, notes_with, real, write_rows
from workloads.traffic.readers import read_trace

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:04.0319601,110,27
"""
BURSTGPT = """Timestamp,Session ID,Model,Request tokens,Response tokens,Total tokens,Log Type
5,7,ChatGPT,472,18,490,Conversation log
45,,GPT-4,1087,230,1317,API log
118,7,ChatGPT,417,0,417,Conversation log
"""
VIDUR = """arrived_at,num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio
0.25,3772,54,3826,69.85
1.5,2015,156,2171,12.92
"""
_ROUNDS = "input_tokens_total,prefix_tokens,newly_append_tokens,output_tokens"
TRACELAB = f"""provider,round_index,t_first_event_s,{_ROUNDS}
claude,0,0.0,320,272,48,9
claude,1,11.5,357,293,64,10
codex,0,0.0,93,69,24,4
codex,1,6.0,99,96,3,9
"""
ALL = {"azure": AZURE, "burstgpt": BURSTGPT, "vidur": VIDUR, "tracelab": TRACELAB}


def read(tmp_path, text, **options):
    path = tmp_path / "t.csv"
    path.write_text(text)
    return read_trace(path, **options)


def test_azure_counts_from_the_first_arrival(tmp_path):
    trace = read(tmp_path, AZURE)
    assert trace.arrival_ns.tolist() == [0, 52_000_000, 52_000_100]
    assert trace.input_tokens.tolist() == [4808, 3180, 110]
    assert trace.output_tokens.tolist() == [10, 8, 27]
    assert trace.block_tokens == 0
    assert notes_with(trace, "times are counted from 2023-11-16T18:17:03.97996")


def test_azure_of_2024_has_a_time_zone(tmp_path):
    text = AZURE.replace("2023-11-16 18:17:03.9799600", "2023-11-16 19:17:03.979960+01:00")
    assert read(tmp_path, text).arrival_ns.tolist() == [0, 52_000_000, 52_000_100]


def test_burstgpt_chains_sessions_and_keeps_failures(tmp_path):
    trace = read(tmp_path, BURSTGPT)
    assert trace.arrival_ns.tolist() == [5 * 10**9, 45 * 10**9, 118 * 10**9]
    assert trace.session.tolist() == [0, 1, 0]
    assert trace.parent.tolist() == [-1, -1, 0]
    assert notes_with(trace, "kept 1 request without output tokens")
    dropped = read(tmp_path, BURSTGPT, zero_output="drop")
    assert dropped.input_tokens.tolist() == [472, 1087]
    assert notes_with(dropped, "dropped 1 request without output tokens")
    with pytest.raises(InputError, match=r":4: one of 1 request without output"):
        read(tmp_path, BURSTGPT, zero_output="refuse")


def test_vidur_with_and_without_arrivals(tmp_path):
    assert read(tmp_path, VIDUR).arrival_ns.tolist() == [250_000_000, 1_500_000_000]
    bare = "num_prefill_tokens,num_decode_tokens\n10,2\n20,3\n"
    trace = read(tmp_path, bare)
    assert trace.arrival_ns.tolist() == [0, 0]
    assert notes_with(trace, "2 requests without a time set to 0")
    with pytest.raises(InputError, match="strict"):
        read(tmp_path, bare, strict=True)


def test_tracelab_keeps_observed_cached_tokens(tmp_path):
    trace = read(tmp_path, TRACELAB, strict=True)
    assert trace.arrival_ns.tolist() == [0, 0, 6 * 10**9, 11_500_000_000]
    assert trace.observed_cached_tokens.tolist() == [272, 69, 96, 293]
    assert trace.session.tolist() == [0, 1, 1, 0]
    assert trace.parent.tolist() == [-1, -1, 1, 0]


def test_tracelab_rows_follow_the_last_output(tmp_path):
    def row(index, sent, done):
        events = [
            {"event_type": "tool_result", "timestamp": f"2026-03-01T10:00:{sent:02}Z"},
            {"event_type": "text", "timestamp": f"2026-03-01T10:00:{done:02}Z"},
        ]
        lengths = {"input_tokens_total": 90, "prefix_tokens": 60, "newly_append_tokens": 30}
        start = {"session_id": "s", "round_index": index, "output_tokens": 5}
        return {**start, **lengths, "timing_events": events}

    path = write_rows(tmp_path / "t.jsonl", [row(1, 20, 25), row(0, 10, 12)])
    trace = read_trace(path)
    assert trace.arrival_ns.tolist() == [0, -1]
    assert trace.delay_ns.tolist() == [0, 8 * 10**9]
    assert notes_with(trace, "2 rounds out of order")


@needs_traces
def test_real_tables():
    azure = read_trace(real("azure2023_code.csv.gz"), strict=True)
    assert len(azure) == 8_819
    assert azure.input_tokens[:2].tolist() == [4808, 3180]
    vidur = read_trace(real("vidur_arxiv_first5000.csv"))
    assert len(vidur) == 5_000
    rounds = read_trace(real("tracelab_example_rounds.csv"), strict=True)
    assert (len(rounds), rounds.sessions) == (19, 2)
    claude = [27217, 29380, 35738, 38590, 41129, 41587, 42874, 44770, 45277, 47506]
    codex = [6912, 9600, 9856, 3456, 10240, 9216, 10624, 10368, 9216]
    assert rounds.observed_cached_tokens.sum() == sum(claude) + sum(codex)


@pytest.mark.parametrize("name", ALL)
def test_formats_are_told_by_their_header(tmp_path, name):
    assert f"read as {name}" in read(tmp_path, ALL[name]).notes


@pytest.mark.parametrize("name", ALL)
def test_a_truncated_last_line_is_refused(tmp_path, name):
    text = ALL[name].rstrip("\n")
    lines = text.split("\n")
    needed = {"azure": 1, "burstgpt": 3, "vidur": 1, "tracelab": 5}[name]
    lines[-1] = ",".join(lines[-1].split(",")[:needed])
    with pytest.raises(InputError, match=rf":{len(lines)}: no '.*truncated or damaged"):
        read(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (AZURE.replace("3180", "x"), r":3: 'ContextTokens' is 'x', expected a whole number"),
        (AZURE.replace("3180", "-4"), r":3: 'ContextTokens' is '-4'"),
        (AZURE.replace("3180", "1.5"), r":3: 'ContextTokens' is '1.5'"),
        (AZURE.replace("2023-11-16 18:17:04.0319600", "noon"), r":3: 'TIMESTAMP' is 'noon'"),
        (AZURE.replace("3180,8", "3180,8,9"), r":3: 4 fields, expected 3 as the header"),
        (AZURE.replace("4808,10", "4808,10,9"), r":2: 4 fields, expected 3"),
        (AZURE.split("\n")[0], "no request in it"),
        (BURSTGPT.replace("45,", "-45,"), r":3: 'Timestamp' is '-45'"),
        (TRACELAB.replace("320,272", "320,321"), r":2: more prefix_tokens"),
        (AZURE.replace("3180", '"3180'), r":3: not a whole CSV row"),
        (AZURE.replace("2023-11-16 18:17:04.0319600", "1969-11-16"), r":3: 'TIMESTAMP' is '1969"),
        ("a,b\n1,2\n", "of no known trace format"),
        ("", "the trace is empty"),
    ],
)
def test_bad_tables_are_refused_with_their_line(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (BURSTGPT.replace("1317", "1318"), 3),
        (VIDUR.replace("2171", "2170"), 3),
        (TRACELAB.replace("293,64", "293,60"), 3),
    ],
)
def test_sums_that_do_not_add_up_are_counted(tmp_path, text, line):
    assert notes_with(read(tmp_path, text), f"t.csv:{line}")
    with pytest.raises(InputError, match="strict"):
        read(tmp_path, text, strict=True)


def test_unsorted_and_missing_arrivals(tmp_path):
    lines = AZURE.strip().split("\n")
    text = "\n".join([lines[0], lines[2], lines[1], ",9,9", ""])
    trace = read(tmp_path, text)
    assert trace.input_tokens.tolist() == [4808, 9, 3180]
    assert notes_with(trace, "1 request without a time set to 0")
    assert notes_with(trace, "2 requests earlier")
    assert json.dumps(trace.notes)
