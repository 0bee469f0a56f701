"""The built wheel in a clean environment elsewhere: import, commands, init, pages."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.sampling import WHOLE

ROOT = Path(__file__).parents[2]
TOP_LEVEL = {"v4sim", "simulator", "hwmodels", "workloads", "reports"}


def call(*words: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode and "pip" in [str(word) for word in words]:
        pytest.skip(f"pip could not install (no registry?): {done.stderr.strip()[-200:]}")
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not WHOLE, reason="builds and installs for a minute or more: make test-all")
def test_a_clean_environment_has_everything(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    call(*pip, "wheel", "--no-deps", "-w", tmp_path / "wheel", ROOT, cwd=tmp_path)
    (wheel,) = (tmp_path / "wheel").glob("v4sim-*.whl")
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == TOP_LEVEL
    call(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    binaries = tmp_path / "venv" / "bin"
    call(binaries / "python", "-m", "pip", "-q", "install", wheel, cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ask = "import v4sim; print(v4sim.capacity(model='v4-flash', chip='b200', count=8).fits)"
    assert call(binaries / "python", "-c", ask, cwd=elsewhere).strip() == "True"
    v4sim = binaries / "v4sim"
    call(v4sim, "init", "chip", cwd=elsewhere)
    step = ("step", "--model", "v4-flash", "--chip", "my-chip.yaml", "--count", "8", "--out", "out")
    call(v4sim, *step, cwd=elsewhere)
    assert (elsewhere / "out" / "report.html").stat().st_size > 10_000
    call(v4sim, "verify", cwd=elsewhere)
