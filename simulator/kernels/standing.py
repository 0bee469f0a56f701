"""What the prediction of a chip rests on: how far it is from a chip whose kernels were measured.

Distance counts, not the label: a file that says `architecture: blackwell` and describes a chip with
another memory, a few slow links and cores of another rate is no B200. The parts of an error that
all kernels of a chip share follow from that distance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from hwmodels.chip import ChipSpec, find_chip, list_chips
from hwmodels.chip_edits import number_keys, number_of
from hwmodels.doubts import guessed_count
from simulator.basis.sourced import Sourced

Kind = Literal["calibrated", "same cores", "edited", "foreign"]

# Standard deviations of what the kernels of one family are off by in common on a chip of calibrated
# cores that was not fitted: of log time, and of the time to launch one that is timed alone, or one
# of many in a replayed graph. From how the rows of H100 and GB200 differ, family by family, from
# those of H200 and B200 that the constants were fitted to; the last from modules of some twelve
# launches.
CHIP_ERROR = 0.04
FLOOR_ERROR_S = 0.7e-6
GRAPH_FLOOR_ERROR_S = 0.25e-6
# How far beyond the prediction another machine's p90 and p10 lie, in log time, where its distance
# is one or more. Kernels that nobody tuned for a machine are slower far more often than faster.
FAR_HIGH = math.log(2.6)
FAR_LOW = math.log(1 / 0.72)
# p10 and p90 of a normal distribution, in standard deviations.
TENTH = 1.2816
# What a format that one of two chips has no units for counts as in their distance: its kernels are
# others, which nobody measured.
MISSING = 2.5
# A difference in this many of a chip's numbers is said one by one.
MOST_SAID = 3
EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Standing:
    """What the times of a chip's kernels rest on, in words, and what they are off by in common.

    `reference` is the chip whose measured kernels the constants were fitted to, `distance` how far
    it is: the root mean square of the logarithms by which facts differ that decide times.
    """

    kind: Kind
    reference: str
    words: str
    distance: float = 0.0

    @property
    def calibrated(self) -> bool:
        """Whether kernels of this very chip were fitted."""
        return self.kind == "calibrated"

    @property
    def measured_cores(self) -> bool:
        """Whether kernels of a machine near enough to this one were measured."""
        return self.kind != "foreign" and self.distance < 1

    @property
    def far(self) -> float:
        """Share of the distance at which nothing more is known of a machine, at most 1.

        Assumes: facts that differ by a little are followed by the model, and what it misses grows
            with the square of the distance, up to a factor e in every fact; beyond it, kernels take
            0.72 to 2.6 times as long as predicted in 8 of 10 machines.
        """
        return 1.0 if self.kind == "foreign" else min(1.0, self.distance**2)

    def reaches(self, seconds: float, *, alone: bool = False) -> tuple[float, float]:
        """How far below and above a time its p10 and p90 lie for what its kernels share, in log.

        `alone`: of a launch that is timed by itself, and not one of a step's.

        Assumes: kernels of a chip that was not fitted are off by 4 % and 0.25 us a launch in
            common, or 0.7 us where one is timed alone, as those of H100 and GB200 were found to be.
        """
        if self.calibrated:
            return 0.0, 0.0
        error_s = FLOOR_ERROR_S if alone else GRAPH_FLOOR_ERROR_S
        floor = min(error_s / seconds, 1.0) if seconds > 0 else 0.0
        chip = TENTH * math.hypot(CHIP_ERROR, floor)
        return math.hypot(chip, FAR_LOW * self.far), math.hypot(chip, FAR_HIGH * self.far)


@lru_cache(maxsize=256)
def standing_of(chip: ChipSpec, reference: ChipSpec, same_cores: bool) -> Standing:
    """Standing of a chip whose constants were fitted on `reference`, on cores of its kind or not.

    Chips that agree in every number have the same standing, whatever they are called.
    """
    changed = list(_changed_numbers(chip, reference))
    if not changed and chip.memory.type == reference.memory.type:
        alike = "" if chip.name == reference.name else f", which {chip.name} equals in every number"
        own = "this chip" if not alike else reference.name
        return Standing("calibrated", reference.name, f"calibrated on {own}{alike}")
    if not same_cores:
        words = f"no measurement of such cores ({chip.architecture}), constants of {reference.name}"
        return Standing("foreign", reference.name, words)
    distance = distance_between(chip, reference)
    if chip.is_own:
        base = _described_as(chip) or reference
        numbers = list(_changed_numbers(chip, base))
        cores = f"constants of {reference.name}" if distance >= 1 else f"cores as {reference.name}"
        doubt = "no measurement of such a machine, " if distance >= 1 else ""
        words = f"{doubt}{cores}, edited: {_said(numbers, base.name)}"
        return Standing("edited", reference.name, words, distance)
    count = guessed_count(chip)
    guesses = f"{count} guessed fact{'' if count == 1 else 's'}" if count else "no guessed fact"
    words = f"same cores as {reference.name}, {guesses}, not fitted on {chip.name}"
    return Standing("same cores", reference.name, words, distance)


def _described_as(chip: ChipSpec) -> ChipSpec | None:
    """The shipped chip that a file or an edit is named after."""
    return find_chip(chip.plain_name) if chip.plain_name in list_chips() else None


# A number that a chip states, and that of another; None where the other has none.
Changed = tuple[str, Sourced, Sourced | None]


def _changed_numbers(chip: ChipSpec, other: ChipSpec) -> Iterator[Changed]:
    """Numbers that a chip's file states and in which another chip differs."""
    for key in number_keys():
        own = _number(chip, key, stated=True)
        if own is None:
            continue
        others = _number(other, key, stated=False)
        if others is None or not math.isclose(own.si, others.si, rel_tol=EPSILON):
            yield key, own, others


