"""The decorator of the compiled inner loop: numba with a cache on disk that cannot go stale.

Numba notices a change of a function's own file, not of the functions it calls. The cache therefore
lives in a folder named by a hash of every source file of this package.
"""

from __future__ import annotations

import hashlib
import os
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


@cache
def source_hash() -> str:
    """Hash of the sources of this package, which names the folder of compiled code."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(_HERE.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> str | None:
    """First place where compiled code can be kept: the package, the user's cache, or none."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    places = [_HERE / "__pycache__", Path(home) / "v4sim", Path(tempfile.gettempdir()) / "v4sim"]
    if os.environ.get("NUMBA_CACHE_DIR"):
        places.insert(0, Path(os.environ["NUMBA_CACHE_DIR"]))
    for place in places:
        folder = place / f"dram-{source_hash()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return str(folder)
        except OSError:
            continue
    return None


def compiled(function: F) -> F:
    """Compile on first call; keep the machine code on disk where a folder is writable."""
    return _compile(function, {"error_model": "numpy"})


def entry(function: F) -> F:
    """As `compiled`, for a loop that allocates nothing: no reference counts are kept."""
    return _compile(function, {"error_model": "numpy", "_nrt": False})


def inlined(function: F) -> F:
    """As `compiled`, for a part of the inner loop that is to vanish into its caller."""
    return _compile(function, {"error_model": "numpy", "forceinline": True, "_nrt": False})


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
