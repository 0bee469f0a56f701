"""The decorator of the compiled inner loop: numba with a cache on disk that cannot go stale.

Numba notices a change of a function's own file, not of the functions it calls. The cache therefore
lives in a folder named by a hash of every source file of this package. Where no folder is private
to the user, code is compiled in memory, anew in every process.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config as _numba_config

F = TypeVar("F", bound=Callable[..., Any])
config: Any = _numba_config  # its settings are made at run time, so no checker knows them
_HERE = Path(__file__).parent
# Packages whose loops are compiled; one's code may be inlined in another's.
_COMPILED = (_HERE, _HERE.parent / "llc", _HERE.parent / "machine")


@cache
def source_hash() -> str:
    """Hash of the sources that are compiled, which names the folder of compiled code."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(p for folder in _COMPILED for p in folder.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> str | None:
    """First private place for compiled code: NUMBA_CACHE_DIR, the package, the user's cache."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    places = [Path(named)] if named else []
    places.append(_HERE / "__pycache__")
    if os.path.isabs(home):
        places.append(Path(home) / "v4sim")
    for place in places:
        folder = private_folder(place, f"dram-{source_hash()}")
        if folder is not None:
            return str(folder)
    return None


def private_folder(place: Path, name: str) -> Path | None:
    """A writable folder that nobody else can plant files in, made where it is missing; or None.

    Numba unpickles what it finds there, which runs it. The folder is this user's own and closed to
    all others (0700), no symbolic link, and nobody else can put another one in its place.
    """
    if not hasattr(os, "geteuid"):
        return None  # the system tells no owners
    try:
        place.mkdir(parents=True, exist_ok=True)
        folder = place.resolve(strict=True) / name
        if not all(_only_ours_to_change(parent) for parent in folder.parents):
            return None
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return None
        if stat.S_IMODE(found.st_mode) & 0o077:
            return None
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # not writable, or links in a circle
        return None


def _only_ours_to_change(folder: Path) -> bool:
    """Whether no other user but root can replace an entry of this folder that is ours."""
    found = folder.lstat()
    writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid in (0, os.geteuid()) and (
        not writable or bool(found.st_mode & stat.S_ISVTX)
    )


def compiled(function: F) -> F:
    """Compile on first call; keep the machine code on disk where a folder is private."""
    return _compile(function, {"error_model": "numpy"})


def entry(function: F) -> F:
    """As `compiled`, for a loop that allocates nothing: no reference counts are kept."""
    return _compile(function, {"error_model": "numpy", "_nrt": False})


def inlined(function: F) -> F:
    """As `compiled`, for a part of the inner loop that is to vanish into its caller."""
    return _compile(function, {"error_model": "numpy", "forceinline": True, "_nrt": False})


def plain(function: F) -> F:
    """As `inlined`, for a part that stays a function of its own."""
    return _compile(function, {"error_model": "numpy", "_nrt": False})


def _compile(function: F, options: dict[str, Any]) -> F:
    folder = cache_folder()
    if folder is None:
        return numba.njit(**options)(function)
    before = config.CACHE_DIR
    config.CACHE_DIR = folder
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no way to cache after all: compile in every process
        return numba.njit(**options)(function)
    finally:
        config.CACHE_DIR = before
