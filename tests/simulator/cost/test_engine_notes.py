"""Formats that are asked for are priced; those that no kernel was measured in are said at once."""

import json
from pathlib import Path

import pytest

from simulator.cli.main import main
from simulator.cost.question import ask
from simulator.cost.result import KernelRecord, StepResult
from simulator.cost.step import cost_step

MEASURED = ("sglang-0.5", "vllm-0.22", "vllm-0.33", "trtllm-1.3")


def costed(chip: str, **options: object) -> StepResult:
    given = {"model": "v4-flash", "count": 8, "batch": 16, "context": 65_536, **options}
    asked = ask(chip=chip, **given)  # type: ignore[arg-type]
    return cost_step(asked, must_fit=False)


@pytest.mark.parametrize("engine", MEASURED)
def test_fp4_index_keys_take_less_time_as_if_there_were_a_kernel(engine: str) -> None:
    fp8, fp4 = (costed("b200", engine=engine, index_dtype=dtype) for dtype in ("fp8", "fp4"))
    assert fp8.priced_as == ()
    assert fp4.priced_as[0] == f"Index keys in fp4: as if {engine} had this kernel, not measured"
    stores = "sglang" in engine or "vllm" in engine
    assert ("stores no index keys in fp4" in " ".join(fp4.priced_as)) == (not stores)
    # SGLang budgets FP8 keys; blocks of vLLM 0.22 are as large as the largest page of a bucket.
    saves = engine in ("vllm-0.33", "trtllm-1.3")
    assert (fp4.memory.state_bytes < fp8.memory.state_bytes) == saves
    before, after = (scan(result) for result in (fp8, fp4))
    assert after.duration_ps < before.duration_ps
    # Wider than what was measured, on the same side of the time.
    assert after.high_ps / after.duration_ps > before.high_ps / before.duration_ps
    assert (before.calibrated, after.calibrated) == (True, False)
    others = [[k.duration_ps for k in r.kernels if k.name != "index_score"] for r in (fp8, fp4)]
    changed = sum(a != b for a, b in zip(*others, strict=True))
    # Besides the scan: rotating, rounding and storing keys of other bytes.
    assert changed <= 21 * 2


@pytest.mark.parametrize("engine", MEASURED)
def test_wider_rows_take_longer(engine: str) -> None:
    fp8, index, rows = (
        costed("h200", engine=engine, **dtype)
        for dtype in ({}, {"index_dtype": "bf16"}, {"kv_dtype": "bf16"})
    )
    for said, what in ((index, "Index keys"), (rows, "Cache entries")):
        assert said.priced_as[0] == f"{what} in bf16: as if {engine} had this kernel, not measured"
    assert (
        f"{engine} stores no index keys in bf16: as if it did, in rows of 256 B, not measured"
        in (index.priced_as)
    )
    assert scan(index).duration_ps > scan(fp8).duration_ps
    assert any(not kernel.calibrated for kernel in rows.kernels if kernel.name == "core")


def test_hopper_unpacks_fp4_keys_for_every_row() -> None:
    fp8, fp4 = (costed("h200", index_dtype=d, context=8192) for d in ("fp8", "fp4"))
    said, kernel, budget = fp4.priced_as
    assert "which h200 has not" in kernel
    assert "132 B for each" in budget
    assert said.startswith("Index keys in fp4, unpacked to fp8: as if sglang-0.5 had this kernel")
    assert scan(fp4).duration_ps > scan(fp8).duration_ps


def scan(result: StepResult) -> KernelRecord:
    return next(kernel for kernel in result.kernels if kernel.name == "index_score")


@pytest.mark.parametrize(
    "options", [{"engine": "ideal"}, {"engine": "ascend"}, {"fidelity": "roofline"}]
)
def test_kernels_that_follow_the_format_say_nothing(options: dict[str, str]) -> None:
    chip = "ascend-950dt" if options.get("engine") == "ascend" else "b200"
    fp8, fp4 = (costed(chip, index_dtype=dtype, **options) for dtype in ("fp8", "fp4"))
    assert not any("had this kernel" in sentence for sentence in fp4.priced_as)
    assert fp4.total_ps < fp8.total_ps


SAID = "Index keys in fp4: as if sglang-0.5 had this kernel, not measured"
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
