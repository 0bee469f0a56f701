"""`v4sim bandwidth`: one pattern, the sweep with its page, and one sentence for bad input."""

import json
import re

import pytest

from simulator.cli.main import main


def run(capsys, *arguments):
    code = main(["bandwidth", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_has_an_example(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Example: v4sim bandwidth" in out


def test_one_pattern(capsys, tmp_path):
    path = tmp_path / "one.json"
    code, out, _ = run(
        capsys, "--chip", "b200", "--pattern", "gather", "--granule", 584, "--align", 640,
        "--json", path,
    )  # fmt: skip
    assert code == 0
    data = json.loads(path.read_text())
    assert data["granule_bytes"] == 584
    assert data["align_bytes"] == 640
    assert 0.5 < data["useful_fraction"] < data["achieved_fraction"] < 1
    parts = [value for key, value in data.items() if re.fullmatch(r"time_\w+_fraction", key)]
    assert sum(parts) == pytest.approx(1)
    assert "16 of 128 channels simulated as hbm3e_7800" in " ".join(out.split())


def test_the_same_seed_gives_the_same_answer(capsys):
    arguments = ("--chip", "h200", "--granule", 584, "--seed", 3)
    assert run(capsys, *arguments) == run(capsys, *arguments)


def test_sweep_writes_a_page_that_loads_nothing(capsys, tmp_path):
    out = tmp_path / "out"
    code, text, _ = run(capsys, "--chip", "h200", "--channels", 1, "--out", out)
    assert code == 0
    page = (out / "bandwidth.html").read_text()
    assert "default-src 'none'" in page
    assert not re.findall(r'(?:src|href)="https?:', page.partition("<script")[0])
    assert "Assumptions" in page
    rows = json.loads((out / "bandwidth.json").read_text())["points"]
    assert len((out / "bandwidth.csv").read_text().splitlines()) == len(rows) + 1
    assert {row["table"] for row in rows} == {
        "granule", "outstanding", "padding", "writes", "controller",
    }  # fmt: skip
    assert "scattered cache entries of 584 bytes" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--granule", "0"], "granule must be at least 1, but 0 was given"),
        (["--granule", "-5"], "granule must be at least 1, but -5 was given"),
        (["--granule", "584", "--align", "6"], "expected a multiple of 4"),
        (["--granule", "584", "--pattern", "scatter"], "unknown pattern 'scatter'"),
        (["--pattern", "gather"], "one pattern needs --granule"),
        (["--granule", "64", "--out", "x"], "--out writes the page of a sweep"),
        (["--granule", "64", "--channels", "3"], "channels is 3, expected a power of two"),
        (["--granule", "64", "--channels", "256"], "at most the 96 of 'h200'"),
        (["--granule", "64", "--refresh", "per-bnk"], "did you mean 'per-bank'?"),
        (["--granule", "64", "--mapping", "c8"], "does not cover the address"),
        (["--granule", "64", "--interleave", "48"], "expected a multiple of the burst"),
        (["--granule", "64", "--queue-ns", "0"], "queued_ns is 0"),
        (["--granule", "64", "--set", "memory.RC=1ns"], "tRC is 2 clocks, expected at least"),
        (["--granule", "64", "--chip", "h20O"], "unknown chip 'h20O'"),
        (["--granule", "many"], "Invalid value for '--granule'"),
    ],
)
def test_bad_input_is_one_sentence(capsys, arguments, words):
    chip = [] if "--chip" in arguments else ["--chip", "h200"]
    code, _, err = run(capsys, *chip, *arguments)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert words in err
