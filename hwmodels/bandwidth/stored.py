"""What the burst-level model and the machine gave, kept between processes in a cache folder.

An entry is named by the code and by everything that decides it, so that it never goes stale.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import hwmodels
from simulator.basis.atomic import write_text
from simulator.basis.errors import V4SimError

_FOLDER = "cycle"
Entry = TypeVar("Entry")


def entry_key(inputs: Mapping[str, Any]) -> str:
    """Name of an entry: the inputs that decide it, and the code."""
    whole = {**inputs, "code": code_hash()}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:32]


def stored(
    key: str,
    make: Callable[[], Entry],
    to_json: Callable[[Entry], Any],
    from_json: Callable[[Any], Entry],
) -> Entry:
    """An entry from the user's cache folder, or made and put there where that is possible."""
    folder = cache_folder()
    path = folder / f"{key}.json"
    try:
        return from_json(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        pass  # not there, or cut off: made anew
    made = make()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(to_json(made)))
    except (OSError, V4SimError):
        pass  # no place to keep it: it is known in this process
    return made


@cache
def code_hash() -> str:
    """Hash of the sources that a simulation runs through."""
    digest = hashlib.sha256()
    root = Path(hwmodels.__file__).parent
    for folder in ("bandwidth", "dram", "llc", "machine"):
        for path in sorted((root / folder).glob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def cache_folder() -> Path:
    """Where entries are kept between processes: the folder V4SIM_CACHE, or the user's cache."""
    named = os.environ.get("V4SIM_CACHE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "v4sim" / _FOLDER
