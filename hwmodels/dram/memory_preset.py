"""Which preset stands for a memory: the one that a chip's file names, or one by type and pin rate.

The presets by memory type and pin rate are one dictionary; a new kind of memory is one line.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Protocol

from hwmodels.dram.edited_preset import edited_preset
from hwmodels.dram.preset import DramPreset, find_preset, list_presets
from simulator.basis.data_files import is_path
from simulator.basis.errors import UnsupportedError
from simulator.basis.sourced import Sourced

# (memory type as in the chip's YAML, pin rate in Gb/s) -> preset. Of these only HBM2 2.4 and HBM3
# 6.4 are published timing sets; the others are scaled at constant nanoseconds or guessed, and say
# so. Shipped chips name theirs; this is for files that do not.
PRESET_OF_MEMORY: dict[tuple[str, float], str] = {
    ("HBM2", 2.4): "hbm2_2400",
    ("HBM2e", 3.2): "hbm2e_3200",  # Ascend 910
    ("HBM3", 5.2): "hbm3_5200",  # H100, H800, H20, MI300X
    ("HBM3", 6.4): "hbm3_6400",
    ("HBM3", 8.0): "hbm3_8000",
    ("HBM3e", 6.25): "hbm3e_6250",  # H200
    ("HBM3e", 7.8): "hbm3e_7800",  # B200, B300, GB200, GB300
    ("HBM3e", 8.0): "hbm3_8000",  # MI355X
    ("HBM4", 8.0): "hbm4_8000",
    ("GDDR7", 28.0): "gddr7_28000",
    ("LPDDR5X", 8.533): "lpddr5x_8533",
}


class MemoryFacts(Protocol):
    """What of a chip's memory decides its preset."""

    @property
    def type(self) -> str:
        """As in the chip's file: `HBM3e`."""

    @property
    def pin_rate(self) -> Sourced:
        """Bits a second of one data pin."""

    @property
    def preset(self) -> str | None:
        """Name or path of a preset, where the file names one."""

    @property
    def replaced(self) -> dict[str, Sourced]:
        """Numbers of the preset that the file replaces."""


def named_preset(memory: MemoryFacts) -> str | None:
    """Name or path of a memory's preset; None where its type and pin rate are not known.

    Assumes: a memory of a type that has a single preset behaves as that one, whatever its own pin
        rate: the share of the peak that a pattern reaches is that of the preset.
    """
    if memory.preset is not None:
        return memory.preset
    rate = memory.pin_rate.si / 1e9
    of_type = {
        known_rate: name
        for (known, known_rate), name in PRESET_OF_MEMORY.items()
        if known.lower() == memory.type.lower()
    }
    if len(of_type) == 1:
        return next(iter(of_type.values()))
    near = (n for known, n in of_type.items() if math.isclose(known, rate, rel_tol=0.01))
    return next(near, None)


def nearest_presets(memory: MemoryFacts) -> tuple[str, str]:
    """The two presets whose pin rate is nearest to that of a memory."""
    rate = memory.pin_rate.si / 1e9
    apart: dict[str, float] = {}
    for (_, known_rate), name in PRESET_OF_MEMORY.items():
        apart[name] = min(abs(known_rate - rate), apart.get(name, math.inf))
    first, second = sorted(apart, key=lambda name: (apart[name], name))[:2]
    return first, second


_known: dict[object, DramPreset] = {}


def memory_preset(memory: MemoryFacts) -> DramPreset:
    """The preset of a memory with the numbers that its file replaces.

    An unknown memory is an UnsupportedError with what to write; a contradiction a KeyFaultError.
    """
    name = named_preset(memory)
    if name is None:
        raise UnsupportedError(unknown_memory(memory))
    replaced = memory.replaced
    stamp = Path(name).stat().st_mtime_ns if is_path(name) and Path(name).is_file() else None
    key = (name, stamp, *((key, n.value, n.unit) for key, n in replaced.items()))
    if key not in _known:
        _known[key] = edited_preset(find_preset(name), replaced)
    return _known[key]


def unknown_memory(memory: MemoryFacts) -> str:
    """Sentence for a memory without a preset: what to write, and which come nearest."""
    near = nearest_presets(memory)
    return (
        f"memory type {memory.type!r} at {memory.pin_rate.si / 1e9:g} Gb/s has no DRAM preset of "
        f"its own; write memory: {{preset: {near[0]}, ...}} into the chip's file, with one of "
        f"{', '.join(list_presets())} or a path to a YAML file of that form (nearest by pin rate "
        f"are {near[0]} and {near[1]})"
    )
