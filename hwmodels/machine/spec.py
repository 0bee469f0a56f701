"""A chip's facts as the machine needs them: cores, cache, network on chip, links and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from hwmodels.chip import ChipSpec
from hwmodels.dram.chip_memory import chip_memory
from hwmodels.dram.preset import DramPreset
from hwmodels.llc.spec import CacheSpec, chip_cache
from hwmodels.machine.live import PICOSECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """Numbers that decide how long a kernel program takes on a chip; equal ones are one machine.

    `path_s` is a load's way to memory and back without the DRAM's own time. `stack_channels`
    channels of each of `stacks` are chosen by one XOR hash, and are a power of two.
    """

    cores: int
    clock_hz: float
    shared_bytes: int
    register_bytes: int
    threads: int
    blocks: int
    copy_bytes: int
    matrix_fill_clocks: float
    matrix_issue_clocks: float
    port_bytes_per_s: float
    cross_bytes_per_s: float
    link_bytes_per_s: float
    slices: int
    cache: CacheSpec
    preset: DramPreset
    stacks: int
    stack_channels: int
    peak_bytes_per_s: float
    path_s: float

    @property
    def channels(self) -> int:
        """Memory channels of the chip."""
        return self.stacks * self.stack_channels

    @property
    def tick_fs(self) -> int:
        """A scheduling step of the memory's controllers in femtoseconds.

        Assumes: a chip whose stated peak is not its channels' times their rate runs them slower or
            faster as a whole.
        """
        pins = self.channels * self.preset.channel_bytes_per_s
        return round(self.preset.tick_ps * 1000 * pins / self.peak_bytes_per_s)

    def slice_of_stack(self) -> MachineSpec:
        """The part of the machine that has one stack of memory: its share of cores and of the rest.

        Assumes: cores come in whole numbers, and every rate and size goes with them.
        """
        cores = max(1, round(self.cores / self.stacks))
        share = cores / self.cores
        cache = replace(
            self.cache,
            capacity_bytes=round(self.cache.capacity_bytes * share),
            read_bytes_per_s=self.cache.read_bytes_per_s * share,
        )
        return replace(
            self,
            cores=cores,
            cross_bytes_per_s=self.cross_bytes_per_s * share,
            link_bytes_per_s=self.link_bytes_per_s * share,
            slices=max(self.cache.partitions, round(self.slices * share)),
            cache=cache,
            stacks=1,
            peak_bytes_per_s=self.peak_bytes_per_s * share,
        )

    def clocks_ps(self, clocks: float) -> int:
        """Picoseconds of so many core clocks."""
        return round(clocks / self.clock_hz * PICOSECONDS)


@lru_cache(maxsize=64)
def machine_of(chip: ChipSpec) -> MachineSpec:
    """The machine of a chip.

    Assumes: channels beyond the largest power of two of a stack are told apart as stacks are.
    """
    memory = chip_memory(chip)
    channels = memory.channels
    in_stack = min(channels & -channels, 1 << (memory.channels_a_stack.bit_length() - 1))
    llc_rate = chip.llc_bandwidth_bytes_per_s
    return MachineSpec(
        cores=chip.core_count,
        clock_hz=chip.clock_hz,
        shared_bytes=chip.smem_bytes_per_core,
        register_bytes=chip.register_bytes_per_core,
        threads=chip.threads_per_core,
        blocks=chip.blocks_per_core,
        copy_bytes=chip.copy_bytes_per_core,
        matrix_fill_clocks=chip.matrix_fill_clocks,
        matrix_issue_clocks=chip.matrix_issue_clocks,
        port_bytes_per_s=chip.core_port_bytes_per_clock * chip.clock_hz,
        cross_bytes_per_s=chip.partition_link_bytes_per_s or llc_rate,
        link_bytes_per_s=chip.scale_up_bytes_per_s,
        slices=chip.llc_slices,
        cache=chip_cache(chip),
        preset=memory.preset,
        stacks=channels // in_stack,
        stack_channels=in_stack,
        peak_bytes_per_s=memory.peak_bytes_per_s,
        path_s=memory.path_ns * 1e-9,
    )
