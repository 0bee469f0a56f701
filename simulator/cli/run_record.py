"""What a run folder holds beside its results: command, version, inputs and what was printed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from simulator.basis.atomic import write_bytes, write_text
from simulator.basis.errors import FileFormatError, InputError
from simulator.cli.options import console

RECORD = "run.json"
INPUTS = "inputs"
SCHEMA = "v4sim.run/1"
# Larger inputs are named with their hash, and not copied.
MOST_BYTES = 64 * 2**20
# Where results go and who works on them: of no effect on what they are.
_NOT_ASKED = frozenset(("out", "json", "csv", "page", "workers", "scheduler", "install"))


def recorded(command: Callable[..., Any], given: Mapping[str, Any], *, force: bool = False) -> Any:
    """Run a command; where it leaves a folder (`--out DIR`), put the record of the run there.

    Raises InputError, before the work, for a folder that holds another question's results, unless
    `force`; the same question's are gone on with, or written again.
    """
    out = given.get("out")
    if not isinstance(out, Path):
        return command(**given)
    require_writable(out)
    question = question_of(command, given)
    if not force:
        _require_same(out, question)
    screen = console()
    screen.record = True
    try:
        code = command(**given)
        printed = screen.export_text(clear=True)
    finally:
        screen.record = False
    if out.is_dir():
        _write(out, given, code if isinstance(code, int) else 0, printed, question)
    return code


def question_of(command: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """SHA-256 of what decides a run's results: command, options, contents of files, version."""
    out = given.get("out")
    asked = {name: value for name, value in given.items() if name not in _NOT_ASKED}
    # Fields of a grid may stand before or after its option.
    if "more" in asked:
        asked["grid"] = [*(asked.get("grid") or ()), *(asked.pop("more") or ())]
    files = {word: hash_of(path) for word, path in _inputs(asked, out or Path("-"))}
    # A file of the same content under another name asks the same.
    options = {
        name: [
            files.get(str(own), str(own)) for own in (value if isinstance(value, list) else [value])
        ]
        for name, value in asked.items()
    }
    said = [getattr(command, "__name__", ""), options, sorted(files.values()), ours()]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def require_writable(out: Path) -> None:
    """Refuse, before the work, a folder that cannot be made or written. Raises InputError."""
    there = out.absolute()
    if there.suffix and there.is_file():
        return  # a file, which the command that writes it refuses to replace
    while not there.exists() and there != there.parent:
        there = there.parent
    reason = None
    if not there.is_dir():
        reason = os.strerror(errno.ENOTDIR)
    elif not os.access(there, os.W_OK | os.X_OK):
        read_only = os.statvfs(there).f_flag & os.ST_RDONLY
        reason = os.strerror(errno.EROFS if read_only else errno.EACCES)
    if reason:
        raise InputError(f"--out {out}: cannot make folder {out}: {there}: {reason}")


def _require_same(out: Path, question: str) -> None:
    """Refuse a folder whose record is of another question."""
    if not (out / RECORD).is_file():
        return
    try:
        record = read_record(out)
    except InputError:
        record = {}
    if record.get("question") == question:
        return
    words = " ".join(map(str, record.get("command", ()))) or "its record cannot be read"
    version_then = str(record.get("version", "unknown"))
    by = f" (version {version_then})" if version_then != ours() else ""
    raise InputError(
        f"--out {out}: holds the results of another question{by}: {words}; "
        "give another folder, or --force to replace them"
    )


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


def _write(out: Path, given: Mapping[str, Any], code: int, printed: str, question: str) -> None:
    kept = []
    for word, path in _inputs(given, out):
        size = path.stat().st_size
        digest = hash_of(path)
        entry: dict[str, Any] = {"given": word, "bytes": size, "sha256": digest}
        if size <= MOST_BYTES:
            folder = out / INPUTS / digest[:8]
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / path.name).exists():
                write_bytes(folder / path.name, path.read_bytes())
            entry["copy"] = str((folder / path.name).relative_to(out))
        kept.append(entry)
    record = {
        "schema": SCHEMA,
        "version": ours(),
        "question": question,
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
