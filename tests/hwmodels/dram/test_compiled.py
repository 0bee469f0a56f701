"""Compiled code is unpickled, so it is kept only where nobody else can plant it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hwmodels.dram import compiled

REPOSITORY = Path(compiled.__file__).parents[2]
# Runs where neither the package nor the user's cache is of use, and says where code would be kept.
PROGRAM = """
from pathlib import Path
from hwmodels.dram import compiled
compiled._HERE = Path("/proc/no-package")
print(compiled.cache_folder.__wrapped__())
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def test_a_new_folder_is_closed_to_others(place: Path) -> None:
    folder = compiled.private_folder(place / "deeper", "dram")
    assert folder == place / "deeper" / "dram"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert compiled.private_folder(place / "deeper", "dram") == folder


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o750, 0o1777])
def test_a_planted_folder_that_others_can_enter_is_not_used(place: Path, mode: int) -> None:
    planted = place / "dram"
    planted.mkdir()
    planted.chmod(mode)
    assert compiled.private_folder(place, "dram") is None


def test_a_planted_folder_of_somebody_else_is_not_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.chmod(0o1777)
    (place / "dram").mkdir(mode=0o700)
    owner = os.geteuid()
    # The folders above are root's, the planted one is of another user than this one.
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        found = list(real(path))
        found[stat.ST_UID] = owner if path == place / "dram" else 0
        return os.stat_result(found)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert compiled.private_folder(place, "dram") == place / "dram"
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert compiled.private_folder(place, "dram") is None


@pytest.mark.parametrize("kind", ["folder", "file", "nothing"])
def test_a_planted_link_is_not_followed(place: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    if kind == "folder":
        target.mkdir(mode=0o700)
    elif kind == "file":
        target.write_text("code")
    (place / "dram").symlink_to(target)
    assert compiled.private_folder(place, "dram") is None


def test_a_planted_file_is_not_used(place: Path) -> None:
    (place / "dram").write_text("code")
    assert compiled.private_folder(place, "dram") is None


def test_a_folder_above_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "cache").mkdir(parents=True)
    shared.chmod(0o777)
    assert compiled.private_folder(shared / "cache", "dram") is None
    shared.chmod(0o1777)  # sticky: others cannot rename what is ours
    assert compiled.private_folder(shared / "cache", "dram") is not None


def test_a_link_on_the_way_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (tmp_path / "link").symlink_to(shared)
    assert compiled.private_folder(tmp_path / "link", "dram") is None
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "other").symlink_to(own)
    assert compiled.private_folder(tmp_path / "other", "dram") == own / "dram"


def _kept_in(environment: dict[str, str]) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=clean | environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


def test_nothing_is_kept_in_the_temporary_folder(tmp_path: Path) -> None:
    """Without a folder of the user's own, code is compiled in memory and none is left behind."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    nowhere = {"XDG_CACHE_HOME": "/proc/no-cache", "TMPDIR": str(shared)}
    assert _kept_in(nowhere) == "None"
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_named_folders_are_used_only_where_private(tmp_path: Path, variable: str) -> None:
    named = tmp_path / "named"
    named.mkdir()
    environment = {"XDG_CACHE_HOME": "/proc/no-cache", variable: str(named)}
    assert _kept_in(environment).startswith(f"{named}{os.sep}")
    named.chmod(0o777)
    assert _kept_in(environment) == "None"


def test_a_function_runs_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "cache_folder", lambda: None)

    @compiled.compiled
    def twice(value: int) -> int:
        return 2 * value

    assert twice(21) == 42
