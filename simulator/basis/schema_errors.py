"""What pydantic found wrong, as one sentence at one place of the file.

Pydantic reports every member of a union and every field at once; a user wants the first fault,
what was expected there, the nearest valid name, and how many more there are.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from simulator.basis.errors import FileFormatError, InputError, nearest_name
from simulator.basis.yaml_nodes import Keys, LineMap, dotted

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "dict_type": "a mapping",
    "none_required": "null",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "string_pattern_mismatch": "text of the form {pattern}",
    "string_too_short": "at least {min_length} characters",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
    "finite_number": "a finite number",
}


class KeyFaultError(ValueError):
    """Raised by a validator of a schema to name the key at fault and the class of the error."""

    def __init__(
        self, keys: Iterable[str | int], sentence: str, kind: type[InputError] = FileFormatError
    ) -> None:
        super().__init__(sentence)
        self.keys = tuple(keys)
        self.sentence = sentence
        self.kind = kind


def translate(
    error: ValidationError, data: Any, schema: type[BaseModel], lines: LineMap
) -> InputError:
    """Error of the first fault in the file, with the count of the others."""

    def rank(group: list[tuple[Keys, dict[str, Any]]]) -> tuple[bool, int]:
        # A misspelt key is both unknown and missing: the unknown one names the slip.
        return group[0][1]["type"] == "missing", min(lines(place) for place, _ in group)

    ordered = sorted(_grouped(error, data), key=rank)
    keys, sentence, kind = _sentence(ordered[0], schema)
    more = len(ordered) - 1
    if more:
        sentence += f" (and {more} more {'error' if more == 1 else 'errors'} in this file)"
    return lines.error(keys, sentence, kind)


def faults_of(
    error: ValidationError, data: Any, schema: type[BaseModel]
) -> list[tuple[Keys, str, type[InputError], Exception | None]]:
    """All faults: keys, sentence, class of the error, and what a validator raised."""
    found = []
    for group in _grouped(error, data):
        cause = group[0][1].get("ctx", {}).get("error")
        found.append((*_sentence(group, schema), cause))
    return found


def _grouped(error: ValidationError, data: Any) -> list[list[tuple[Keys, dict[str, Any]]]]:
    """Faults of one place side by side."""
    faults: dict[Keys, list[tuple[Keys, dict[str, Any]]]] = {}
    for item in error.errors(include_url=False):
        if item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"]:
            continue  # only because faulty entries were left out; they are faults of their own
        place, union_at = _place(item["loc"], data, item["type"] == "missing")
        faults.setdefault(union_at or place, []).append((place, dict(item)))
    return list(faults.values())


def _place(loc: tuple[str | int, ...], data: Any, missing: bool) -> tuple[Keys, Keys | None]:
    """Key path inside the data, and the path of the union whose member names `loc` carries."""
    keys: list[str | int] = []
    union_at: Keys | None = None
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        inside_map = isinstance(data, dict) and (part in data or str(part) in data)
        inside_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if inside_map:
            key: str | int = part if part in data else str(part)
            keys.append(key)
            data = data[key]
        elif inside_list:
            keys.append(part)
            data = data[part]
        elif last and missing:
            keys.append(part)
        elif union_at is None and part != "[key]":
            union_at = tuple(keys)
    return tuple(keys), union_at


def _sentence(
    group: list[tuple[Keys, dict[str, Any]]], schema: type[BaseModel]
) -> tuple[Keys, str, type[InputError]]:
    """Sentence for faults of one place: members of a union become one `a or b`."""
    deepest = max(len(place) for place, _ in group)
    shallow = min(len(place) for place, _ in group)
    checked = [entry for entry in group if entry[1]["type"] == "value_error"]
    if deepest > shallow:  # one member of the union has the right shape: report its fault
        group = [entry for entry in group if len(entry[0]) == deepest][:1]
    elif checked:  # so it has where its own check was reached
        group = checked[:1]
    place, item = group[0]
    if len(group) == 1:
        return _single(place, item, schema)
    expected = list(dict.fromkeys(_expected(entry, place, schema) for _, entry in group))
    if "a number" in expected and "a whole number" in expected:
        expected.remove("a whole number")
    name = dotted(place)
    sentence = f"{name!r} is {_shown(item['input'])}, expected {' or '.join(expected)}"
    return place, sentence, FileFormatError


def _single(
    place: Keys, item: dict[str, Any], schema: type[BaseModel]
) -> tuple[Keys, str, type[InputError]]:
    fault = item.get("ctx", {}).get("error")
    if isinstance(fault, KeyFaultError):
        where = f"{dotted(place)!r}: " if place else ""
        return place + fault.keys, where + fault.sentence, fault.kind
    name = dotted(place)
    if item["type"].startswith("union_tag"):
        return _tagged(place, name, item["ctx"])
    if item["type"] == "extra_forbidden":
        return place, _unknown_key(place, schema), FileFormatError
    if item["type"] == "missing":
        return place, f"missing key {name!r}", FileFormatError
    if fault is not None:
        return place, f"{name!r}: {fault}" if name else str(fault), FileFormatError
    given = _shown(item["input"])
    what = f"{name!r} is {given}" if name else f"the file is {given}"
    sentence = f"{what}, expected {_expected(item, place, schema)}"
    choices = (
        re.findall(r"'([^']*)'", item["ctx"]["expected"])
        if item["type"] in ("literal_error", "enum")
        else []
    )
    near = nearest_name(str(item["input"]), choices)
    return place, sentence + (f"; did you mean {near!r}?" if near else ""), FileFormatError


def _tagged(place: Keys, where: str, facts: dict[str, Any]) -> tuple[Keys, str, type[InputError]]:
    """Fault of the key that says which member of a union is meant."""
    tag = facts["discriminator"].strip("'")
    name = f"{where}.{tag}" if where else tag
    if "tag" not in facts:
        return place, f"missing key {name!r}", FileFormatError
    near = nearest_name(facts["tag"], re.findall(r"'([^']*)'", facts["expected_tags"]))
    sentence = f"{name!r} is {facts['tag']!r}, expected one of {facts['expected_tags']}"
    return (*place, tag), sentence + (f"; did you mean {near!r}?" if near else ""), FileFormatError


def _unknown_key(place: Keys, schema: type[BaseModel]) -> str:
    names = sorted({name for model in _models_at(schema, place[:-1]) for name in _names(model)})
    near = nearest_name(str(place[-1]), names)
    hint = f"did you mean {near!r}? " if near else ""
    return f"unknown key {dotted(place)!r}: {hint}known are {', '.join(names)}"


def _expected(item: dict[str, Any], place: Keys, schema: type[BaseModel]) -> str:
    kind = item["type"]
    if kind in ("model_type", "model_attributes_type", "dataclass_type"):
        models = _models_at(schema, place)
        names = [
            f"{name}{'' if field.is_required() else ' (optional)'}"
            for name, field in (models[0].model_fields.items() if models else ())
        ]
        return f"a mapping with the keys {', '.join(names)}" if names else "a mapping"
    form = _EXPECTED.get(kind)
    return form.format(**item.get("ctx", {})) if form else str(item["msg"])


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_at(schema: Any, keys: Keys) -> list[type[BaseModel]]:
    """Models that a key path can lead to, through optionals, unions, lists and mappings."""
    models = [schema]
    for key in keys:
        following: list[Any] = []
        for model in models:
            following += _members(model, key)
        models = following
    return [model for model in models if isinstance(model, type) and issubclass(model, BaseModel)]


def _members(model: Any, key: str | int) -> list[Any]:
    if isinstance(model, type) and issubclass(model, BaseModel):
        for name, field in model.model_fields.items():
            if key in (name, field.alias):
                return _unwrap(field.annotation)
        return []
    arguments = typing.get_args(model)
    return _unwrap(arguments[-1] if isinstance(key, str) else arguments[0]) if arguments else []


def _unwrap(annotation: Any) -> list[Any]:
    """Plain types inside Annotated, Optional and unions; containers stay whole."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _unwrap(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [found for part in typing.get_args(annotation) for found in _unwrap(part)]
    return [annotation]


def _shown(value: Any) -> str:
    """What was given, short enough for a sentence."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
