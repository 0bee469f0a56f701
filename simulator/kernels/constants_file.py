"""Fitted constants by layer: a user's come first, then a chip's own, then an architecture's.

`constants_for("nccl_ring", chip)` gives the constants that price a family's kernels on a chip, and
what they rest on there. The package has one YAML file a family, strict to read, whole to write; no
command writes there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hwmodels.chip import ChipSpec, find_chip
from simulator.basis.atomic import write_text
from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.yaml_loader import load_yaml
from simulator.kernels.architecture import core_architecture
from simulator.kernels.constant import Constant
from simulator.kernels.fitted import FamilyFile, Fitted, check_fitted
from simulator.kernels.standing import Standing, standing_of, standing_warning
from simulator.kernels.user_constants import active_constants

FOLDER = Path(__file__).parent / "constants"
DIGITS = 6
# Cores without calibration -> the calibrated ones they are most like, by year and matrix rate.
NEAREST = {
    "cdna3": ("cdna4", "hopper"),
    "cdna4": ("blackwell",),
    "blackwell-rtx": ("blackwell",),
    "ada": ("hopper",),
    "ampere": ("hopper",),
    "ascend-910b": ("hopper",),
    "ascend-950": ("hopper",),
}


# Chips on which the constants of an architecture were fitted.
_FITTED_ON = {
    "hopper": "h200",
    "blackwell": "b200",
    "cdna4": "mi355x",
    "ascend-910b": "ascend-a3-die",
    "ascend-950": "ascend-950dt",
}


# Cores of which only some kernels were measured: how the words of a standing go on.
_PARTLY = {
    "cdna4": "its products and experts; its other kernels rest on single published times",
}


def fitted_chip(chip: ChipSpec) -> ChipSpec:
    """The chip on which the constants that a chip's kernels have were fitted."""
    own = core_architecture(chip)
    if own not in _known_cores():
        return chip
    return find_chip(_FITTED_ON[own if own in _FITTED_ON else NEAREST[own][0]])


def _known_cores() -> set[str]:
    return {*NEAREST, *_FITTED_ON}


@dataclass(frozen=True, slots=True)
class StoredConstants:
    """Constants of a family for a chip, and the chip that they were fitted on.

    `source` is the file of the user's that they are from; empty where the package has them.
    """

    fit: Fitted
    architecture: str
    chip: ChipSpec
    fitted_on: ChipSpec
    source: str = ""

    @property
    def values(self) -> Mapping[str, float]:
        """Constants by name."""
        return self.fit.constants

    @property
    def standing(self) -> Standing:
        """What the times of the chip's kernels rest on."""
        same = core_architecture(self.chip) == core_architecture(self.fitted_on)
        found = standing_of(self.chip, self.fitted_on, same)
        return replace(found, words=f"{found.words} ({self.source})") if self.source else found

    @property
    def calibrated(self) -> bool:
        """Whether they were fitted on such cores, of a machine that is near enough."""
        return self.standing.measured_cores


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
    lines = [f"family: {content.family}"]
    for layer, fits in (("architectures", content.architectures), ("chips", content.chips)):
        if fits:
            lines.append(f"{layer}:")
        for name, fit in sorted(fits.items()):
            lines += _fitted_lines(name, fit)
    path = constants_path(content.family, folder)
    write_text(path, "\n".join(lines) + "\n")
    return path


def _fitted_lines(name: str, fit: Fitted) -> list[str]:
    numbers = {"rows", "median_error", "p90_error", "bias"}
    lines = [f"  {name}:", f"    constants: {{{_pairs(fit.constants)}}}"]
    if fit.standard_errors:
        lines.append(f"    standard_errors: {{{_pairs(fit.standard_errors)}}}")
    if fit.not_identified:
        lines.append(f"    not_identified: [{', '.join(fit.not_identified)}]")
    lines += [f"    {key}: {_number(v)}" for key, v in fit.model_dump(include=numbers).items()]
    regimes = [regime.model_dump(exclude_none=True) for regime in fit.regimes]
    return [*lines, "    regimes:", *(f"      - {{{_pairs(regime)}}}" for regime in regimes)]


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_number(value)}" for name, value in values.items())


