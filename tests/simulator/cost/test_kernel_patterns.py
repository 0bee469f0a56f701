"""Kernels as memory sees them: rates by hand, patterns of an engine's step, the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hwmodels.chip import find_chip
from hwmodels.machine.simulation import run_program
from hwmodels.machine.spec import machine_of
from hwmodels.machine.steady import LaunchTime
from simulator.cli.main import main
from simulator.cost.kernel_patterns import KernelPattern, kernel_patterns, rates_of
from simulator.cost.question import ask
from tests.hwmodels.machine.test_lanes import program

ASKED = {"model": "v4-flash", "chip": "b200", "count": 8, "dp": 8, "batch": 64, "context": 4096}


@pytest.fixture(scope="module")
def found() -> list[KernelPattern]:
    engine = {"engine": "sglang-0.5", "fidelity": "cycle"}
    pages = [128, 256]
    return list(kernel_patterns([ask(**ASKED, **engine, page_tokens=p) for p in pages]))  # type: ignore[arg-type]


def test_rates_of_a_run_and_of_a_part_of_the_chip() -> None:
    chip = machine_of(find_chip("h200"))
    part = chip.slice_of_stack()
    result = run_program(program(40, 4), part)
    rates = rates_of(LaunchTime(float(result.duration_ps), result, 0.0), 1e-6, chip)
    seconds = result.duration_ps * 1e-12 - 1e-6
    moved = 40 * 4 * (4096 + 2048) / seconds
    assert rates["bytes_per_s"] == pytest.approx(chip.stacks * moved)
    assert rates["peak_share"] == pytest.approx(moved / part.peak_bytes_per_s)
    assert rates["latency_s"] == pytest.approx(result.memory_wait_ps / result.chunks * 1e-12)
    whole = replace(result, channel_bytes=result.channel_bytes * chip.stacks)
    assert rates_of(LaunchTime(1.0, whole, 0.0), 1e-6, chip)["bytes_per_s"] == pytest.approx(moved)


def test_every_pattern_is_there_warm_and_cold(found: list[KernelPattern]) -> None:
    first = [p for p in found if p.page_tokens in (None, 128)]
    assert {p.pattern for p in first} == {
        "index scan", "sparse gather", "cache append", "expert weights", "GEMM weights",
        "hyper-connection streams in", "hyper-connection streams out",
    }  # fmt: skip
    assert len(found) == 2 * (7 + 3)
    for warm, cold in zip(found[::2], found[1::2], strict=True):
        assert (warm.pattern, warm.cached, cold.cached) == (cold.pattern, True, False)
        assert cold.bytes_per_s > 0
        assert cold.llc_hit_rate <= warm.llc_hit_rate + 1e-9
    # A run ends with writes that controllers still hold, so that no bound at 1 is met exactly.
    assert all(0.0 <= p.peak_share < 1.1 for p in found)


def test_pages_change_the_runs_of_the_scan(found: list[KernelPattern]) -> None:
    runs = {p.page_tokens: p.run_bytes for p in found if p.pattern == "index scan"}
    assert runs == {128: 32 * 132, 256: 64 * 132}
    assert {p.run_bytes for p in found if p.pattern == "sparse gather"} == {584}


def test_the_command_writes_units_in_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kernels.json"
    options = ["--batch", "8", "--context", "4096", "--json", str(path)]
    assert main(["bandwidth", "--chip", "b200", "--kernels", *options]) == 0
    kernels = json.loads(path.read_text())["kernels"]
    assert kernels["requests_per_chip"] == 8
    one = kernels["patterns"][0]
    assert {"bytes_per_s", "peak_share", "row_hit_rate", "mean_latency_ns"} <= one.keys()
    assert "8 requests a chip at 4,096 tokens" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--engine", "sglang-0.5"], "--engine is of an engine's kernels: add --kernels"),
        (["--kernels", "--granule", "64"], "--kernels has patterns of its own"),
        (["--kernels", "--engine", "ideal"], "ideal has no kernel with a program of its own"),
    ],
)
def test_what_does_not_go_together_is_said(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bandwidth", "--chip", "b200", *options]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
