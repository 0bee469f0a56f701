"""`v4sim prefix crossover`: a tier that wins by far, one that loses, and bad input."""

import json

import pytest

from simulator.cli.main import main

# A page of 256 tokens is three files, read one after the other: 24 ms a page. SGLang with a disk
# tier took 6,910.8 s for 76.8 M tokens of which 98.3 % were hits, 23 ms a page, and lost against
# computing (sgl-project/sglang issue 36179).
SLOW = """
tiers:
  - name: hbm
    capacity: {value: 100, unit: GB, kind: guessed, note: example}
  - name: files
    capacity: {value: 1, unit: TB, kind: guessed, note: example}
    read: {value: 5, unit: GB/s, kind: guessed, note: example}
    write: {value: 5, unit: GB/s, kind: guessed, note: example}
    latency: {value: 8, unit: ms, kind: guessed, note: a small file each}
"""


def run(capsys, *arguments):
    code = main(["prefix", "crossover", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, " ".join(captured.out.split()), captured.err


def ask(capsys, tmp_path, *arguments):
    path = tmp_path / "out.json"
    options = ("--model", "v4-flash", "--engine", "sglang-0.5", "--json", path)
    code, out, _ = run(capsys, *options, *arguments)
    assert code == 0
    return out, json.loads(path.read_text())["crossovers"]


def test_a_drive_wins_by_far(capsys, tmp_path):
    out, found = ask(capsys, tmp_path, "--policies", "boundary", "--prefixes", "131072")
    [duel] = next(one for one in found if one["tier"] == "nvme")["duels"]
    plan = duel["plan"]
    # 512 pages of 998,208 B and a window of 8.16 MB at 14 GB/s; 1,539 objects, 32 at once.
    load_ns = 1e9 * (512 * 998_208 + 8_160_000) / 14e9 + 49 * 100_000
    assert sum(ns for _, ns in plan["load_ns"]) == pytest.approx(load_ns, abs=1_000)
    assert duel["recompute_ns"] > 20 * plan["ttft_ns"]
    assert "wins from" in out


def test_small_files_lose(capsys, tmp_path):
    tiers = tmp_path / "slow.yaml"
    tiers.write_text(SLOW)
    out, found = ask(
        capsys, tmp_path, "--tiers", tiers, "--policies", "full", "--prefixes", "16384,65536"
    )
    assert found[0]["wins_from"] is None
    assert "never wins" in out
    for duel in found[0]["duels"]:
        assert duel["plan"]["ttft_ns"] > duel["recompute_ns"]
        # The printed terms say why: loading alone takes longer than computing.
        pages = duel["prefix_tokens"] // 256
        [(_, load_ns)] = duel["plan"]["load_ns"]
        assert load_ns > 3 * pages * 8_000_000 > duel["recompute_ns"]


def test_a_replay_needs_a_long_prefix(capsys, tmp_path):
    _, found = ask(capsys, tmp_path, "--policies", "zero:trimmed", "--prefixes", "65536")
    for one in found:
        assert 5_462 < one["wins_from"] < 8_192
        assert one["duels"][0]["plan"]["hit"]["replay"]["tokens"] == 5_462


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--prefixes", "2000000"], "which v4-flash takes"),
        (["--new-tokens", "0"], "is not 1 to"),
        (["--policies", "periodic:100", "--engine", "vllm-0.33"], "nearest is 256"),
        (["--tp", "3"], "but node h200-x8 has 8"),
        (["--prefixes", "many"], "is not a number of tokens"),
    ],
)
def test_bad_input_is_a_sentence(capsys, options, says):
    code, out, err = run(capsys, *options)
    assert code == 2
    assert says in err
    assert out == ""


def test_help_has_an_example(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Example: v4sim prefix crossover" in out
