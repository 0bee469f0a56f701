"""YAML text to plain data with a line for every key, under the YAML 1.2 core rules for scalars.

PyYAML reads scalars by YAML 1.1, where `4.8e12` is a string, `no` is false and `8:30` is 510.
Here only its parser is used: nodes are composed without types, and typed by the rules below.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.basis.errors import FileFormatError, InputError

Keys = tuple[str | int, ...]

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {word: word.lower() == "true" for word in ("true", "True", "TRUE")} | {
    word: False for word in ("false", "False", "FALSE")
}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NON_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_NUMBER = 400


class LineMap:
    """Where each key of a file stands; builds the error that names file and line."""

    def __init__(self, path: Path, lines: dict[Keys, int]) -> None:
        self.path = path
        self.lines = lines

    def __call__(self, keys: Sequence[str | int]) -> int:
        """Line (from 1) of a key path, or of its nearest ancestor that the file has."""
        place = tuple(keys)
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def error(
        self, keys: Sequence[str | int], sentence: str, kind: type[InputError] = FileFormatError
    ) -> InputError:
        """Error whose message is `path:line: sentence`; the caller raises it."""
        return kind(f"{self.path}:{self(keys)}: {sentence}")


def dotted(keys: Sequence[str | int]) -> str:
    """Key path as a user reads it: `cores.sram[2].unit`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


def read_text(path: Path) -> str:
    """Text of a UTF-8 file; a missing or undecodable one is an InputError naming it."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: expected a file, this is a folder") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise FileFormatError(f"{path}:{line}: byte {error.start} is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def compose_text(text: str, path: Path) -> tuple[Any, LineMap]:
    """Typed data of one YAML document and the line of every key in it."""
    import yaml

    # The base loader resolves no scalar by itself, so every plain one arrives as text.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        node = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, path) from None
    except RecursionError:
        raise FileFormatError(f"{path}:1: nested too deeply to be read") from None
    if node is None:
        raise FileFormatError(f"{path}:1: the file is empty, expected a mapping of keys")
    reader = _Reader(text, LineMap(path, {}))
    return reader.value(node, ()), reader.lines


def _syntax_error(error: Exception, text: str, path: Path) -> FileFormatError:
    """One sentence with a line from what the YAML parser says."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:  # a reader error carries a character position only
        position = getattr(error, "position", 0)
        line = text[:position].count("\n") + 1 if isinstance(position, int) else 1
        reason = getattr(error, "reason", None) or "not YAML"
        return FileFormatError(f"{path}:{line}: not valid YAML: {reason}")
    line = mark.line + 1
    source = text.splitlines()[mark.line : line]
    if source and re.match(r"\s*\t", source[0]):
        sentence = "the line is indented with a tab, expected spaces"
    elif "another document" in str(error):
        sentence = "a second document starts here, expected one document a file"
    else:
        context = getattr(error, "context", None)
        problem = getattr(error, "problem", None) or "cannot be parsed"
        sentence = "not valid YAML: " + (f"{context}, {problem}" if context else problem)
    return FileFormatError(f"{path}:{line}: {sentence}")


class _Reader:
    """Walks composed nodes: types scalars, refuses surprises, notes lines."""

    def __init__(self, text: str, lines: LineMap) -> None:
        self.text = text
        self.lines = lines

    def value(self, node: Any, keys: Keys) -> Any:
        self.lines.lines.setdefault(keys, node.start_mark.line + 1)
        self._refuse_decoration(node)
        if isinstance(node.value, str):
            if node.style:  # quoted or block text is never a number
                return node.value
            return self._plain(node.value, keys)
        if node.id == "sequence":
            return [self.value(item, (*keys, i)) for i, item in enumerate(node.value)]
        return self._mapping(node, keys)

    def _mapping(self, node: Any, keys: Keys) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            self._refuse_decoration(key_node)
            line = key_node.start_mark.line + 1
            if not isinstance(key_node.value, str):
                raise self._at(line, f"a key is a {key_node.id}, expected a name")
            key, place = key_node.value, (*keys, key_node.value)
            if key == "<<":
                raise self._at(line, "merge key '<<' is not supported, write the keys out")
            if key in data:
                first = self.lines.lines[place]
                raise self._at(
                    line, f"duplicate key {dotted(place)!r}, first given on line {first}"
                )
            self.lines.lines[place] = line
            data[key] = self.value(value_node, place)
        return data

    def _refuse_decoration(self, node: Any) -> None:
        """Anchors and tags would make a value depend on text elsewhere or on the reader."""
        first = self.text[node.start_mark.index : node.start_mark.index + 1]
        if first == "&":
            raise self._at(
                node.start_mark.line + 1, "anchors and aliases are not supported, repeat the value"
            )
        if first == "!":
            raise self._at(
                node.start_mark.line + 1, "tags such as '!!int' are not supported, drop the tag"
            )

    def _plain(self, word: str, keys: Keys) -> str | int | float | bool | None:
        if word in _NULL:
            return None
        if word in _BOOL:
            return _BOOL[word]
        if _NON_FINITE.fullmatch(word):
            raise self._bad(keys, f"is {word}, expected a finite number")
        if len(word) > _LONGEST_NUMBER and _FLOAT.fullmatch(word):
            raise self._bad(keys, f"has {len(word)} digits, expected at most {_LONGEST_NUMBER}")
        if _DECIMAL.fullmatch(word):
            return int(word)
        if _BASED.fullmatch(word):
            return int(word, 0)
        if _FLOAT.fullmatch(word):
            number = float(word)
            if not math.isfinite(number):
                raise self._bad(keys, f"is {word}, expected a finite number (below 1.8e308)")
            return number
        return word

    def _bad(self, keys: Keys, sentence: str) -> InputError:
        return self.lines.error(keys, f"{dotted(keys)!r} {sentence}" if keys else sentence)

    def _at(self, line: int, sentence: str) -> FileFormatError:
        return FileFormatError(f"{self.lines.path}:{line}: {sentence}")
