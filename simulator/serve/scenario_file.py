"""A scenario by name or path, with keys changed on the way: `traffic.made.rate_per_s=2`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.basis.data_files import find_data_file, list_data_names
from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.yaml_loader import compose_yaml, validate_data
from simulator.basis.yaml_nodes import compose_text
from simulator.serve.scenario import Scenario, beside, names_file, resolved

SCENARIOS = Path(__file__).parent / "scenarios"


def list_scenarios() -> list[str]:
    """Names of the scenarios that ship."""
    return list_data_names(SCENARIOS)


def open_scenario(name_or_path: str | Path, changes: Sequence[str] = ()) -> Scenario:
    """A shipped scenario or a file, with `key.key=value` put in; values are YAML.

    Files that the scenario names are found beside it, those that a change names from here.
    """
    path = find_data_file("scenario", name_or_path, SCENARIOS)
    data, lines = compose_yaml(path)
    if not changes:
        return resolved(validate_data(data, lines, Scenario), path)
    for change in changes:
        _put(data, *_parsed(change))
    try:
        return resolved(validate_data(data, lines, Scenario), path)
    except FileFormatError as error:
        # The fault may be in the file or in a change; a line of the file would mislead.
        sentence = re.sub(rf"^{re.escape(str(path))}:\d+: ", "", error.message)
        raise InputError(f"{path} with --set {' '.join(changes)}: {sentence}") from None


def _parsed(change: str) -> tuple[tuple[str, ...], Any]:
    """Key path and value of one change."""
    key, equals, text = change.partition("=")
    keys = tuple(part.strip() for part in key.split("."))
    if not equals or not all(keys):
        raise InputError(
            f"--set {change!r} is not of the form key=value, such as "
            "traffic.made.rate_per_s=2 or parallel.tp=4"
        )
    if not text.strip():
        raise InputError(f"--set {change!r} gives no value; null takes a key out")
    try:
        value, _ = compose_text(text, Path("value"))
    except FileFormatError as error:
        reason = error.message.partition(": ")[2]
        raise InputError(f"--set {change!r}: {reason}") from None
    if names_file(keys, value):
        value = beside(Path.cwd() / "here", value)
    return keys, value


def _put(data: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    """Set a value deep in plain data; sections that are not there are made."""
    place = data
    for depth, key in enumerate(keys[:-1], 1):
        below = place.get(key)
        if below is None:
            below = place[key] = {}
        if not isinstance(below, dict):
            raise InputError(
                f"--set {'.'.join(keys)}: {'.'.join(keys[:depth])} is {below!r}, not a section "
                "with keys"
            )
        place = below
    place[keys[-1]] = value
