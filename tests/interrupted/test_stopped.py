"""kill -9 and Ctrl-C at random times: files are whole or absent, and the same command goes on."""

from __future__ import annotations

import random
import shutil
import signal
import time
from functools import cache
from pathlib import Path

import pytest

from tests.interrupted.runs import (
    COMMANDS,
    PATIENCE_S,
    SIGNALS,
    at_first_file,
    begun,
    moment,
    partial_files,
    stopped,
    temporaries,
)
from tests.sampling import WHOLE

SEED = 19
# Of each command and signal; `make test` takes short commands alone, ten stops in all.
TIMES = 10 if WHOLE else 2
NAMES = tuple(COMMANDS) if WHOLE else ("serve", "prefix compare", "sweep")
# About how long Python takes to its first line of ours; an interrupt before is Python's to tell.
STARTING_S = 0.25


@cache
def longest_s(name: str) -> float:
    """Within which stops are drawn: how long the whole run takes here."""
    if not WHOLE:
        return 2.0
    folder = Path(_folder_of_runs()) / name.replace(" ", "-")
    began = time.monotonic()
    running = begun(name, folder)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, err
    return time.monotonic() - began


@cache
def _folder_of_runs() -> str:
    import tempfile

    return tempfile.mkdtemp()


@pytest.mark.parametrize("name", NAMES)
def test_stopped_at_any_time(name: str, tmp_path: Path) -> None:
    draw = random.Random(f"{SEED}/{name}")
    longest = longest_s(name)
    for number, signal_name in enumerate(sorted(SIGNALS) * TIMES):
        folder = tmp_path / str(number)
        running = begun(name, folder)
        out = folder / "out"
        writing = number % 6 >= 4 or number == 1
        if writing:
            at_first_file(running, out)
        after_s = draw.uniform(0, 0.4) if writing else STARTING_S + moment(draw, longest)
        code, err = stopped(running, SIGNALS[signal_name], after_s)
        told = f"{name} {number} after {after_s:.3f} s: {code} {err}"
        assert not partial_files(out), told
        if code == -signal.SIGINT and "simulator" not in err:
            continue  # Python itself was not up yet
        assert "Traceback" not in err, told
        if signal_name == "interrupt":
            assert code in (0, 130), told
            assert not temporaries(out), told
            lines = [line for line in err.splitlines() if line.startswith("error:")]
            assert len(lines) == (code == 130), told
        if WHOLE and name != "demo":
            again = begun(name, folder)
            _, err = again.communicate(timeout=PATIENCE_S)
            assert again.returncode == 0, f"{told}; again: {err}"
            assert not partial_files(out), told
            assert not temporaries(out), told
        shutil.rmtree(folder)
