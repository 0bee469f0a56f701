"""Which option or file of a command a refusal is about, where its message does not say so itself.

Checks deep in the model know values, not the options they came by. A message is taken to be about
an option whose own name opens it (`output_cv is ...`), or whose value it quotes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.basis.errors import DoesNotFitError, V4SimError

_YAML = (".yaml", ".yml", ".json")
# Letters that tell a word whatever its ending, and the length from which words tell anything.
_STEM, _SHORTEST = 5, 4


def placed(error: V4SimError, signature: inspect.Signature, given: Mapping[str, Any]) -> None:
    """Puts the option, or file and line, before a message that names neither."""
    message = error.message
    if "--" in message or isinstance(error, DoesNotFitError) or error.exit_code != 2:
        return
    values = {
        name: value
        for name, value in given.items()
        if name in signature.parameters
        and not isinstance(value, bool)
        and value not in (None, signature.parameters[name].default, (), [])
    }
    if re.match(r"\S[^:]*:\d+: ", message) or any(
        re.search(rf"(?<![\w.]){re.escape(str(value))}:\d", message)
        for value in _each(values)
        if isinstance(value, str | Path)
    ):
        return  # it names a file and its line
    place = (
        _by_opening(message, signature, values)
        or _by_name(message, signature, values)
        or _by_value(message, signature, values)
        or _in_a_file(message, values)
        or _by_words(message, signature, values)
    )
    argument = place and not place.startswith("--")
    if argument and any(message.startswith(str(value)) for value in _each(values)):
        return  # it opens with the argument itself
    if place and not message.startswith(place):
        value = place.partition(" ")[2]
        told = message.removeprefix(f"{value}: ").removeprefix(f"{Path(value)}: ")
        error.message = f"{place}: {told}"
        error.args = (error.message, *error.args[1:])


def _by_name(message: str, signature: inspect.Signature, values: Mapping[str, Any]) -> str | None:
    """The option whose name opens the message."""
    first = re.match(
        r"(?:unknown |the |a |an )?'?([\w -]+?)'?(?= is | of | '|:| \d| requests\b|$)", message
    )
    if first is None:
        return None
    words = re.sub(r"[ -]", "_", first.group(1)).lower()
    for name, value in values.items():
        if name == words or (name == f"{words}s") or (name == "max_" + words):
            return f"{_spelt(signature, name)} {_short(value)}"
    return None


def _by_opening(
    message: str, signature: inspect.Signature, values: Mapping[str, Any]
) -> str | None:
    """The option whose value the message opens with."""
    opening = message.partition(": ")[0].strip()
    for name, whole in values.items():
        for value in _each({name: whole}):
            if str(value) and opening in (str(value), str(Path(str(value)))):
                return f"{_spelt(signature, name)} {_short(whole)}"
    return None


def _by_value(message: str, signature: inspect.Signature, values: Mapping[str, Any]) -> str | None:
    """The option whose value the message quotes, or a part of whose value it does.

    What is quoted tells more than what only stands in the message, whichever option comes first.
    """
    quoted = {part for pair in re.findall(r"'([^']*)'|\"([^\"]*)\"", message) for part in pair}
    told = message.partition(": known")[0]

    def is_quoted(value: str) -> bool:
        return value in quoted or repr(value)[1:-1] in quoted

    def is_said(value: str) -> bool:
        digits = f"{int(value):,}" if value.isdecimal() and len(value) < 20 else value
        bare = re.search(rf"\b(?:is|of) {re.escape(digits)}(?![\w.,]*\d)", message)
        in_words = len(value) > 2 and re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w-])", told)
        cut = len(value) > 60 and value[:40] in message and not Path(value).is_file()
        return bool(bare or in_words or cut)

    def has_a_part_quoted(value: str) -> bool:
        return any(part in quoted for part in set(re.split(r"[,:=+/ ]", value)) - {""})

    for is_meant in (is_quoted, is_said, has_a_part_quoted):
        for name, whole in values.items():
            if any(is_meant(str(value)) for value in _each({name: whole})):
                return f"{_spelt(signature, name)} {_short(whole)}"
    return None


def _by_words(message: str, signature: inspect.Signature, values: Mapping[str, Any]) -> str | None:
    """The option with most words of its name in the message, told by their beginnings."""
    if any(len(Path(str(v)).name) > 2 and Path(str(v)).name in message for v in _each(values)):
        return None  # it names a file or a value already
    said = {word[:_STEM] for word in re.findall(r"[a-z]+", message.lower())}
    shared = {
        name: sum(word[:_STEM] in said for word in name.split("_") if len(word) >= _SHORTEST)
        for name in values
    }
    name = max(shared, key=lambda name: shared[name], default="")
    if not name or not shared[name]:
        return None
    return f"{_spelt(signature, name)} {_short(values[name])}"


def _in_a_file(message: str, values: Mapping[str, Any]) -> str | None:
    """The YAML file given, and the only line of it that holds what the message quotes."""
    for value in _each(values):
        path = Path(str(value))
        if path.suffix not in _YAML or not path.is_file() or str(path) in message:
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        first = re.match(r"'?([a-z_]+)'? is ", message)
        wanted = [f"{first.group(1)}:"] if first else []
        opening = re.match(r"(\S+/\S*) is ", message)  # a path that the file names
        wanted += [opening.group(1)] if opening else []
        wanted += re.findall(r"'([^']+)'", message.partition(": known")[0])
        for word in wanted:
            at = [number for number, line in enumerate(lines, 1) if word in line]
            if len(at) == 1:
                return f"{path}:{at[0]}"
        # A question that does not fit names quantities, and no key of its file is at fault.
        return None if re.search(r"\d", message) else str(path)
    return None


def _each(values: Mapping[str, Any]) -> list[Any]:
    return [
        item
        for value in values.values()
        for item in (value if isinstance(value, list | tuple) else (value,))
    ]


def _spelt(signature: inspect.Signature, name: str) -> str:
    """The option as it is typed; an argument by the word that the help shows."""
    for fact in getattr(signature.parameters[name].annotation, "__metadata__", ()):
        if type(fact).__name__ == "ArgumentInfo":
            return str(fact.metavar or name.upper())
        declared = [
            word
            for word in (
                getattr(fact, "default", None),
                *(getattr(fact, "param_decls", None) or ()),
            )
            if isinstance(word, str) and "--" in word  # the parser takes the first for a default
        ]
        if declared:
            return declared[0]
    return "--" + name.replace("_", "-")


def _short(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