def _number(value: float | int | str) -> str:
    """Shortest text of enough digits that YAML reads back as the same kind of value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | str):
        return str(value)
    text = f"{value:.{DIGITS}g}"
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return text if "." in text else f"{text}.0"


def constants_for(family: str, chip: ChipSpec, folder: Path = FOLDER) -> StoredConstants:
    """A family's constants for a chip: of the user's layers that know it, or the package's.

    Assumes: cores without a calibration behave like the nearest calibrated ones (`NEAREST`), with
        a wider interval.
    """
    for path, content in active_constants():
        own = content.family(family)
        found = own and _of_layers(own, chip, content.chips)
        if found:
            return replace(found, source=path.name)
    return _of_package(read_constants(family, folder), chip)


def _of_layers(
    content: FamilyFile, chip: ChipSpec, described: Mapping[str, ChipSpec]
) -> StoredConstants | None:
    """Constants of the chip itself, or of its architecture; None where a file has neither.

    A chip is one that a file describes where it agrees in every number, or else by its name.
    """
    own = core_architecture(chip)
    known = {
        name: described[name] for name in content.chips if core_architecture(described[name]) == own
    }
    named = chip.plain_name
    alike = [name for name, spec in known.items() if standing_of(chip, spec, True).calibrated]
    for name in (*alike, *(name for name in known if name == named)):
        return StoredConstants(content.chips[name], own, chip, known[name])
    if own in content.architectures and own in _FITTED_ON:
        fitted_on = find_chip(_FITTED_ON[own])
        return StoredConstants(content.architectures[own], own, chip, fitted_on)
    return None


def _of_package(content: FamilyFile, chip: ChipSpec) -> StoredConstants:
    own, named = core_architecture(chip), chip.plain_name
    if named in content.chips:
        return StoredConstants(content.chips[named], own, chip, chip)
    for name in (own, *NEAREST.get(own, ()), *sorted(content.architectures)):
        if name in content.architectures:
            # Names that are no known cores are made up, as in tests: the chip stands for itself.
            fitted_on = find_chip(_FITTED_ON[name]) if name in _FITTED_ON else chip
            return StoredConstants(content.architectures[name], name, chip, fitted_on)
    raise AssertionError("a loaded file has an architecture")


def check_constants(stored: FamilyFile, constants: tuple[Constant, ...], path: Path) -> None:
    """Names of the file's constants are the family's, and the values lie within their bounds."""
    for layer in (stored.architectures, stored.chips):
        for name, fit in layer.items():
            check_fitted(fit, constants, f"{path}: {name}")


def chip_standing(chip: ChipSpec) -> Standing:
    """What times on a chip rest on in all: the package, or layers of a user that know the chip.

    A chip is calibrated by a user's file where it has every family that the package has on such
    cores; where it has some, the sentence names them beside what the others rest on.
    """
    own = core_architecture(chip)
    fitted = own if own in _FITTED_ON else next(iter(NEAREST.get(own, (own,))))
    reference = find_chip(_FITTED_ON.get(fitted, "b200"))
    standing = standing_of(chip, reference, own == core_architecture(reference))
    if own in _PARTLY:
        standing = replace(standing, words=f"{standing.words}: {_PARTLY[own]}")
    for path, content in active_constants():
        found = {
            family.family: layer.standing
            for family in content.families
            if (layer := _of_layers(family, chip, content.chips))
        }
        if not found:
            continue
        of_cores = {name for name in _family_names() if own in read_constants(name).architectures}
        if of_cores <= set(found):
            whole = found[min(found)]
            return replace(whole, words=f"{whole.words} ({path.name})")
        count = len(of_cores & set(found))
        words = (
            f"{count} of {len(of_cores)} kernel families fitted in {path.name}, the others: "
            f"{standing.words}"
        )
        return replace(standing, words=words)
    return standing


def standing_with(chip: ChipSpec, families: Iterable[str]) -> Standing:
    """What times on a chip rest on under these families: no others than those of other cores,
    where none of them was fitted on such cores, whatever else was."""
    used = [constants_for(family, chip) for family in families]
    own = core_architecture(chip)
    if used and all(core_architecture(stored.fitted_on) != own for stored in used):
        return used[0].standing
    return chip_standing(chip)


def _family_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def chips_warning(chips: Iterable[str]) -> str:
    """A sentence where the answers for some chips, by name or file, do not rest on the same."""
    found = [find_chip(name) for name in dict.fromkeys(chips)]
    return standing_warning({chip.name: chip_standing(chip) for chip in found})
