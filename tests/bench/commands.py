"""Commands as a user starts them: wall time and peak memory of a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.line import Line
from tests.bench.steps import ENGINES

SILICON = Path(__file__).parents[1] / "validation" / "silicon"
PRO = ("--model", "v4-pro", "--chip", "b200", "--count", "8")
KIB_A_MIB = 1024
MILLI = 1e-3


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished process."""

    seconds: float
    peak_mib: float


def run(*arguments: str) -> Ran:
    """Runs `python -m simulator.cli.main`; its output is thrown away."""
    command = [sys.executable, "-m", "simulator.cli.main", *arguments]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Ran(time.perf_counter() - begin, usage.ru_maxrss / KIB_A_MIB)


def command_lines() -> list[Line]:
    """`step` at a million tokens, `validate` with and without fits, and `calibrate`."""
    step = run("step", *PRO, "--batch", "1", "--context", "1048576")
    with tempfile.TemporaryDirectory() as folder:
        stored = run("validate", str(SILICON))
        cross = run("validate", str(SILICON), "--cv")
        fitted = run("calibrate", str(SILICON), "--out", folder)
    return [
        _wall("step, v4-pro, 8 x b200, 1 request of 1,048,576 tokens", step),
        Line(what="  peak memory of that process", value=step.peak_mib, unit="MiB"),
        _wall("validate, 18,204 rows with stored constants", stored),
        _wall("validate --cv, all families fitted six times", cross),
        Line(what="  over stored constants", value=cross.seconds / stored.seconds, unit="x"),
        _wall("calibrate, all families", fitted),
    ]


def _wall(what: str, ran: Ran) -> Line:
    return Line(what=f"v4sim {what}", value=ran.seconds, unit="s")


def step_lines() -> list[Line]:
    """Steps priced one after the other in a fresh process."""
    command = [sys.executable, "-m", "tests.bench.steps"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    what = "v4-pro, 8 x b200, TP8, ideal, tile"
    lines = [
        Line(
            what=f"{what}: first, batch 64 at 131,072 tokens",
            value=found["first"],
            unit="s",
            most=0.5,
        ),
        Line(what=f"{what}: new batch and context", value=found["new"] / MILLI, unit="ms", most=5),
        *(
            Line(what=f"  {kind}", value=found[kind] / MILLI, unit="ms", most=5)
            for kind in ("mixed", *ENGINES)
        ),
        Line(what=f"{what}: repeated", value=found["repeated"] / MILLI, unit="ms", most=0.1),
        Line(what="  first over repeated", value=found["first"] / found["repeated"], unit="x"),
    ]
    if "cycle" in found:
        cycle = what.replace("tile", "cycle")
        lines.append(Line(what=f"{cycle}: first", value=found["cycle"], unit="s", most=20))
    return lines
