"""Edits of a chip beside its file: `memory.RC=60ns`, `cores.count=120`, `llc.capacity=64MiB`.

A key is the dotted path of a number in the chip's file, or `memory.preset`. The chip is then named
after its edits: `b200 (memory.RC=60 ns)`.
"""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hwmodels.chip import ChipSpec
from hwmodels.dram.edited_preset import PresetNumbers
from hwmodels.dram.memory_preset import memory_preset
from simulator.basis.errors import InputError
from simulator.basis.sourced import Sourced
from simulator.basis.yaml_loader import KeyFaultError, LineMap, validate_data

PRESET = "memory.preset"
_NUMBER = re.compile(r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*)")
_LARGEST = 1e21
# Units of a bare number where the file has none to take: of counts, and of timings.
_BARE = ("1", "clk")
# Beyond these a number is a slip of the hand, by the SI unit that it is in.
_RANGES = {
    "1": (1, 2**20),
    "clk": (1, 2**20),
    "s": (1e-12, 1.0),
    "Hz": (1e6, 1e12),
    "B": (1, 2**50),
    "B/s": (1e6, 1e18),
    "FLOP/s": (1e6, 1e21),
}
_OTHERS = (1e-6, 1e18)
_UNITS = (*_BARE, "B", "B/s", "b/s", "bit", "FLOP/s", "FLOP/clk", "B/clk", "Hz", "s", "W")
_NOTE = "given as an edit of the chip, which is no longer the one that was measured"


def edited_chip(chip: ChipSpec, edits: Sequence[str]) -> ChipSpec:
    """The chip with edits of the form `KEY=VALUE`; an InputError says all faults of them."""
    if not edits:
        return chip
    data = chip.model_dump(mode="json", exclude_none=True)
    faults: list[str] = []
    given: dict[str, str] = {}
    values: dict[str, Any] = {}
    for edit in edits:
        key = edit.partition("=")[0].strip()
        try:
            value = _value(edit, chip, data)
            if key in given:
                raise InputError(f"{key} is set already, by {given[key]!r}; give it once")
            _in_range(_changed(data, {key: value}), key)
        except InputError as error:
            faults.append(f"--set {edit}: {error.message.removeprefix(f'{key!r}: ')}")
            continue
        given[key], values[key] = edit, value
    edited = _changed(data, values)
    faults += _contradictions(edited, given)
    if faults:
        raise InputError("; ".join(faults))
    text = ", ".join(f"{key}={_amount(value)}" for key, value in values.items())
    named = f"{chip.name[:-1]}, {text})" if chip.is_own else f"{chip.name} ({text})"
    return edited.model_copy(update={"name": named})


def _contradictions(chip: ChipSpec, given: dict[str, str]) -> list[str]:
    """What numbers of the memory say against each other, or a preset that is not there."""
    of_memory = {key: edit for key, edit in given.items() if key.startswith("memory.")}
    if not of_memory or (chip.memory.preset is None and not chip.memory.replaced):
        return []
    try:
        memory_preset(chip.memory)
    except KeyFaultError as fault:
        key = ".".join(["memory", *map(str, fault.keys)])
        edit = of_memory.get(key, " --set ".join(of_memory.values()))
        return [f"--set {edit}: {fault.sentence}"]
    except InputError as error:
        return [f"--set {' --set '.join(of_memory.values())}: {error.message}"]
    return []


def _amount(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value['value']} {value['unit']}".removesuffix(" 1")


def _value(edit: str, chip: ChipSpec, data: dict[str, Any]) -> Any:
    """What an edit puts at its key: a number with unit and origin, or the name of a preset."""
    key, equals, text = (part.strip() for part in edit.partition("="))
    if not equals:
        raise InputError("no value is given, expected KEY=VALUE, such as memory.RC=60ns")
    if key == PRESET:
        return text
    if key not in number_keys():
        raise InputError(_unknown(key))
    section = key.rpartition(".")[0]
    if section and getattr(chip, section) is None:
        raise InputError(f"{chip.name} has no {section}; a file that describes one can be given")
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is no number with a unit, expected a form such as 60ns")
    word, unit = match.groups()
    number: float = float(word)
    if abs(number) > _LARGEST:
        raise InputError(f"{text!r} is beyond any machine, expected at most {_LARGEST:g}")
    if number.is_integer() and abs(number) <= 2**53:  # as a file would write it
        number = int(number)
    own = _number_at(chip, key)
    origin = {"kind": "guessed", "note": _NOTE}
    if unit or own is not None:
        return {"value": number, "unit": unit or getattr(own, "unit", ""), **origin}
    fits = _unit_of(key, data)
    if fits not in _BARE:
        raise InputError(
            f"{number} has no unit, and {chip.name} gives no {key} to take it from; try "
            f"{key}={number}{fits}"
        )
    return {"value": number, "unit": fits, **origin}