def _number(chip: ChipSpec, key: str, *, stated: bool) -> Sourced | None:
    """A number of a chip's file, or of its memory's preset; None where there is no such section."""
    section = key.rpartition(".")[0]
    if section and getattr(chip, section) is None:
        return None
    return number_of(chip, key, stated=stated)


def _said(numbers: Sequence[Changed], base: str) -> str:
    """The first numbers that differ, and how many more do."""
    if not numbers:
        return f"no number of {base} differs"
    said = [
        f"{key} {_amount(own)}, {base}'s {_amount(others) if others else 'is not given'}"
        for key, own, others in numbers
    ]
    more = len(said) - MOST_SAID
    return "; ".join(said[:MOST_SAID]) + (f"; {more} more" if more > 0 else "")


def _amount(number: Sourced) -> str:
    return f"{number.value} {number.unit}".removesuffix(" 1")


def distance_between(chip: ChipSpec, other: ChipSpec) -> float:
    """Root mean square of the logarithms by which facts differ that decide times.

    Assumes: a memory of another kind counts as a factor e, a multiply-add format that only one of
        the two has units for as a factor of 12.
    """
    ratios = [abs(math.log(own / others)) for own, others in _deciding(chip, other)]
    memory = 0.0 if _memory_kind(chip) == _memory_kind(other) else 1.0
    found = [*ratios, _matrix_distance(chip, other), memory]
    return math.sqrt(sum(value**2 for value in found) / len(found))


def _deciding(chip: ChipSpec, other: ChipSpec) -> Iterator[tuple[float, float]]:
    for name in (
        "core_count",
        "clock_hz",
        "hbm_bandwidth_bytes_per_s",
        "llc_bytes",
        "llc_bandwidth_bytes_per_s",
        "scale_up_bytes_per_s",
        "launch_gap_s",
    ):
        yield float(getattr(chip, name)), float(getattr(other, name))


def _matrix_distance(chip: ChipSpec, other: ChipSpec) -> float:
    """The largest difference of a format's rate a core and clock."""
    found = []
    for dtype in ("bf16", "fp8", "fp4"):
        own, others = chip.matrix_flops_per_s(dtype), other.matrix_flops_per_s(dtype)
        if own is None or others is None:
            found.append(0.0 if own is others else MISSING)
            continue
        clocks = [c.core_count * c.clock_hz for c in (chip, other)]
        found.append(abs(math.log((own / clocks[0]) / (others / clocks[1]))))
    return max(found)


def _memory_kind(chip: ChipSpec) -> str:
    """Kind of memory without its generation: `HBM3e` and `HBM3` are one."""
    return chip.memory.type.upper().rstrip("0123456789EX")


def standing_warning(standings: Mapping[str, Standing]) -> str:
    """A sentence where answers side by side, by name, do not rest on the same; empty where they do.

    Chips that are calibrated stand alike, whichever they are.
    """
    kinds = {standing.kind for standing in standings.values()}
    if len(kinds) < 2:
        return ""
    said = "; ".join(f"{name}: {standing.words}" for name, standing in standings.items())
    return (
        f"These answers do not rest on the same ({said}): a difference that is smaller than the "
        "wider of their intervals says nothing"
    )
