"""A scenario that is served in well under a second, sweeps of it, and points without a run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from simulator.basis.errors import InputError
from simulator.sweep.compute import Outcome, Task
from simulator.sweep.grid import parse_grid
from simulator.sweep.merge import merged_rows, write_merged
from simulator.sweep.parts import PartFolder
from simulator.sweep.point import span
from simulator.sweep.runner import plan_sweep, run_sweep

GRID = ("parallel.tp=1,4", "scheduler.max_requests=2,4", "engine=ideal,vllm-0.33")
TEXT = """\
name: tiny
model: v4-flash
chip: h200
parallel:
  tp: 4
engine: ideal
fidelity: roofline
traffic:
  made:
    input_tokens: 512
    output_tokens: 4
    requests: 20
    concurrency: 4
"""


def scenario_file(folder: Path, text: str = TEXT) -> Path:
    """The scenario in a file of a folder."""
    path = folder / "tiny.yaml"
    path.write_text(text)
    return path


def swept(folder, source, texts, text=TEXT):
    """(sweep, rows, bytes of the merged table) of a grid, with parts in a folder."""
    folder.mkdir(exist_ok=True)
    axes = parse_grid(texts)
    points = span(scenario_file(folder, text), axes)
    found = run_sweep(plan_sweep(points, PartFolder(folder / "parts")), source)
    rows = merged_rows(axes, points, found.outcomes)
    write_merged(folder / "sweep.parquet", rows, {"grid": list(texts)})
    return found, rows, (folder / "sweep.parquet").read_bytes()


def through(outcomes):
    """A source that yields, and keeps, what a function of the tasks makes."""

    def source(tasks, keep):
        inputs = {task.digest: task.inputs for task in tasks}
        for outcome in outcomes(tasks):
            keep(outcome, inputs[outcome.digest])
            yield outcome

    return source


def made(task: Task) -> Outcome:
    """An outcome without a run: the seed says what happens."""
    seed = task.scenario.seed
    if seed == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == 14:
        raise InputError("raised outside of what is caught")
    time.sleep(0.01 * (seed % 3))
    return Outcome(digest=task.digest, status="done", row={"seed": seed, "half": seed / 2})
