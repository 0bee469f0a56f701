"""Constants of the user's own: one file of several families, given or installed, never the package.

`V4SIM_CONSTANTS` names a file for the commands that follow (`--constants` sets it for one command);
installed files lie in a folder of the user's own. Both are passed on to worker processes by the
environment alone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

from hwmodels.chip import ChipSpec
from simulator.basis.atomic import write_text
from simulator.basis.errors import InputError
from simulator.basis.yaml_loader import StrictModel, compose_yaml, validate_data
from simulator.kernels.architecture import core_architecture
from simulator.kernels.fitted import FamilyFile

GIVEN = "V4SIM_CONSTANTS"
HOME = "V4SIM_HOME"
_FORMAT = 1


class ConstantsFile(StrictModel):
    """Constants of some families, the chips that they were fitted on, and what they were fitted to.

    `chips` are whole descriptions, so that a chip which was edited since is told from them.
    `fitted_to` names tables and rows; `note` is the user's.
    """

    format: Annotated[int, Field(ge=_FORMAT, le=_FORMAT)] = _FORMAT
    fitted_to: tuple[str, ...] = ()
    note: str = ""
    chips: dict[str, ChipSpec] = Field(default_factory=dict)
    families: tuple[FamilyFile, ...]

    def family(self, name: str) -> FamilyFile | None:
        """Constants of a family; None where the file has none."""
        return next((own for own in self.families if own.family == name), None)

    @property
    def architectures(self) -> set[str]:
        """Core architectures that the file has constants for."""
        whole = {name for own in self.families for name in own.architectures}
        return whole | {core_architecture(chip) for chip in self.chips.values()}


def read_constants_file(path: Path) -> ConstantsFile:
    """A user's file; faults of its form name file and line, its values are not looked at."""
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise InputError(
            f"constants file {str(path)!r} cannot be read: {error.strerror or error}; "
            "'v4sim calibrate DIR --out FILE' writes one"
        ) from None
    return _load(path, changed_ns)


@lru_cache(maxsize=32)
def _load(path: Path, _changed_ns: int) -> ConstantsFile:
    return validate_data(*compose_yaml(path), ConstantsFile)


def write_constants_file(path: Path, content: ConstantsFile) -> None:
    """Writes a file whole or not at all, in a form that a person can read and change."""
    data = content.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    data = {"format": _FORMAT, **_rounded(data)}
    text = yaml.safe_dump(data, sort_keys=False, width=100, allow_unicode=True)
    write_text(path, text)


def _rounded(value: Any) -> Any:
    """Floats with six digits, as they are worth."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(own) for key, own in value.items()}
    return [_rounded(own) for own in value] if isinstance(value, list) else value


def user_folder() -> Path:
    """Folder of installed constants: below V4SIM_HOME, or the user's configuration."""
    named = os.environ.get(HOME)
    if named:
        return Path(named).expanduser() / "constants"
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(config) / "v4sim" / "constants"


def installed_files() -> list[Path]:
    """Installed files, sorted by name; none where there is no such folder."""
    try:
        return sorted(path for path in user_folder().glob("*.yaml") if path.is_file())
    except OSError:
        return []


@contextmanager
def given_constants(path: Path | None) -> Iterator[None]:
    """Inside the block, and in processes that it starts, a file's constants come first."""
    if path is None:
        yield
        return
    before = os.environ.get(GIVEN)
    os.environ[GIVEN] = str(path.resolve())
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(GIVEN, None)
        else:
            os.environ[GIVEN] = before


def is_given() -> bool:
    """Whether a file was given for this command."""
    return bool(os.environ.get(GIVEN))


def active_files() -> list[Path]:
    """Files whose constants come before the package's: the given one, then installed ones."""
    given = os.environ.get(GIVEN)
    return [*([Path(given)] if given else []), *installed_files()]


def active_constants() -> Iterator[tuple[Path, ConstantsFile]]:
    """The same with their content."""
    for path in active_files():
        yield path, read_constants_file(path)


def constants_record() -> list[dict[str, str]]:
    """Name and hash of every active file, for what a result rests on; empty without any."""
    return [
        {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()[:16]}
        for path in active_files()
    ]


def check_given_serves(chips: Iterable[ChipSpec]) -> None:
    """Refuse a given file of which no constant can serve any of these chips."""
    given = os.environ.get(GIVEN)
    if not given:
        return
    content = read_constants_file(Path(given))
    asked = {core_architecture(chip): chip.name for chip in chips}
    if asked and not content.architectures & set(asked):
        names = ", ".join(f"{name} ({cores})" for cores, name in sorted(asked.items()))
        raise InputError(
            f"--constants {given}: its constants are of {', '.join(sorted(content.architectures))}"
            f", and none serves {names}; leave it out, or calibrate on rows of such a chip"
        )
