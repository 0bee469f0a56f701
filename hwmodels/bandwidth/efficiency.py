"""Share of the peak that memory delivers, by pattern: the table that the burst-level model made.

`python -m hwmodels.bandwidth.efficiency_table` writes it anew.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from hwmodels.chip import ChipSpec
from hwmodels.dram import chip_memory
from hwmodels.dram.chip_memory import nearest_presets, preset_name
from simulator.basis.errors import UnsupportedError
from simulator.basis.yaml_loader import StrictModel, load_yaml

TABLE = Path(chip_memory.__file__).with_name("efficiency.yaml")
STREAM_FROM_BYTES = 32_768  # 128 channels of 256 bytes: a longer run comes back to each

Share = Annotated[float, Field(gt=0, le=1)]


_BURST_BYTES = 32  # of every DRAM preset
_WORD_BYTES = 4


class PresetEfficiency(StrictModel):
    """Useful shares of the peak of streams, and of gathers by size of a run."""

    stream: tuple[Share, ...]
    gather: Mapping[str, tuple[Share, ...]]


class EfficiencyTable(StrictModel):
    """The table: `write_fractions` are those of the entries of every list."""

    write_fractions: tuple[float, ...]
    presets: Mapping[str, PresetEfficiency]


@cache
def efficiency_table() -> EfficiencyTable:
    """The table that ships."""
    return load_yaml(TABLE, EfficiencyTable)


def memory_efficiency(
    chip: ChipSpec, run_bytes: int | None = None, write_fraction: float = 0.0
) -> float:
    """Useful share of the peak for runs of a size, or None for streams of all cores.

    Assumes: between the sizes and shares of writes of the table, rates change evenly with the
        logarithm of the size and with the share.
    Assumes: a chip whose memory has no timing preset does as the preset of the nearest pin rate.
    """
    return preset_efficiency(preset_of(chip), run_bytes, write_fraction)


def preset_efficiency(preset: str, run_bytes: int | None, write_fraction: float) -> float:
    """The same for a DRAM preset."""
    table = efficiency_table()
    row = _at_writes(table, write_fraction)
    sizes, shares = _columns(preset, row[0], row[1], row[2])
    if run_bytes is None:
        return shares[-1]
    return _between(sizes, shares, math.log2(max(run_bytes, 1)))


_preset_names: dict[tuple[str, float, str], str] = {}  # hashing a whole chip takes longer


def preset_of(chip: ChipSpec) -> str:
    """Name of the DRAM preset of a chip's memory, or of the nearest pin rate."""
    key = (chip.memory.type, chip.memory.pin_rate.value, chip.memory.pin_rate.unit)
    if key not in _preset_names:
        try:
            _preset_names[key] = preset_name(chip)
        except UnsupportedError:
            _preset_names[key] = nearest_presets(chip)[0]
    return _preset_names[key]


def _at_writes(table: EfficiencyTable, share: float) -> tuple[int, int, float]:
    """Entries below and above a share of writes, and how far it is between them."""
    known = table.write_fractions
    above = min(max(bisect_right(known, share), 1), len(known) - 1)
    low, high = known[above - 1], known[above]
    return above - 1, above, min(1.0, max(0.0, (share - low) / (high - low)))


@cache
def _columns(
    preset: str, low: int, high: int, way: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(logarithms of sizes, shares) at a share of writes; the last are those of streams."""
    found = efficiency_table().presets[preset]

    def mixed(row: Sequence[float]) -> float:
        return row[low] + way * (row[high] - row[low])

    sizes = sorted(int(size) for size in found.gather)
    shares = [mixed(found.gather[str(size)]) for size in sizes]
    logs = [math.log2(size) for size in (*sizes, STREAM_FROM_BYTES)]
    return tuple(logs), (*shares, mixed(found.stream))


def _between(places: Sequence[float], values: Sequence[float], at: float) -> float:
    """Linear between the places, the ends beyond them."""
    if at <= places[0]:
        return values[0]
    if at >= places[-1]:
        return values[-1]
    above = bisect_right(places, at)
    low, high = places[above - 1], places[above]
    way = (at - low) / (high - low)
    return values[above - 1] + way * (values[above] - values[above - 1])


def bursts_touched(span_bytes: int, start_bytes: int) -> float:
    """Bursts of 32 bytes that a run touches, on average over the places where it may begin.

    Runs begin at multiples of `start_bytes`.
    """
    offsets = range(0, _BURST_BYTES, max(_WORD_BYTES, math.gcd(start_bytes, _BURST_BYTES)))
    return sum(-(-(offset + span_bytes) // _BURST_BYTES) for offset in offsets) / len(offsets)
