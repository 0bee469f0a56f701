"""Formats that are asked for and whose kernels are priced as another's are said at once."""

import json
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.cost.question import ask
from simulator.cost.result import StepResult
from simulator.cost.step import cost_step

MEASURED = ("sglang-0.5", "vllm-0.22", "vllm-0.33", "trtllm-1.3")


def costed(chip: str, **options: object) -> StepResult:
    asked = ask(model="v4-flash", chip=chip, count=8, batch=16, context=65_536, **options)  # type: ignore[arg-type]
    return cost_step(asked.question, asked.config, asked.chip, asked.node)


@pytest.mark.parametrize("engine", MEASURED)
def test_fp4_index_keys_change_bytes_alone_where_it_says_so(engine: str) -> None:
    fp8, fp4 = (costed("b200", engine=engine, index_dtype=dtype) for dtype in ("fp8", "fp4"))
    assert fp8.priced_as == ()
    assert fp4.priced_as == (
        f"Index keys asked for in fp4; {engine}'s kernels are priced as fp8: only bytes of memory "
        "and capacity change",
    )
    assert fp4.total_ps == fp8.total_ps
    assert fp4.memory.state_bytes < fp8.memory.state_bytes


def test_wider_keys_may_take_longer_and_say_so() -> None:
    fp8, bf16 = (costed("h200", index_dtype=dtype) for dtype in ("fp8", "bf16"))
    (said,) = bf16.priced_as
    assert "times only where the roofline of bf16 is longer" in said
    assert bf16.total_ps > fp8.total_ps


@pytest.mark.parametrize(
    "options", [{"engine": "ideal"}, {"engine": "ascend"}, {"fidelity": "roofline"}]
)
def test_kernels_that_follow_the_format_say_nothing(options: dict[str, str]) -> None:
    chip = "ascend-950dt" if options.get("engine") == "ascend" else "b200"
    fp8, fp4 = (costed(chip, index_dtype=dtype, **options) for dtype in ("fp8", "fp4"))
    assert fp4.priced_as == ()
    assert fp4.total_ps < fp8.total_ps


SAID = "Index keys asked for in fp4; sglang-0.5's kernels are priced as fp8: "
COMMANDS = [
    ["step", "--model", "v4-flash", "--chip", "b200", "--count", "8", "--index-dtype", "fp4"],
    ["layout", "--chip", "b200", "--pages", "128,256", "--padding", "engine", "--grouping",
     "separate", "--index-dtype", "fp4"],
    ["offload", "--contexts", "8192", "--index-dtype", "fp4"],
    ["serve", "chat", "--set", "chip=b200", "--set", "index_dtype=fp4", "--set",
     "traffic.made.requests=40"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_terminal_and_json_say_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]
) -> None:
    path = tmp_path / "out.json"
    assert main([*command, "--json", str(path)]) == 0
    first = capsys.readouterr().out.splitlines()[:10]
    assert SAID in " ".join(" ".join(first).split())
    data = json.loads(path.read_text())
    said = data["notes"] if command[0] == "serve" else data["priced_as"]
    assert any(sentence.startswith(SAID) for sentence in said)
