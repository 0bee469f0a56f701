"""Share of the peak that memory delivers, by pattern: the table that the burst-level model made.

`python -m hwmodels.bandwidth.efficiency_table` writes it anew. Shares of a preset that does not
ship, or of one whose numbers a chip replaces, are made when they are asked for.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hwmodels.chip import ChipSpec
from hwmodels.dram import chip_memory
from hwmodels.dram.chip_memory import chip_preset
from hwmodels.dram.memory_preset import named_preset, nearest_presets
from hwmodels.dram.preset import DramPreset, find_preset
from simulator.basis.yaml_loader import StrictModel, load_yaml

TABLE = Path(chip_memory.__file__).with_name("efficiency.yaml")
# Powers of two, and entries of caches: index keys of 68 and 132 bytes, key-value of 584 and 656.
RUNS = (32, 64, 68, 128, 132, 256, 512, 576, 584, 640, 656, 1024, 2048, 4096)
WRITE_FRACTIONS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
STREAM_FROM_BYTES = 32_768  # 128 channels of 256 bytes: a longer run comes back to each
_LOGS = tuple(math.log2(size) for size in (*RUNS, STREAM_FROM_BYTES))

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


class PresetShares:
    """Shares of one preset: those of the table, or made where it is in none.

    `sizes` are bytes of runs, the last of them that of streams; a share is asked for by the numbers
    of a size and of a share of writes. Made ones are NaN in `known` until they are asked for.
    """

    sizes = (*RUNS, STREAM_FROM_BYTES)
    write_fractions = WRITE_FRACTIONS

    def __init__(self, preset: DramPreset) -> None:
        self.preset = preset
        shape = (len(self.sizes), len(WRITE_FRACTIONS))
        name = _table_name(preset)
        self.known: NDArray[np.float64] = np.full(shape, np.nan)
        if name is not None:
            found = efficiency_table().presets[name]
            rows = [*(found.gather[str(run)] for run in RUNS), found.stream]
            self.known = np.array(rows)

    def share(self, size: int, writes: int) -> float:
        """One share, made if it has to be."""
        found = float(self.known[size, writes])
        return found if found == found else self._made(size, writes)

    def shares(self, sizes: NDArray[np.intp], writes: NDArray[np.intp]) -> NDArray[np.float64]:
        """Many shares at once."""
        found: NDArray[np.float64] = self.known[sizes, writes]
        if np.isnan(found).any():
            pairs = np.stack(np.broadcast_arrays(sizes, writes)).reshape(2, -1)
            for size, write in np.unique(pairs, axis=1).T.tolist():
                self.share(size, write)
            found = self.known[sizes, writes]
        return found

    def _made(self, size: int, writes: int) -> float:
        from hwmodels.bandwidth.made_shares import made_share

        run = None if size == len(RUNS) else RUNS[size]
        self.known[size, writes] = made_share(self.preset, run, WRITE_FRACTIONS[writes])
        return float(self.known[size, writes])


@cache
def _shipped_numbers() -> dict[str, str]:
    """Names of the presets of the table, by their numbers."""
    return {find_preset(name).numbers: name for name in efficiency_table().presets}


def _table_name(preset: DramPreset) -> str | None:
    """Entry of the table for a preset with these very numbers."""
    own = efficiency_table().presets
    if preset.name in own and find_preset(preset.name) is preset:
        return preset.name
    return _shipped_numbers().get(preset.numbers)


_shares: dict[int, PresetShares] = {}  # by identity: hashing a whole preset takes longer


def preset_shares(preset: str | DramPreset) -> PresetShares:
    """Shares of a preset."""
    facts = preset if isinstance(preset, DramPreset) else find_preset(preset)
    found = _shares.get(id(facts))
    if found is None or found.preset is not facts:
        found = _shares[id(facts)] = PresetShares(facts)
    return found


def chip_shares(chip: ChipSpec) -> PresetShares:
    """Shares of a chip's memory."""
    return preset_shares(preset_of(chip))


def memory_efficiency(
    chip: ChipSpec, run_bytes: int | None = None, write_fraction: float = 0.0
) -> float:
    """Useful share of the peak for runs of a size, or None for streams of all cores.

    Assumes: between the sizes and shares of writes of the table, rates change evenly with the
        logarithm of the size and with the share.
    Assumes: a chip whose memory has no timing preset does as the preset of the nearest pin rate.
    """
    return preset_efficiency(preset_of(chip), run_bytes, write_fraction)


def preset_efficiency(
    preset: str | DramPreset, run_bytes: int | None, write_fraction: float
) -> float:
    """The same for a DRAM preset."""
    shares = preset_shares(preset)
    row = _at_writes(write_fraction)
    if run_bytes is None:
        return _mixed(shares, len(RUNS), row)
    low, high, way = place_of(run_bytes)
    least = _mixed(shares, low, row)
    return least + way * (_mixed(shares, high, row) - least) if way else least


def edited_stream_share(chip: ChipSpec) -> float | None:
    """What streams reach over what they did before numbers of the preset were replaced.

    None where the chip's file replaces none.
    """
    name = named_preset(chip.memory)
    if name is None or not chip.memory.replaced:
        return None
    return memory_efficiency(chip) / preset_efficiency(name, None, 0.0)


def preset_of(chip: ChipSpec) -> DramPreset:
    """DRAM preset of a chip's memory, or that of the nearest pin rate."""
    if named_preset(chip.memory) is None:
        return find_preset(nearest_presets(chip.memory)[0])
    return chip_preset(chip)


def place_of(run_bytes: int) -> tuple[int, int, float]:
    """Numbers of the sizes below and above a run, and how far it is between them."""
    at = math.log2(max(run_bytes, 1))
    if at <= _LOGS[0]:
        return 0, 0, 0.0
    if at >= _LOGS[-1]:
        return len(RUNS), len(RUNS), 0.0
    above = bisect_right(_LOGS, at)
    return above - 1, above, (at - _LOGS[above - 1]) / (_LOGS[above] - _LOGS[above - 1])


def _at_writes(share: float) -> tuple[int, int, float]:
    """Numbers of the shares of writes below and above one, and how far it is between them."""
    known = WRITE_FRACTIONS
    above = min(max(bisect_right(known, share), 1), len(known) - 1)
    low, high = known[above - 1], known[above]
    return above - 1, above, min(1.0, max(0.0, (share - low) / (high - low)))


def _mixed(shares: PresetShares, size: int, row: tuple[int, int, float]) -> float:
    """Share of a size between two shares of writes; one that counts nothing is not asked for."""
    low, high, way = row
    least = shares.share(size, low)
    return least + way * (shares.share(size, high) - least) if way else least


def bursts_touched(span_bytes: int, start_bytes: int) -> float:
    """Bursts of 32 bytes that a run touches, on average over the places where it may begin.

    Runs begin at multiples of `start_bytes`.
    """
    offsets = range(0, _BURST_BYTES, max(_WORD_BYTES, math.gcd(start_bytes, _BURST_BYTES)))
    return sum(-(-(offset + span_bytes) // _BURST_BYTES) for offset in offsets) / len(offsets)
