"""`v4sim trace`: figures of a file, synthetic traces, one sentence for bad input."""

import json

import pytest

from simulator.cli.main import main

ROWS = [
    {"timestamp": 0, "input_length": 600, "output_length": 10, "hash_ids": [1, 2]},
    {"timestamp": 4000, "input_length": 1000, "output_length": 30, "hash_ids": [1, 9]},
    {"timestamp": 2000, "input_length": 1024, "output_length": 0, "hash_ids": [1, 9]},
]


def run(capsys, *arguments):
    code = main(["trace", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.mark.parametrize("command", ["", "info", "synth"])
def test_help_has_an_example(capsys, command):
    code, out, _ = run(capsys, *command.split(), "--help")
    assert code == 0
    assert "Example: v4sim trace" in out


def test_info_prints_figures_and_notes(capsys, tmp_path, path):
    saved = tmp_path / "info.json"
    code, out, _ = run(capsys, "info", path, "--json", saved)
    assert code == 0
    text = " ".join(out.split())
    assert "3 requests of 3 sessions" in text
    assert "6 block ids of 512 tokens, 3 distinct" in text
    assert "1 request earlier than a request before" in text
    assert "kept 1 request without output tokens" in text
    data = json.loads(saved.read_text())
    assert data["input_tokens_sum"] == 2624
    assert data["span_s"] == 4.0
    assert data["notes"][0] == "read as mooncake"


def test_synth_writes_reads_back_and_repeats(capsys, tmp_path):
    out, again, saved = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "a.json"
    arguments = ("--sessions", 20, "--requests", 500, "--input-mean", 60000, "--last-input-mean",
                 90000, "--seed", 3)  # fmt: skip
    code, text, _ = run(capsys, "synth", "--out", out, *arguments, "--json", saved)
    assert code == 0
    assert "500 requests of 20 sessions (25.0 each)" in " ".join(text.split())
    data = json.loads(saved.read_text())
    assert data["input_tokens"]["mean"] == pytest.approx(60_000, rel=1e-3)
    assert data["longest_input_tokens_per_session_mean"] == pytest.approx(90_000, rel=1e-3)
    assert run(capsys, "synth", "--out", again, *arguments)[0] == 0
    assert out.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("kind", ["chat", "single"])
def test_other_kinds_as_deltas(capsys, tmp_path, kind):
    out = tmp_path / "a.jsonl.gz"
    code, text, _ = run(
        capsys, "synth", "--out", out, "--kind", kind, "--format", "aiperf", "--sessions", 50
    )
    assert code == 0
    assert "of 50 sessions" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["info", "none.jsonl"], "cannot read trace none.jsonl"),
        (["info", "{path}", "--strict"], "refused as strict reading was asked for"),
        (["info", "{path}", "--format", "azur"], "did you mean 'azure'"),
        (["info", "{path}", "--format", "azure"], "no column 'TIMESTAMP'"),
        (["info", "{path}", "--max-input-tokens", "1000"], ":3: input of 1,024 tokens, 24 over"),
        (["info", "{path}", "--zero-output", "refuse"], ":3: one of 1 request without output"),
        (["info", "{path}", "--block-tokens", "64"], ":1: 2 block ids for 600 tokens"),
        (["synth", "--out", "{path}", "--kind", "agents"], "did you mean 'agent'"),
        (["synth", "--out", "{path}", "--format", "weka"], "did you mean 'weka-ranges'"),
        (["synth", "--out", "{path}", "--requests", "9", "--turns-mean", "2"], "say the same"),
        (["synth", "--out", "{path}", "--input-mean", "1"], "input_mean is 1 with"),
        (["synth", "--out", "none/t.jsonl", "--sessions", "2"], "cannot write none/t.jsonl"),
        (["synth"], "Missing option '--out'"),
        (["sinth"], "Did you mean 'synth'"),
    ],
)
def test_bad_input_is_one_sentence(capsys, path, arguments, words):
    before = path.read_bytes()
    code, _, error = run(capsys, *(a.format(path=path) for a in arguments))
    assert code == 2
    assert words.lower() in error.lower()
    assert error.count("\n") == 1
    assert error.startswith("error: ")
    assert path.read_bytes() == before


def test_a_synthetic_trace_goes_to_the_output(capsys, tmp_path):
    path = tmp_path / "own.jsonl"
    given = ["trace", "synth", "--sessions", "2", "--seed", "1", "--out"]
    assert main([*given, str(path)]) == 0
    capsys.readouterr()
    assert main([*given, "-"]) == 0
    told = capsys.readouterr()
    assert told.out == path.read_text()
    assert "requests of 2 sessions" in told.err
