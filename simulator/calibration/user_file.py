"""Checks a user's file of constants against the families that it is for, before it is used."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.yaml_loader import LineMap, compose_yaml
from simulator.kernels.fitted import FamilyFile, check_fitted
from simulator.kernels.registry import find_family
from simulator.kernels.user_constants import ConstantsFile, active_files, read_constants_file


def check_constants_file(path: Path) -> ConstantsFile:
    """A file of which every family is known, every value within its bounds, every chip described.

    Faults name file and line.
    """
    content = read_constants_file(path)
    _check(path, path.stat().st_mtime_ns)
    return content


def check_active_files() -> None:
    """Check the file that was given and those that are installed."""
    for path in active_files():
        check_constants_file(path)


@lru_cache(maxsize=32)
def _check(path: Path, _changed_ns: int) -> None:
    content, (_, lines) = read_constants_file(path), compose_yaml(path)
    for number, own in enumerate(content.families):
        _check_family(own, content, path, lines, number)


def _check_family(
    own: FamilyFile, content: ConstantsFile, path: Path, lines: LineMap, number: int
) -> None:
    where = f"{path}:{lines(('families', number))}"
    try:
        constants = find_family(own.family).constants
    except InputError as error:
        raise FileFormatError(f"{where}: {error.message}") from None
    for layer, fits in (("architectures", own.architectures), ("chips", own.chips)):
        for name, fitted in fits.items():
            line = lines(("families", number, layer, name))
            check_fitted(fitted, constants, f"{path}:{line}: {own.family} on {name}")
    strangers = sorted(set(own.chips) - set(content.chips))
    if strangers:
        raise FileFormatError(
            f"{where}: {own.family} has constants of {', '.join(strangers)}, which the file's "
            f"'chips' does not describe, only {', '.join(content.chips) or 'none'}"
        )
