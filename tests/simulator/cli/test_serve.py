"""`v4sim serve`: what it prints and writes, that it repeats, and one sentence for bad input."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from simulator.cli.main import main
from tests.interrupts import hears_interrupts

# Roofline steps of a few requests: seconds in all.
QUICK = ("--set", "fidelity=roofline", "--set", "traffic.made.requests=24")
FILES = ["inputs", "requests.parquet", "run.json", "serve.html", "steps.parquet", "summary.json"]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["serve", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, " ".join(captured.out.split()), captured.err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Example: v4sim serve chat" in out


def test_answer_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    summary = tmp_path / "again.json"
    code, out, err = run(capsys, "chat", *QUICK, "--out", folder, "--json", summary)
    assert (code, err) == (0, "")
    assert "v4-flash on 8 x h200 (1 replica, tp 8) with sglang-0.5 serves" in out
    assert "TTFT p99" in out
    assert "is within 2" in out
    assert "All 9 laws hold" in out
    assert "1.6 USD a chip-hour, 2026-04-03" in out
    names = sorted(path.name for path in folder.iterdir())
    assert [name for name in names if not name.endswith(".svg")] == FILES
    assert "serve-ttft.svg" in names
    data = json.loads(summary.read_text())
    assert summary.read_bytes() == (folder / "summary.json").read_bytes()
    requests = pq.read_table(folder / "requests.parquet").to_pydict()
    assert len(requests["request"]) == data["counts"]["requests"] == 24
    assert sum(requests["output_tokens"]) == data["counts"]["output_tokens"]
    steps = pq.read_table(folder / "steps.parquet").to_pydict()
    assert sum(steps["prompt_tokens"]) == data["counts"]["computed_tokens"]
    ttft = [
        (f - a) / 1e9
        for f, a in zip(requests["first_token_ns"], requests["arrival_ns"], strict=True)
    ]
    assert data["latencies"]["ttft_s"]["mean"] == pytest.approx(sum(ttft) / 24)
    assert data["scenario"]["fidelity"] == "roofline"
    assert any("HTTP and tokenizer" in text for text in data["assumptions"])


def test_page_holds_all_and_loads_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(capsys, "chat", *QUICK, "--out", tmp_path)[0] == 0
    page = (tmp_path / "serve.html").read_text()
    body = page.partition('<script type="application/json"')[0]
    assert "default-src 'none'" in page
    assert not re.findall(r'(?:src|href)="https?:', body)
    figures = json.loads(page.partition('id="figures">')[2].partition("</script>")[0])
    assert set(re.findall(r'class="figure" id="([^"]+)"', body)) == set(figures)
    assert {"ttft", "tpot", "itl", "batch", "busy", "goodput", "money"} <= set(figures)
    assert 'href="requests.parquet"' in body
    assert "TTFT runs from a request" in body
    assert all(figure["data"][0] for figure in figures.values())


def test_the_same_scenario_gives_the_same_bytes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for folder in ("a", "b"):
        assert run(capsys, "chat", *QUICK, "--out", tmp_path / folder)[0] == 0
    other = ("--set", "seed=2", "--out", tmp_path / "c")
    assert run(capsys, "chat", *QUICK, *other)[0] == 0
    for name in ("requests.parquet", "steps.parquet", "summary.json"):
        first = (tmp_path / "a" / name).read_bytes()
        assert first == (tmp_path / "b" / name).read_bytes(), name
        assert first != (tmp_path / "c" / name).read_bytes(), name


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["chta"], 2, "unknown scenario 'chta': did you mean 'chat'"),
        (["nix.yaml"], 2, "nix.yaml: no such scenario file"),
        (["chat", "--set", "trafic=1"], 2, "unknown key 'trafic'"),
        (["chat", "--set", "traffic.trace=x"], 2, "give one of trace, made"),
        (["chat", "--set", "parallel.tp=1", "--set", "model=v4-pro"], 3, "does not fit: weights"),
        (["chat", "--set", "chip=h2000"], 2, "unknown chip 'h2000'"),
        (["chat", "--set", "prices=rentl"], 2, "unknown price of h200 'rentl'"),
        (
            ["chat", *QUICK, "--set", "traffic.made.input_tokens=900000000",
             "--set", "traffic.made.range_ratio=1"],
            2,
            "none of the 24 requests fits the deployment even alone (24 for the 1,048,576 ",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, told: str
) -> None:
    found, out, err = run(capsys, *arguments)
    assert (found, out) == (code, "")
    assert err.startswith("error: ")
    assert told in err
    assert err.count("\n") == 1


def test_an_empty_trace_is_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    changes = ("--set", "traffic.made=null", "--set", f"traffic.trace={empty}")
    code, _, err = run(capsys, "chat", *changes)
    assert code == 2
    assert "empty.jsonl: the trace is empty" in err


def test_a_request_that_fits_no_pool_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    long = ("--set", "traffic.made.input_tokens=4000000", "--set", "traffic.made.range_ratio=0.01")
    code, out, _ = run(capsys, "chat", *QUICK, *long)
    assert code == 0
    sentence = r"! \d+ requests refused: even alone too long for the 1,048,576 positions"
    assert re.search(sentence, out)


def test_a_rate_above_capacity_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    changes = (
        "traffic.made.requests=400",
        "traffic.made.rate_per_s=400",
        "scheduler.max_requests=4",
        "fidelity=roofline",
    )
    code, out, _ = run(capsys, "chat", *(part for c in changes for part in ("--set", c)))
    assert code == 0
    assert "! saturated: " in out
    assert "add replicas or lower the rate" in out


def test_a_broken_law_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from simulator.serve import metrics
    from simulator.serve.metrics import RunCheck

    broken = RunCheck(name="Little's law", left=1.0, right=2.0, holds=False)
    monkeypatch.setattr(metrics, "check_run", lambda run: (broken,))
    code, out, _ = run(capsys, "chat", *QUICK)
    assert code == 1
    assert "breaks 1 of 1 laws: Little's law: 1 and 2" in out


def test_an_interrupt_while_writing_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reports.serve_bundle.write_serve_page", interrupted)
    code, out, err = run(capsys, "chat", *QUICK, "--out", tmp_path)
    assert (code, out) == (130, "")
    assert "interrupted; nothing partial was written" in err
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_serving_leaves_nothing(tmp_path: Path) -> None:
    command = (
        "import sys, time, simulator.serve.run as run; from simulator.cli.main import main\n"
        "def slow(*_, **__):\n"
        "    print('serving', file=sys.stderr, flush=True); time.sleep(600)\n"
        "run.run_scenario = slow\n"
        f"sys.exit(main(['serve', 'chat', '--out', {str(tmp_path / 'out')!r}]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", command],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=hears_interrupts,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "serving\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "interrupted; nothing partial was written" in err
    assert not (tmp_path / "out").exists()


def test_replicas_for_prefill_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    split = "disaggregation={prefill_replicas: 2, prefill_parallel: {tp: 4}}"
    code, out, _ = run(capsys, "chat", *QUICK, "--set", split)
    assert code == 0
    machine = "16 x h200 (1 replica, tp 8; 2 replicas for prefill alone, tp 4)"
    assert machine in " ".join(out.split())
