"""Changes to a question that a user, a script or a bad disk could make."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

_EDGES = (
    "0", "-1", "1", "3", "7", "1e20", "1e300", "1e-320", "99999999999999999999", "9" * 300, "nan",
    "inf", "-inf", "", "x", ",", ":", "8192:", "8192:inf", "1.5", "0x10", "true", "null", "[]",
    "<script>alert(1)</script>", "=1+1", "../x", "ü", "a\x00b", "100000", "-0.0",
)  # fmt: skip
_FILE_WORDS = (*_EDGES, "'-.inf'", ".nan", "{}", "[1, 2]", "!!python/object:os.system x", "&a 1")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_NOT_CHANGED = ("--json", "--out", "--constants", "--scheduler", "--serving", "--install",
                "--remove", "--cv", "--kernels", "--fidelity", "--folder")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A command, with files whose content is changed; what was changed is kept for the oracle."""

    words: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Words before the first option, those of its name."""
        said = " ".join(self.words) + " "
        return next(name for name in command_names() if said.startswith(f"{name} "))

    @property
    def words_with_json(self) -> tuple[str, ...]:
        """The words, and a file for the figures where the command writes them."""
        return (*self.words, "--json", "o.json") if _writes_json(self.command) else self.words


@cache
def _commands() -> dict[str, Any]:
    """Commands by name, those of groups with the group's name before them."""
    from typer.main import get_command

    from simulator.cli.main import app

    found: dict[str, Any] = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        below = getattr(command, "commands", None)
        found |= {f"{name} {own}": c for own, c in below.items()} if below else {name: command}
    return found


def command_names() -> tuple[str, ...]:
    """Names of all commands."""
    return tuple(_commands())


@cache
def _writes_json(command: str) -> bool:
    return any("--json" in parameter.opts for parameter in _commands()[command].params)


@cache
def options_of(command: str) -> tuple[tuple[str, bool], ...]:
    """Options of a command, and whether they are flags."""
    return tuple(
        (parameter.opts[0], bool(getattr(parameter, "is_flag", False)))
        for parameter in _commands()[command].params
        if parameter.opts[0].startswith("--") and parameter.opts[0] not in _NOT_CHANGED
    )


def mutated(question: str, folder: Path, draw: random.Random) -> Case:
    """The question as it is (3 of 10), or with an option or a file changed."""
    case = Case(tuple(question.split()))
    files = [word for word in case.words if (folder / word).is_file()]
    files += [f"{word}/run.json" for word in case.words if (folder / word / "run.json").is_file()]
    kind = draw.random()
    if kind < 0.3:
        return case
    if files and kind < 0.65:
        name = draw.choice(files)
        content = (folder / name).read_bytes()
        for _ in range(draw.choice((1, 1, 2))):
            content = _changed(content, draw)
        return replace(case, files={name: content})
    for _ in range(draw.choice((1, 1, 2))):
        case = _with_option(case, draw)
    return case


def _with_option(case: Case, draw: random.Random) -> Case:
    options = options_of(case.command)
    if not options:
        return case
    name, is_flag = draw.choice(options)
    words = list(case.words)
    if is_flag:
        added = [name]
    else:
        added = [name, draw.choice(_EDGES)]
        if name in words:
            position = words.index(name)
            del words[position : position + 2]
    return replace(case, words=(*words, *added), options=(*case.options, name))


def _changed(content: bytes, draw: random.Random) -> bytes:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _bytes_changed(content, draw)
    lines = text.splitlines(keepends=True)
    way = draw.random()
    if way < 0.45:
        return _number_changed(text, draw).encode()
    at = draw.randrange(len(lines)) if lines else 0
    if way < 0.6 and lines:
        del lines[at]
    elif way < 0.7 and lines:
        lines.insert(at, lines[at])
    elif way < 0.85 and lines and ":" in lines[at]:
        lines[at] = lines[at].partition(":")[0] + ": " + draw.choice(_FILE_WORDS) + "\n"
    elif lines:
        letters = list(lines[at])
        letters[draw.randrange(len(letters))] = draw.choice('x,:{}[]"\n0-')
        lines[at] = "".join(letters)
    return "".join(lines).encode("utf-8", "replace")


def _number_changed(text: str, draw: random.Random) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    match = draw.choice(found)
    return text[: match.start()] + draw.choice(_FILE_WORDS) + text[match.end() :]


def _bytes_changed(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content))
    if draw.random() < 0.5:
        return content[:at]
    return content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
