"""What a run folder holds beside its results: command, version, inputs and what was printed."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from simulator.basis.atomic import write_text
from simulator.basis.errors import FileFormatError, InputError
from simulator.cli.options import console

RECORD = "run.json"
INPUTS = "inputs"
SCHEMA = "v4sim.run/1"
# Larger inputs are named with their hash, and not copied.
MOST_BYTES = 64 * 2**20


def recorded(command: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Run a command; where it leaves a folder (`--out DIR`), put the record of the run there."""
    out = given.get("out")
    if not isinstance(out, Path):
        return command(**given)
    screen = console()
    screen.record = True
    try:
        code = command(**given)
        printed = screen.export_text(clear=True)
    finally:
        screen.record = False
    if out.is_dir():
        _write(out, given, code if isinstance(code, int) else 0, printed)
    return code


def read_record(folder: Path) -> dict[str, Any]:
    """The record in a run folder. Raises InputError where there is none, or it cannot be read."""
    path = folder / RECORD
    if not path.is_file():
        what = "no such folder" if not folder.is_dir() else f"no {RECORD} in it"
        raise InputError(f"{folder}: {what}; --out DIR of a command makes a run folder")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        assert found["schema"] == SCHEMA
    except (ValueError, KeyError, TypeError, AssertionError):
        raise FileFormatError(f"{path}:1: is no record of a run ({SCHEMA})") from None
    return dict(found)


def ours() -> str:
    """Version of this installation."""
    try:
        return version("v4sim")
    except PackageNotFoundError:
        return "not installed"


def hash_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(out: Path, given: Mapping[str, Any], code: int, printed: str) -> None:
    kept = []
    for word, path in _inputs(given, out):
        size = path.stat().st_size
        digest = hash_of(path)
        entry: dict[str, Any] = {"given": word, "bytes": size, "sha256": digest}
        if size <= MOST_BYTES:
            folder = out / INPUTS / digest[:8]
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / path.name).exists():
                shutil.copyfile(path, folder / path.name)
            entry["copy"] = str((folder / path.name).relative_to(out))
        kept.append(entry)
    record = {
        "schema": SCHEMA,
        "version": ours(),
        "command": ["v4sim", *sys.argv[1:]],
        "exit_code": code,
        "inputs": kept,
        "printed": printed,
    }
    write_text(out / RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _inputs(given: Mapping[str, Any], out: Path) -> Iterator[tuple[str, Path]]:
    """Files that options name, those that a YAML among them names, and questions that ship."""
    seen: set[Path] = set()
    waiting = [
        (word, Path(word)) for word in _words({k: v for k, v in given.items() if k != "out"})
    ]
    waiting += [(word, path) for word, path in _shipped(given) if path.is_file()]
    while waiting:
        word, path = waiting.pop(0)
        try:
            is_file = path.is_file()
        except OSError:
            continue
        if not is_file or path.resolve() in seen or path.resolve().is_relative_to(out.resolve()):
            continue
        seen.add(path.resolve())
        yield word, path
        if path.suffix in (".yaml", ".yml"):
            try:
                data = yaml.safe_load(path.read_text(encoding="utf-8"))
            except (yaml.YAMLError, UnicodeDecodeError):
                continue
            waiting += [(name, path.parent / name) for name in _words(data)]


def _shipped(given: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    from simulator.plan.plan_question import PLANS
    from simulator.serve.scenario_file import SCENARIOS

    for key, folder in (("scenario", SCENARIOS), ("question", PLANS)):
        if isinstance(given.get(key), str) and "/" not in given[key]:
            yield given[key], folder / f"{given[key].lower()}.yaml"


def _words(value: Any) -> list[str]:
    """All texts and paths below a value; of `key=value` the value."""
    if isinstance(value, Mapping):
        return [word for own in value.values() for word in _words(own)]
    if isinstance(value, list | tuple):
        return [word for own in value for word in _words(own)]
    if isinstance(value, str | Path):
        text = str(value)
        return [part for part in {text, text.partition("=")[2]} if part and len(part) < 4096]
    return []