def _unit_of(key: str, data: dict[str, Any]) -> str:
    """A unit that a key takes."""
    for unit in _UNITS:
        try:
            _changed(data, {key: {"value": 1, "unit": unit, "kind": "guessed", "note": _NOTE}})
        except InputError:
            continue
        return unit
    raise AssertionError(f"{key} takes none of {_UNITS}")


class _NoLines(LineMap):
    """Faults of data that stands in no file: the sentence alone."""

    def error(
        self, keys: Sequence[str | int], sentence: str, kind: type[InputError] = InputError
    ) -> InputError:
        return InputError(sentence)


def _changed(data: dict[str, Any], values: dict[str, Any]) -> ChipSpec:
    """The chip of a file's data with other values, checked as the file would be."""
    changed = dict(data)
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        if section:
            changed[section] = {**changed.get(section, {}), name: value}
        else:
            changed[name] = value
    return validate_data(changed, _NoLines(Path("--set"), {}), ChipSpec)


def _number_at(chip: ChipSpec, key: str) -> Sourced | None:
    section, _, name = key.rpartition(".")
    place = getattr(chip, section) if section else chip
    found: Sourced | None = getattr(place, name, None)
    return found


def number_of(chip: ChipSpec, key: str, *, stated: bool = False) -> Sourced | None:
    """A number of the chip's file, or of its memory's preset unless it has to be `stated` there.

    None where neither gives it.
    """
    own = _number_at(chip, key)
    section, _, name = key.rpartition(".")
    if own is not None or stated or section != "memory" or name not in PresetNumbers.model_fields:
        return own
    preset = memory_preset(chip.memory)
    name = "RCDRD" if name == "RCD" else name  # which stands for two, equal in most presets
    for place in (preset.timing, preset.organisation):
        found: Sourced | None = getattr(place, name, None)
        if found is not None:
            return found
    return None


def check_number_key(key: str) -> None:
    """Raise an InputError, with the keys that are near, for what is no number of a chip."""
    if key == PRESET:
        raise InputError(f"{PRESET} is a name and no number, which could be halved or doubled")
    if key not in number_keys():
        raise InputError(_unknown(key))


def _in_range(chip: ChipSpec, key: str) -> None:
    number = None if key == PRESET else _number_at(chip, key)
    if number is None or key == "memory.rows":  # which has a limit of its own
        return
    unit = number.dimension
    least, most = _RANGES.get(unit, _OTHERS)
    if not least <= number.si <= most:
        what = "" if unit == "1" else f" {unit}"
        raise InputError(f"value is {number.si:g}{what}, expected {least:g} to {most:g}{what}")


@cache
def number_keys() -> tuple[str, ...]:
    """Dotted paths of all numbers that a chip's file may have."""
    return tuple(_keys(ChipSpec, ""))


def _keys(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        for kind in _plain(field.annotation):
            if kind is Sourced:
                yield prefix + name
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _keys(kind, f"{prefix}{name}.")


def _plain(annotation: Any) -> list[Any]:
    """Types inside Annotated and unions."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Annotated:
        return _plain(arguments[0])
    return [kind for part in arguments for kind in _plain(part)] if arguments else [annotation]


def _unknown(key: str) -> str:
    """Sentence for an unknown key: those that are near, and where all are listed."""
    known = (*number_keys(), PRESET)
    lowered = {name.lower(): name for name in known}
    near = [name for name in known if name.lower().endswith(f".{key.lower()}")]
    close = difflib.get_close_matches(key.lower(), list(lowered), n=3, cutoff=0.6)
    near += [lowered[name] for name in close if lowered[name] not in near]
    section = key.partition(".")[0]
    if not near:
        near = [name for name in known if name.startswith(f"{section}.")]
    if near:
        return f"unknown key {key!r}: near it are {', '.join(near)}"
    sections = dict.fromkeys(name.partition(".")[0] for name in known)
    return f"unknown key {key!r}: keys begin with {', '.join(sections)}, such as memory.RC"
