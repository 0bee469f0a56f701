"""`--launch` of capacity, step and serve: answers, conflicts, refusals that name the flag."""

import json

import pytest

from hwmodels.chip import find_chip
from simulator.cli.main import main
from simulator.engine.launch import usual_running_requests

VLLM = "vllm serve deepseek-ai/DeepSeek-V4-Flash --tensor-parallel-size 8 --max-num-seqs 64"


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, " ".join(captured.out.split()), " ".join(captured.err.split())


def test_capacity_is_that_of_the_options(capsys, tmp_path) -> None:
    command = f"{VLLM} --gpu-memory-utilization 0.92 --port 8000 --block-size 128"
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    code, out, _ = run(capsys, "capacity", "--launch", command, "--chip", "b200", "--json", one)
    assert code == 0
    assert "--gpu-memory-utilization 0.92 is --memory-share 0.92" in out
    assert "Of no effect on the answer: --port (where it listens)." in out
    assert "The verdict hangs most on" in out
    typed = "--model v4-flash --chip b200 --count 8 --ep 1 --engine vllm-0.33 --page-tokens 128"
    run(capsys, "capacity", *typed.split(), "--memory-share", 0.92, "--json", other)
    found, same = json.loads(one.read_text()), json.loads(other.read_text())
    assert found["requests"] == same["requests"]
    assert found["limits"].pop("running requests") == 64
    assert found["limits"] == same["limits"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tp", "4"], "--tp 4 and --tensor-parallel-size of the command, which is 8"),
        (["--model", "v4-pro"], "contradict the launch command: --model v4-pro"),
        (["--engine", "sglang-0.5"], "beside a launch command of vllm; give one of vllm-0.33"),
    ],
)
def test_conflicts_are_refused(capsys, arguments, words) -> None:
    code, _, err = run(capsys, "capacity", "--launch", VLLM, "--chip", "b200", *arguments)
    assert code == 2
    assert words in err


def test_a_page_that_cannot_be_is_told_by_its_flag(capsys) -> None:
    command = f"{VLLM} --block-size 32"
    code, out, _ = run(capsys, "capacity", "--launch", command, "--chip", "b200")
    assert code == 4
    assert "try --block-size 128" in out


@pytest.mark.parametrize(
    ("flags", "arguments", "words"),
    [
        ("", ["--batch", "65"], "--max-num-seqs of the launch command lets 64 run at once (1 too"),
        ("--max-model-len 4K", ["--context", "4097"], "takes 4,096 (1 too many)"),
        (
            "--max-num-batched-tokens 2048",
            ["--phase", "prefill", "--context", "4096"],
            "is more than the 2,048 of a step that --max-num-batched-tokens",
        ),
        (
            '--speculative-config {"num_speculative_tokens":2}',
            ["--drafts", "3"],
            "--drafts is 3, but the launch command says 2",
        ),
    ],
)
def test_a_step_beyond_the_command_is_refused(capsys, flags, arguments, words) -> None:
    command = f"{VLLM} {flags.replace(chr(34), chr(92) + chr(34))}"
    code, _, err = run(capsys, "step", "--launch", command, "--chip", "b200", *arguments)
    assert code == 2
    assert words in err


def test_the_model_is_asked_for_where_nothing_names_it(capsys) -> None:
    assert "Missing option '--model'" in run(capsys, "step", "--chip", "b200")[2]
    command = "sglang serve --tp 8"
    assert "names no model" in run(capsys, "step", "--chip", "b200", "--launch", command)[2]


def test_serving_takes_engine_and_limits_from_the_command(capsys, tmp_path) -> None:
    path = tmp_path / "served.json"
    arguments = ["serve", "chat", "--launch", VLLM, "--set", "traffic.made.requests=20"]
    code, out, _ = run(capsys, *arguments, "--json", path)
    assert code == 0, out
    scenario = json.loads(path.read_text())["scenario"]
    assert (scenario["engine"], scenario["parallel"]["tp"]) == ("vllm-0.33", 8)
    assert scenario["scheduler"] == {
        **scenario["scheduler"],
        **{"max_requests": 64, "step_tokens": 8192, "order": "decode-first"},
    }
    code, _, err = run(capsys, *arguments, "--set", "parallel.tp=4")
    assert code == 2
    assert "the launch command decides that" in err
    code, _, err = run(capsys, "serve", "chat", "--launch", f"{VLLM} --max-model-len 4096")
    assert code == 2
    assert "--max-model-len of the launch command takes 4,096" in err


def test_what_a_transfer_moves_is_said(capsys, tmp_path) -> None:
    path = tmp_path / "served.json"
    code, out, _ = run(
        capsys, "serve", "chat", "--set", "traffic.made.requests=20",
        "--set", "disaggregation={prefill_replicas: 1}", "--json", path,
    )  # fmt: skip
    assert code == 0
    moved = json.loads(path.read_text())["transfers"]
    assert moved["sent_bytes"] == sum(moved["pool_bytes"].values())
    assert "From prefill to decode:" in out


@pytest.mark.parametrize(
    ("engine", "chip", "data_ranks", "requests"),
    [
        ("vllm-0.33", "h200", 1, 1024),
        ("vllm-0.33", "b200", 8, 8192),
        ("vllm-0.33", "a100", 1, 256),
        ("sglang-0.5", "h200", 1, None),
    ],
)
def test_requests_at_once_are_the_engines_own(engine, chip, data_ranks, requests) -> None:
    """vLLM's API server: 1,024 on chips of 70 GiB and more but A100, 256 on others."""
    assert usual_running_requests(engine, find_chip(chip), data_ranks) == requests
