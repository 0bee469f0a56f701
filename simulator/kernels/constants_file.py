"""Fitted constants on disk: one YAML file a kernel family, strict to read, whole to write.

`constants_for("nccl_ring", chip)` gives the constants for a chip's core architecture and says
whether they were calibrated on it or borrowed from the nearest one that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hwmodels.chip import ChipSpec, find_chip
from simulator.basis.atomic import write_text
from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.yaml_loader import StrictModel, load_yaml
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constant import Constant

FOLDER = Path(__file__).parent / "constants"
DIGITS = 6
# Cores without calibration -> the calibrated ones they are most like, by year and matrix rate.
NEAREST = {
    "cdna3": "hopper",
    "cdna4": "blackwell",
    "ascend-910b": "hopper",
    "ascend-910c": "hopper",
    "ascend-950": "hopper",
}


# Chips on which the constants of an architecture were fitted.
_FITTED_ON = {"hopper": "h200", "blackwell": "b200"}


def fitted_chip(chip: ChipSpec) -> ChipSpec:
    """The chip on which the constants that a chip's kernels have were fitted."""
    own = core_architecture(chip)
    return find_chip(_FITTED_ON[NEAREST.get(own, own)]) if own in _known_cores() else chip


def _known_cores() -> set[str]:
    return {*NEAREST, *_FITTED_ON}


class ArchitectureFit(StrictModel):
    """Constants of one core architecture and the cross-validated quality of their fit.

    Errors are of |predicted - measured| / measured; `bias` and `log_error_*` of the logarithm of
    predicted over measured.
    """

    constants: dict[str, float]
    rows: int
    median_error: float
    p90_error: float
    bias: float
    log_error_p10: float
    log_error_p90: float


class FamilyFile(StrictModel):
    """Content of one constants file."""

    family: str
    architectures: dict[str, ArchitectureFit]


@dataclass(frozen=True, slots=True)
class StoredConstants:
    """Constants of a family for a chip. `calibrated` is false where they come from other cores."""

    fit: ArchitectureFit
    architecture: str
    calibrated: bool

    @property
    def values(self) -> Mapping[str, float]:
        """Constants by name."""
        return self.fit.constants


def constants_path(family: str, folder: Path = FOLDER) -> Path:
    """File of a family's constants."""
    return folder / f"{family}.yaml"


# Content that takes the place of files of the same family, while a calibration is under way.
_FRESH: ContextVar[Mapping[str, FamilyFile]] = ContextVar("fresh constants", default={})  # noqa: B039


@contextmanager
def fresh_constants(files: Iterable[FamilyFile]) -> Iterator[None]:
    """Inside the block, these constants take the place of the files of their families."""
    token = _FRESH.set({**_FRESH.get(), **{content.family: content for content in files}})
    try:
        yield
    finally:
        _FRESH.reset(token)


# Content of the files that have been looked at, while they are held.
_HELD: ContextVar[dict[tuple[str, Path], FamilyFile] | None] = ContextVar("held", default=None)


@contextmanager
def held_constants(held: dict[tuple[str, Path], FamilyFile]) -> Iterator[None]:
    """Inside the block, files that are held are not looked for again, and others join them."""
    token = _HELD.set(held)
    try:
        yield
    finally:
        _HELD.reset(token)


def read_constants(family: str, folder: Path = FOLDER) -> FamilyFile:
    """Constants file of a family; a missing one is an InputError that says how to make it."""
    if family in _FRESH.get():
        return _FRESH.get()[family]
    held = _HELD.get()
    if held is None:
        return _read(family, folder)
    if (family, folder) not in held:
        held[family, folder] = _read(family, folder)
    return held[family, folder]


def _read(family: str, folder: Path) -> FamilyFile:
    path = constants_path(family, folder)
    if not path.is_file():
        raise InputError(
            f"{path}: kernel family {family} has no constants; run 'v4sim calibrate' on a folder "
            "of measured tables"
        )
    return _load(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=128)
def _load(path: Path, _changed_ns: int) -> FamilyFile:
    content = load_yaml(path, FamilyFile)
    if content.family != path.stem:
        raise FileFormatError(
            f"{path}:1: family is {content.family!r}, expected {path.stem!r} as the file's name"
        )
    if not content.architectures:
        raise FileFormatError(f"{path}:1: no architecture has constants, expected at least one")
    return content


def write_constants(content: FamilyFile, folder: Path = FOLDER) -> Path:
    """Writes a family's file whole or not at all."""
    lines = [f"family: {content.family}", "architectures:"]
    for name, fit in sorted(content.architectures.items()):
        values = ", ".join(f"{n}: {_number(v)}" for n, v in fit.constants.items())
        rest = ", ".join(
            f"{key}: {_number(value)}"
            for key, value in fit.model_dump().items()
            if key != "constants"
        )
        lines.append(f"  {name}: {{constants: {{{values}}}, {rest}}}")
    path = constants_path(content.family, folder)
    write_text(path, "\n".join(lines) + "\n")
    return path


def _number(value: float | int) -> str:
    """Shortest text of enough digits that YAML reads back as the same kind of number."""
    if isinstance(value, int):
        return str(value)
    text = f"{value:.{DIGITS}g}"
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return text if "." in text else f"{text}.0"


def constants_for(family: str, chip: ChipSpec, folder: Path = FOLDER) -> StoredConstants:
    """A family's constants for a chip.

    Assumes: cores without a calibration behave like the nearest calibrated ones (`NEAREST`), with
        a wider interval.
    """
    content = read_constants(family, folder)
    own = core_architecture(chip)
    nearest = NEAREST.get(own, own)
    for name in (own, nearest, *sorted(content.architectures)):
        if name in content.architectures:
            return StoredConstants(content.architectures[name], name, name == own)
    raise AssertionError("a loaded file has an architecture")


def check_constants(stored: FamilyFile, constants: tuple[Constant, ...], path: Path) -> None:
    """Names of the file's constants are the family's, and the values lie within their bounds."""
    expected = {c.name: c for c in constants}
    for architecture, fit in stored.architectures.items():
        if set(fit.constants) != set(expected):
            raise FileFormatError(
                f"{path}: {architecture} has constants {', '.join(fit.constants) or 'none'}, "
                f"expected {', '.join(expected) or 'none'}; run 'v4sim calibrate' again"
            )
        for name, value in fit.constants.items():
            low, high = expected[name].low, expected[name].high
            if not low * (1 - 1e-4) <= value <= high * (1 + 1e-4):
                raise FileFormatError(
                    f"{path}: {architecture}: {name} is {value:g}, expected {low:g} to {high:g} "
                    f"{expected[name].unit}"
                )
