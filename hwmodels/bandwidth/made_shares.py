"""Shares of the peak for a preset that is in no table: one window of the burst-level model each.

Each is simulated once in a process, and once on a machine where the user's cache folder can be
written; only those that are asked for.
"""

from __future__ import annotations

from hwmodels.bandwidth.access import Access
from hwmodels.bandwidth.measurement import measure
from hwmodels.bandwidth.stored import entry_key, stored
from hwmodels.dram.chip_memory import ChipMemory
from hwmodels.dram.preset import DramPreset

_STREAMS = 132
_STREAM_RUN = 4096


def preset_memory(preset: DramPreset) -> ChipMemory:
    """One stack of a preset as the memory of a chip, with 132 cores."""
    channels = 8 if preset.standard.startswith("HBM2") else 16
    peak = channels * preset.channel_bytes_per_s
    return ChipMemory(preset.name, preset, channels, channels, peak, 0.0, _STREAMS)


def entry_access(run_bytes: int | None, write_fraction: float) -> Access:
    """The access pattern of an entry: gathers of a size, or streams of all cores (None)."""
    kind = "stream" if run_bytes is None else "gather"
    run = _STREAM_RUN if run_bytes is None else run_bytes
    return Access(kind=kind, granule_bytes=run, write_fraction=write_fraction)


def made_share(preset: DramPreset, run_bytes: int | None, write_fraction: float) -> float:
    """Useful share of the peak, as the table has it."""
    access = entry_access(run_bytes, write_fraction)
    inputs = {"share": [run_bytes, write_fraction, _STREAMS, _STREAM_RUN], "of": preset.numbers}

    def make() -> float:
        found = measure(preset_memory(preset), access).useful_fraction
        return min(1.0, found)

    key = entry_key({**inputs, "standard": preset.standard})
    return stored(key, make, lambda share: share, _share)


def _share(kept: float) -> float:
    """An entry that was kept; what is no share counts as cut off."""
    if not 0 < kept <= 1:
        raise ValueError(kept)
    return float(kept)
