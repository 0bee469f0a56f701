"""Chips of a user's with GDDR7 or LPDDR5X, made from a shipped file: they run at every fidelity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hwmodels
from simulator.cli.main import main
from tests.own_files import copied

_HARDWARE = Path(hwmodels.__file__).parent
# Memory type, bandwidth in GB/s, cores, and what else a smaller chip has less of.
MACHINES = {
    "workstation": ("GDDR7", 1792, 188, "gddr7_28000"),
    "desktop": ("LPDDR5X", 273, 48, "lpddr5x_8533"),
}


def machine(folder: Path, name: str) -> Path:
    """Two chips in a node of their own; the pin rate is left as it was, as a user might."""
    kind, bandwidth, cores, _ = MACHINES[name]
    node = (("name: h100-x8", f"name: {name}-x2"), ("chip: h100", f"chip: {name}.yaml"),
            ("chips_per_node: {value: 8", "chips_per_node: {value: 2"))  # fmt: skip
    copied(folder, _HARDWARE / "nodes/h100-x8.yaml", f"{name}-x2.yaml", *node)
    copied(
        folder,
        _HARDWARE / "chips/b200.yaml",
        f"{name}.yaml",
        ("name: b200", f"name: {name}"),
        ("node: b200-x8", f"node: {name}-x2.yaml"),
        ("type: HBM3e\n  preset: hbm3e_7800", f"type: {kind}"),
        ("bandwidth: {value: 7700", f"bandwidth: {{value: {bandwidth}"),
        ("count: {value: 148", f"count: {{value: {cores}"),
    )
    return folder / f"{name}.yaml"


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("fidelity", ["roofline", "tile", "cycle"])
@pytest.mark.parametrize("engine", ["vllm-0.33", "ascend"])
def test_a_step_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, fidelity: str, engine: str
) -> None:
    path = tmp_path / "step.json"
    code = main([
        *("step", "--model", "v4-flash", "--chip", str(machine(tmp_path, name)), "--count", "2"),
        *("--context", "8192", "--engine", engine, "--fidelity", fidelity, "--json", str(path)),
    ])  # fmt: skip
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert f"2 x {name} ({name}.yaml)" in " ".join(captured.out.split())
    found = json.loads(path.read_text())
    alone = any("of a type that has a single preset" in said for said in found["assumptions"])
    assert alone == (fidelity != "roofline")
    # Weights of a step pass through memory once: some 6 GB a chip, of which the cache keeps little.
    seconds = found["total_ps"] * 1e-12
    assert seconds * MACHINES[name][1] * 1e9 > 3e9


@pytest.mark.parametrize("name", MACHINES)
def test_the_preset_follows_from_the_type_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    path = tmp_path / "bandwidth.json"
    code = main([
        *("bandwidth", "--chip", str(machine(tmp_path, name)), "--pattern", "stream"),
        *("--granule", "4096", "--json", str(path)),
    ])  # fmt: skip
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert f"simulated as {MACHINES[name][3]}" in " ".join(captured.out.split())
    found = json.loads(path.read_text())
    # The share of the preset's peak holds for the bandwidth that the chip states.
    assert 0.9 < found["useful_bytes_per_s"] / (MACHINES[name][1] * 1e9) <= 1.002
