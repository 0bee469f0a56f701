"""Small runs that write a folder, as processes of their own, and what of a folder is whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import yaml

from tests.fuzz.samples import write_samples
from tests.interrupts import hears_interrupts

COMMANDS = {
    "serve": "serve chat.yaml",
    "sweep": "sweep chat.yaml --workers 1 --grid scheduler.max_requests=4,8",
    "plan": "plan plan.yaml --no-sensitivity",
    "prefix compare": "prefix compare --trace a.jsonl --policies zero,full",
    "demo": "demo",
}
ENTRY = (sys.executable, "-m", "simulator.cli.entry")
# Longer than any of the runs takes.
PATIENCE_S = 500


def begun(
    name: str, folder: Path, before: Callable[[], None] = hears_interrupts
) -> subprocess.Popen[str]:
    """The command of a name, begun in a folder; results go to its folder `out`."""
    folder.mkdir(exist_ok=True)
    if not (folder / "chat.yaml").exists():
        write_samples(folder)
    return subprocess.Popen(
        [*ENTRY, *COMMANDS[name].split(), "--out", "out"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=before,
    )


def stopped(running: subprocess.Popen[str], number: int, after_s: float) -> tuple[int, str]:
    """Sends a signal to the run and its workers; its exit code and what it said of faults."""
    try:
        _, err = running.communicate(timeout=after_s)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, number)
        _, err = running.communicate(timeout=PATIENCE_S)
    return running.returncode, err


def at_first_file(running: subprocess.Popen[str], out: Path) -> None:
    """Waits until the run begins to write."""
    while running.poll() is None and not (out.is_dir() and any(out.iterdir())):
        time.sleep(0.002)


def partial_files(out: Path) -> list[str]:
    """Files under their final names that are not whole."""
    found = []
    for path in out.rglob("*") if out.is_dir() else ():
        if path.is_file() and not path.name.endswith(".tmp") and not _is_whole(path):
            found.append(str(path.relative_to(out)))
    return found


def temporaries(out: Path) -> list[str]:
    """What a run has left beside the files."""
    return [path.name for path in out.rglob(".*.tmp")]


def _is_whole(path: Path) -> bool:
    try:
        match path.suffix:
            case ".json":
                json.loads(path.read_text())
            case ".jsonl":
                for line in path.read_text().splitlines():
                    json.loads(line)
            case ".parquet":
                pq.read_table(path)
            case ".yaml":
                yaml.safe_load(path.read_text())
            case ".html" | ".svg":
                return path.read_text().rstrip().endswith((">",))
            case _:
                return path.stat().st_size > 0
    except (ValueError, OSError, yaml.YAMLError):
        return False
    return True


def moment(draw: random.Random, longest_s: float) -> float:
    """Seconds after the start: anywhere, the imports at the beginning as often as the rest."""
    return draw.uniform(0, draw.choice((0.6, longest_s)))


SIGNALS = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}
