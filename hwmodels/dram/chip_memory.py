"""The DRAM preset of a chip's memory, and what lies between its cores and the DRAM.

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

from hwmodels.chip import ChipSpec
from hwmodels.dram.edited_preset import INTERLEAVE_BYTES
from hwmodels.dram.memory_preset import memory_preset, named_preset, unknown_memory
from hwmodels.dram.parameters import ControllerSpec, Refresh
from hwmodels.dram.pattern import Pattern, simulate
from hwmodels.dram.preset import DramPreset, find_preset
from simulator.basis.errors import InputError, UnsupportedError
from simulator.basis.yaml_loader import KeyFaultError, dotted

_WRITES_A_READ = 4


# A millisecond of reads waiting in one channel is beyond any controller.
MOST_QUEUED_NS = 1e6
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
    interleave_bytes: int = INTERLEAVE_BYTES
    queued_ns: float = QUEUED_NS
    refresh: Refresh = "per-bank"

    def __post_init__(self) -> None:
        if not 0 < self.queued_ns <= MOST_QUEUED_NS:
            raise InputError(
                f"queued_ns is {self.queued_ns:g}, expected more than 0 and at most "
                f"{MOST_QUEUED_NS:,.0f}"
            )

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
    preset = chip_preset(chip)
    return ChipMemory(
        chip=chip.name,
        preset=preset,
        channels=chip.hbm_channels,
        channels_a_stack=chip.memory.channels_per_stack.whole,
        peak_bytes_per_s=chip.hbm_bandwidth_bytes_per_s,
        path_ns=max(0.0, chip.dram_latency_s * 1e9 - idle_ns(preset)),
        cores=chip.core_count,
    )


def chip_preset(chip: ChipSpec) -> DramPreset:
    """Preset of a chip's memory, with the numbers that the chip's file replaces.

    An unknown memory, or numbers that contradict each other, are refused in a sentence.
    """
    try:
        return memory_preset(chip.memory)
    except KeyFaultError as fault:
        place = dotted(("memory", *fault.keys))
        raise fault.kind(f"chip {chip.name!r}, {place!r}: {fault.sentence}") from None
    except UnsupportedError as error:
        raise UnsupportedError(f"chip {chip.name!r}: {error.message}") from None


def preset_name(chip: ChipSpec) -> str:
    """Name or path of the preset for a chip's memory; an unknown memory says what to write."""
    name = named_preset(chip.memory)
    if name is None:
        raise UnsupportedError(f"chip {chip.name!r}: {unknown_memory(chip.memory)}")
    return name


_idle_ns: dict[str, float] = {}


def idle_ns(preset: str | DramPreset) -> float:
    """Median latency of one burst to a random idle bank."""
    facts = preset if isinstance(preset, DramPreset) else find_preset(preset)
    key = facts.numbers
    if key not in _idle_ns:
        alone = Pattern("gather", 32, outstanding=1, chunks=2000)
        _idle_ns[key] = simulate(facts, alone).latency_p50_ns
    return _idle_ns[key]
