"""Which DRAM preset stands for a chip's memory, and what lies between its cores and the DRAM.

The presets by memory type and pin rate are one dictionary; a new kind of memory is one line.

Of address hashing there are two levels: a block of consecutive bytes lies on one channel, chosen by
an XOR of the address; within it bits choose column, bank group, bank and stack, the last three
XORed with the row. Concurrent streams meet in the queues and in the banks: cores take turns of
4 KiB, each in a region of its own, so that a channel sees blocks of many rows at once, as many as
there are cores. What is not modelled: hashes that a chip changes at run time, copies of a line in
both partitions of a cache, throttling, and ECC but for the fetch of sectors written in part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from hwmodels.chip import ChipSpec
from hwmodels.dram.parameters import ControllerSpec, Refresh
from hwmodels.dram.pattern import Pattern, simulate
from hwmodels.dram.preset import DramPreset, find_preset
from simulator.basis.errors import InputError, UnsupportedError

# (memory type as in the chip's YAML, pin rate in Gb/s) -> preset. Of these only HBM2 2.4 and HBM3
# 6.4 are published timing sets; the others are scaled at constant nanoseconds and say so.
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
}
_WRITES_A_READ = 4


# Depth of a channel's read queue, as the time that its traffic takes; see `ChipController`.
QUEUED_NS = 103.0


@dataclass(frozen=True, slots=True)
class ChipController:
    """Address hash and queues of a chip's memory controllers.

    Assumes: consecutive blocks of 256 bytes lie on channels chosen by an XOR hash of the address,
        each block in one row; bank group and bank are XORed with a hash of the row.
    Assumes: a channel's read queue holds 103 ns of its traffic. With that, as many streams as a
        chip has cores read 0.92, 0.92 and 0.94 of the peak of H100, H200 and B200, where decode
        attention measured 0.932, 0.944 and 0.952, and copy at two reads a write 0.90, 0.91 and
        0.91, where elementwise kernels measured 0.915, 0.909 and 0.890; what shipped chips hold is
        not published.
    """

    mapping: str = "c8,p,g,c,b,s"
    interleave_bytes: int = 256
    queued_ns: float = QUEUED_NS
    refresh: Refresh = "per-bank"

    def __post_init__(self) -> None:
        if self.queued_ns <= 0:
            raise InputError(f"queued_ns is {self.queued_ns}, expected more than 0")

    def spec(self, preset: DramPreset) -> ControllerSpec:
        """Queues of one channel at a preset's speed; writes wait in the last-level cache."""
        burst_ns = preset.organisation.burst.whole / preset.channel_bytes_per_s * 1e9
        reads = max(1, math.ceil(self.queued_ns / burst_ns))
        return ControllerSpec(reads, reads * _WRITES_A_READ, refresh=self.refresh)


@dataclass(frozen=True)
class ChipMemory:
    """Memory of a chip: the preset of its channels, how many there are, and the way to them.

    `path_ns` is what a load spends outside of the DRAM: the chip's latency less the DRAM's own.
    """

    chip: str
    preset: DramPreset
    channels: int
    channels_a_stack: int
    peak_bytes_per_s: float
    path_ns: float
    cores: int

    @property
    def simulated_channels(self) -> int:
        """Channels of one stack, which stand for all: the largest power of two among them."""
        return 1 << (min(self.channels, self.channels_a_stack).bit_length() - 1)


def chip_memory(chip: ChipSpec) -> ChipMemory:
    """Memory of a chip, for the DRAM model.

    Assumes: the share of the preset's peak that a pattern reaches holds for the chip's stated peak,
        which may differ from pins times rate by a few per cent.
    Assumes: a load's time outside of the DRAM is the chip's measured latency less that of an idle
        bank, whatever the load.
    """
    preset = find_preset(preset_name(chip))
    return ChipMemory(
        chip=chip.name,
        preset=preset,
        channels=chip.hbm_channels,
        channels_a_stack=chip.memory.channels_per_stack.whole,
        peak_bytes_per_s=chip.hbm_bandwidth_bytes_per_s,
        path_ns=max(0.0, chip.dram_latency_s * 1e9 - idle_ns(preset.name)),
        cores=chip.core_count,
    )


def preset_name(chip: ChipSpec) -> str:
    """Name of the preset for a chip's memory; an unknown memory says which come nearest."""
    kind, rate = chip.memory.type, chip.memory.pin_rate.si / 1e9
    for (known, known_rate), name in PRESET_OF_MEMORY.items():
        if known.lower() == kind.lower() and math.isclose(known_rate, rate, rel_tol=0.01):
            return name
    near = nearest_presets(chip)
    raise UnsupportedError(
        f"chip {chip.name!r} has {kind} at {rate:g} Gb/s, for which there is no DRAM preset; "
        f"nearest by pin rate are {near[0]} and {near[1]}"
    )


def nearest_presets(chip: ChipSpec) -> tuple[str, str]:
    """The two presets whose pin rate is nearest to that of a chip's memory."""
    rate = chip.memory.pin_rate.si / 1e9
    apart: dict[str, float] = {}
    for (_, known_rate), name in PRESET_OF_MEMORY.items():
        apart[name] = min(abs(known_rate - rate), apart.get(name, math.inf))
    first, second = sorted(apart, key=lambda name: (apart[name], name))[:2]
    return first, second


@lru_cache(maxsize=32)
def idle_ns(preset: str) -> float:
    """Median latency of one burst to a random idle bank."""
    alone = Pattern("gather", 32, outstanding=1, chunks=2000)
    return simulate(preset, alone).latency_p50_ns
