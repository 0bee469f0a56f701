"""The one loader of the files a user touches: strict YAML (and JSON) into frozen models.

Every fault is one sentence that starts with `path:line:` and says what was given, what was
expected and the nearest valid name. Nothing is guessed and nothing is ignored.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from simulator.basis.errors import FileFormatError, V4SimError
from simulator.basis.schema_errors import KeyFaultError, translate
from simulator.basis.yaml_nodes import Keys, LineMap, compose_text, dotted, read_text

__all__ = [
    "KeyFaultError",
    "Keys",
    "LineMap",
    "StrictModel",
    "compose_yaml",
    "dotted",
    "load_json_mapping",
    "load_yaml",
    "validate_data",
]


class StrictModel(BaseModel):
    """Base of every fact: frozen, no unknown field, no silent conversion of types.

    Use `tuple[...]` for lists: a YAML list fits it, and it stays frozen.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )


T = TypeVar("T", bound=BaseModel)


def load_yaml(path: Path | str, schema: type[T]) -> T:
    """Validated model of a YAML file, or a FileFormatError with file and line."""
    data, lines = compose_yaml(path)
    return validate_data(data, lines, schema)


def compose_yaml(path: Path | str) -> tuple[dict[str, Any], LineMap]:
    """Plain data of a YAML file whose top is a mapping, and the line of every key."""
    path = Path(path)
    data, lines = compose_text(read_text(path), path)
    if not isinstance(data, dict):
        what = "a list" if isinstance(data, list) else repr(data)
        raise FileFormatError(f"{path}:{lines(())}: the file is {what}, expected a mapping of keys")
    return data, lines


def validate_data(data: dict[str, Any], lines: LineMap, schema: type[T]) -> T:
    """Model of composed data; errors point at the lines of the file it came from."""
    # Strict JSON mode takes a list where the model has a tuple; strict Python mode would not.
    try:
        return schema.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise translate(error, data, schema, lines) from None
    except V4SimError as error:  # raised inside a validator that knows no line
        raise type(error)(f"{lines.path}:{lines(())}: {error.message}") from None


def load_json_mapping(path: Path | str) -> tuple[dict[str, Any], LineMap]:
    """Plain data of a JSON file whose top is a mapping, with lines like `compose_yaml`.

    Duplicate keys and the NaN and Infinity that Python's reader would take are refused.
    """
    path = Path(path)
    text = read_text(path)
    try:
        data = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        raise FileFormatError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from None
    except _JsonFaultError as fault:
        _json_lines(text, path)  # names a duplicate key with its exact line
        line = _line_of_fault(text, fault)
        raise FileFormatError(f"{path}:{line}: {fault.sentence}") from None
    except ValueError as error:  # a number of thousands of digits
        raise FileFormatError(f"{path}:1: not valid JSON: {error}") from None
    except RecursionError:
        raise FileFormatError(f"{path}:1: nested too deeply to be read") from None
    if not isinstance(data, dict):
        raise FileFormatError(f"{path}:1: the file is not a mapping, expected a JSON object")
    return data, _json_lines(text, path)


def _json_lines(text: str, path: Path) -> LineMap:
    """Lines of a JSON text, read as YAML, which JSON is but for tabs and escaped slashes."""
    try:
        return compose_text(text.replace("\t", " ").replace("\\/", "/"), path)[1]
    except FileFormatError as error:
        if "duplicate key" in error.message:
            raise
        return LineMap(path, {(): 1})


class _JsonFaultError(Exception):
    """A fault that Python's JSON reader lets pass, with a pattern that finds it in the text."""

    def __init__(self, sentence: str, pattern: str, occurrence: int = 1) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.pattern = pattern
        self.occurrence = occurrence


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise _JsonFaultError(f"duplicate key {key!r}", re.escape(json.dumps(key)) + r"\s*:", 2)
        data[key] = value
    return data


def _no_constant(word: str) -> Any:
    raise _JsonFaultError(f"{word} given, expected a finite number", rf"[:\[,\s]{word}\b")


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise _JsonFaultError(f"{word} given, expected a finite number", re.escape(word))
    return number


def _line_of_fault(text: str, fault: _JsonFaultError) -> int:
    found = list(re.finditer(fault.pattern, text))
    if not found:
        return 1
    match = found[min(fault.occurrence, len(found)) - 1]
    return text[: match.end()].count("\n") + 1
