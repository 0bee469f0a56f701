"""Too little disk, memory or descriptors, a folder that cannot be written, two runs at once.

Each run answers whole, or says in a sentence what it lacks and leaves nothing partial.
"""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interrupted.runs import PATIENCE_S, begun, partial_files, temporaries
from tests.interrupts import hears_interrupts
from tests.sampling import WHOLE

NAMES = ("serve", "sweep", "plan", "prefix compare") if WHOLE else ("serve",)
WHOLE_ONLY = pytest.mark.skipif(not WHOLE, reason="a part of make test-all")
_GB = 10**9


def ended(
    name: str, folder: Path, before: Callable[[], None] = hears_interrupts
) -> tuple[int, str]:
    """Exit code and faults of a run."""
    running = begun(name, folder, before)
    _, err = running.communicate(timeout=PATIENCE_S)
    return running.returncode, err


def holds(code: int, err: str, out: Path) -> None:
    """It answered, or refused in a sentence; nothing partial is there."""
    assert "Traceback" not in err, err
    assert code in (0, 2, 3), err
    assert (code == 0) == ("error: " not in err), err
    assert not partial_files(out), err
    assert not temporaries(out), err


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A file system in memory at a folder; the test is left out where it cannot be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kilobytes", [4, 40, 160] if WHOLE else [40])
def test_a_disk_that_fills_up(name: str, kilobytes: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with mounted(out, f"size={kilobytes}k"):
        code, err = ended(name, tmp_path)
        holds(code, err, out)
        # Some runs are small enough for the larger ones.
        assert code == 2 or kilobytes > 4, err
        assert not code or "No space left" in err or "disk is full" in err, err


@WHOLE_ONLY
@pytest.mark.parametrize("name", NAMES)
def test_files_that_may_not_grow(name: str, tmp_path: Path) -> None:
    def small_files() -> None:
        hears_interrupts()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

    code, err = ended(name, tmp_path, small_files)
    holds(code, err, tmp_path / "out")
    assert code == 2, err


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_is_read_only(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with mounted(out, "ro"):
        code, err = ended(name, tmp_path)
    assert code == 2, err
    assert "Read-only" in err
    assert str(out.name) in err


@WHOLE_ONLY
@pytest.mark.parametrize("name", NAMES)
def test_two_runs_into_one_folder(name: str, tmp_path: Path) -> None:
    both = [begun(name, tmp_path), begun(name, tmp_path)]
    for running in both:
        _, err = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 0, err
    assert not partial_files(tmp_path / "out")
    assert not temporaries(tmp_path / "out")


@WHOLE_ONLY
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("most", [24, 64])
def test_few_open_files(name: str, most: int, tmp_path: Path) -> None:
    def few_files() -> None:
        hears_interrupts()
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    code, err = ended(name, tmp_path, few_files)
    holds(code, err, tmp_path / "out")


@WHOLE_ONLY
@pytest.mark.parametrize("name", NAMES)
def test_two_gigabytes_of_address_space(name: str, tmp_path: Path) -> None:
    def little_memory() -> None:
        hears_interrupts()
        resource.setrlimit(resource.RLIMIT_AS, (2 * _GB, 2 * _GB))

    code, err = ended(name, tmp_path, little_memory)
    holds(code, err, tmp_path / "out")
    assert code == 0, err
