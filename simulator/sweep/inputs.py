"""Everything that decides a point, as one canonical text, and its hash."""

from __future__ import annotations

import hashlib
import json
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hwmodels.chip import find_chip
from simulator.basis.data_files import is_path
from simulator.basis.errors import InputError
from simulator.serve.scenario import FILES, Scenario, names_file, with_files

_ROOT = Path(__file__).parents[2]
# What a run is made of; the command line and the reports have no part in its figures.
_CODE = ("simulator", "hwmodels", "workloads")
_NOT_CODE = ("__pycache__", "cli")
_CHUNK_BYTES = 1 << 20
_NAMED_FILES = ("model", "chip", "engine")


@cache
def product_version() -> str:
    """Version of the package, and a hash of its code and facts: an edited one is another."""
    digest = hashlib.sha256()
    for top in _CODE:
        for path in sorted((_ROOT / top).rglob("*")):
            if path.is_file() and not set(path.relative_to(_ROOT).parts) & set(_NOT_CODE):
                digest.update(f"{path.relative_to(_ROOT).as_posix()}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{version('v4sim')}+{digest.hexdigest()[:12]}"


def with_whole_paths(scenario: Scenario) -> Scenario:
    """The scenario with every file under its absolute path, for processes in other folders."""
    return with_files(scenario, _whole)


def inputs_of(scenario: Scenario) -> dict[str, Any]:
    """Plain data of a scenario in which files stand by their names and contents.

    Raises InputError for a file that cannot be read. A chip's file stands with those of its node
    and of its memory's preset where it names them; an engine's is hashed by itself, without further
    files that it may name.
    """
    data = scenario.model_dump(mode="json")
    for section, key in FILES:
        place = data[section] if section else data
        if place is not None and names_file((section, key), place[key]):
            place[key] = _file(place[key], key)
    if is_path(scenario.chip):
        chip = find_chip(scenario.chip)
        for key, name in (("node", chip.node), ("preset", chip.memory.preset or "")):
            if is_path(name):
                data["chip"][key] = _file(name, key)
    return data


def fact_hashes(scenario: Scenario) -> dict[str, str]:
    """Hashes of model, chip and engine files by their paths; none for shipped names."""
    given = (getattr(scenario, name) for name in _NAMED_FILES)
    return {path: content_hash(Path(path), "file") for path in given if is_path(path)}


def canonical(inputs: dict[str, Any]) -> str:
    """One text for equal inputs: sorted keys, no spaces, the product's version."""
    whole = {"scenario": inputs, "version": product_version()}
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(text: str) -> str:
    """Hash of a canonical text, as parts are named: 32 hexadecimal digits (128 bits)."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _file(name: str, what: str) -> dict[str, str]:
    path = Path(name)
    return {"file": path.name, "sha256": content_hash(path, what)}


def content_hash(path: Path, what: str) -> str:
    """SHA-256 of a file, or of the names and contents of a folder's files."""
    try:
        if not path.is_dir():
            return _hash_at(str(path), path.stat().st_mtime_ns, path.stat().st_size)
        digest = hashlib.sha256()
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            found = file.stat()
            digest.update(f"{file.relative_to(path).as_posix()}\0".encode())
            digest.update(_hash_at(str(file), found.st_mtime_ns, found.st_size).encode())
        return digest.hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {what} {path}: {error.strerror or error}") from None


@lru_cache(maxsize=4096)
def _hash_at(path: str, changed_ns: int, size_bytes: int) -> str:
    """Hash of a file as it was at a time of change, so that points do not read it again."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _whole(name: str) -> str:
    return str(Path(name).expanduser().absolute())
