"""`v4sim layout`: the table, JSON and page, and one sentence for bad input."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.layout.layout_step import LayoutStep

QUICK = ("--pages", "128,256,512", "--padding", "engine,none", "--grouping", "separate")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["layout", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Example: v4sim layout" in out


def test_answer_and_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "layout.json"
    code, out, _ = run(capsys, *QUICK, "--json", path)
    assert code == 0
    text = " ".join(out.split())
    assert "128 tokens, lcm(4, 128), are the smallest page" in text
    assert "a hit loses 63.5 tokens" in text
    assert "page 256 (engine's)" in text
    data = json.loads(path.read_text())
    assert len(data["points"]) == 1 + 3 * 2
    own = data["points"][0]
    assert own["engine_own"]
    assert own["padding_bytes_per_token"] == 49
    assert own["hit_granule_tokens"] == 256
    c128 = next(pool for pool in own["pools"] if pool["pool"] == "c128")
    assert round(100 * c128["page_padding_share"], 1) == 47.9
    assert own["step_ps"] == data["points"][3]["step_ps"]


def test_page_and_csv(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, text, _ = run(capsys, "--engine", "vllm-0.33", "--pages", "128,256", "--out", out)
    assert code == 0
    assert "Unused in vllm-0.33's own blocks: window 1 17.8 %, window 2 21.6 %" in " ".join(
        text.split()
    )
    page = (out / "layout.html").read_text()
    assert "default-src 'none'" in page
    assert not re.findall(r'(?:src|href)="https?:', page.partition("<script")[0])
    assert "pages lie scattered over memory" in page.lower()
    rows = list(csv.DictReader((out / "layout.csv").open()))
    points = json.loads((out / "layout.json").read_text())["points"]
    assert len(rows) == len(points) == 1 + 2 * 10 * 3
    for row, point in zip(rows, points, strict=True):
        assert float(row["padding_share"]) == point["padding_share"]


def test_one_pool(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "layout.json"
    code, out, _ = run(
        capsys, "--pool", "c128", "--pages", "128,2048", "--padding", "engine", "--json", path
    )
    assert code == 0
    assert "with c128 pages of 2,048 tokens a hit loses 1,023.5 tokens" in " ".join(out.split())
    points = json.loads(path.read_text())["points"]
    assert [point["hit_granule_tokens"] for point in points] == [256, 256, 2048]


def test_default_list_names_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--padding", "engine", "--grouping", "separate")
    assert "Left out: a page of 64 tokens cannot hold one c128 entry" in " ".join(out.split())


def test_interrupt_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def interrupted(*_: object) -> int:
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return 1

    monkeypatch.setattr(LayoutStep, "total_ps", interrupted)
    out = tmp_path / "out"
    code, text, err = run(capsys, *QUICK, "--out", out, "--json", tmp_path / "x.json")
    assert (code, text) == (130, "")
    assert "interrupted; nothing partial was written" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pages", "64"], "cannot hold one c128 entry, which stands for 128 tokens (64 too few)"),
        (["--pool", "c128", "--pages", "96"], "(32 too few); try 128"),
        (["--pages", "8192"], "outside the sweep, which goes from 64 to 4,096"),
        (["--pages", "x"], "'x' in --pages is no whole number"),
        (["--padding", "foo"], "padding 'foo' is not known"),
        (["--grouping", "foo"], "unknown grouping 'foo'"),
        (["--pool", "foo"], "unknown pool 'foo'"),
        (["--pool", "c128", "--grouping", "one-block"], "shares blocks between pools"),
        (["--pool", "window", "--engine", "ideal"], "which has no pages"),
        (["--mix", "4096"], "neither LENGTH:REQUESTS nor LOW-HIGH:REQUESTS"),
        (["--mix", "1-2000000:1"], "(951,424 too many)"),
        (["--neighbours", "2"], "expected a chance from 0 to 1"),
        (["--neighbours", "nan"], "expected a chance from 0 to 1"),
        (["--budget-gib", "0"], "budget is 0 GiB"),
        (["--budget-gib", "nan"], "budget is nan GiB"),
        (["--context", "0"], "context is 0 tokens"),
        (["--in-flight", "0"], "in-flight is 0 tokens"),
        (["--kv-dtype", "fp5"], "unknown kv dtype 'fp5'"),
        (["--engine", "vllm-0.3"], "did you mean 'vllm-0.33'?"),
        (["--chip", "h20O"], "unknown chip 'h20O'"),
        (["--count", "8", "--dp", "3"], "dp 3 does not divide the 8 chips"),
        (["--tp", "0"], "tp is 0, expected 1"),
        (["--count", "0"], "count is 0, expected 1"),
    ],
)
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert words in err
