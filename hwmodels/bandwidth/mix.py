"""What a kernel moves to and from memory, as shares of access patterns side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.basis.errors import InputError

_SHARES = 64  # shares are rounded to so many parts, so that alike kernels are simulated once


@dataclass(frozen=True, slots=True, order=True)
class MixPart:
    """Bytes that move in one way; `run_bytes` 0: streams of all cores, front to back.

    Otherwise scattered runs, which begin at multiples of `slot_bytes`.
    """

    run_bytes: int
    slot_bytes: int
    written: bool
    nbytes: float

    def __post_init__(self) -> None:
        if self.run_bytes < 0 or self.nbytes < 0 or (self.run_bytes and self.slot_bytes < 4):
            raise InputError(f"{self} is no part of a mix: expected sizes of at least 0")


Mix = tuple[MixPart, ...]


def joined_parts(parts: Iterable[MixPart]) -> Mix:
    """Parts of equal pattern added up, empty ones left out."""
    total: dict[tuple[int, int, bool], float] = {}
    for part in parts:
        key = (part.run_bytes, part.slot_bytes, part.written)
        total[key] = total.get(key, 0.0) + part.nbytes
    return tuple(sorted(MixPart(*key, nbytes) for key, nbytes in total.items() if nbytes))


def mix_bytes(mix: Mix) -> float:
    """Bytes of all parts."""
    return sum(part.nbytes for part in mix)


def write_fraction(mix: Mix) -> float:
    """Share of the bytes that are written."""
    total = mix_bytes(mix)
    return sum(part.nbytes for part in mix if part.written) / total if total else 0.0


def normalised(mix: Mix) -> Mix:
    """The mix in 64ths of its bytes: what decides its rate, and what a window is known by.

    Assumes: patterns with less than 1/128 of a kernel's bytes do not change how fast it moves them.
    """
    total = mix_bytes(mix)
    shares = (
        MixPart(part.run_bytes, part.slot_bytes, part.written, round(part.nbytes / total * _SHARES))
        for part in mix
    )
    kept = tuple(part for part in shares if part.nbytes)
    return kept or (max(mix, key=lambda part: part.nbytes),)
