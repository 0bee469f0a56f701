"""The DRAM controller once more in plain Python, tick by tick: the slow truth of the compiled loop.

It shares only the preset, the mapping and the chunk list with `engine.py`. Every tick looks at
every request, and every constraint is looked up in the history of commands, so that nothing has to
be kept up to date.
"""

from __future__ import annotations

from hwmodels.dram.chunks import Chunks
from hwmodels.dram.mapping import Mapping
from hwmodels.dram.parameters import ControllerSpec, tick_table
from hwmodels.dram.preset import DramPreset
from tests.oracles.dram_twin_channel import TwinChannel

_MULTIPLIER = 0x9E3779B97F4A7C15
_WRAP = (1 << 64) - 1
Command = tuple[int, int, int, int, int, int]  # tick, channel, kind, pseudo-channel, bank, row


class Twin:
    """All channels and the traffic of a run; `run` gives its commands in order."""

    def __init__(
        self,
        preset: DramPreset,
        mapping: Mapping,
        spec: ControllerSpec,
        channels: int,
        interleave_bytes: int,
        hashed: bool,
    ) -> None:
        self.ticks = tick_table(preset, spec)
        self.spec = spec
        self.organisation = preset.organisation
        self.mapping = mapping
        self.block_bursts = interleave_bytes // 32
        self.hashed = hashed
        self.trace: list[Command] = []
        self.channels = [TwinChannel(self, number) for number in range(channels)]

    def run(self, chunks: Chunks, outstanding: int, arrivals: list[int]) -> list[Command]:
        """Serve all chunks, at most `outstanding` at a time, from their arrival ticks on."""
        self.chunks = chunks
        self.left = [0] * chunks.count
        self.finished = [0] * chunks.count
        self.in_flight = self.done = 0
        tick = following = 0
        while self.done < chunks.count:
            tick += 1
            self.tick = tick
            while (
                following < chunks.count
                and self.in_flight < outstanding
                and arrivals[following] <= tick
            ):
                self._issue(following)
                following += 1
            for channel in self.channels:
                channel.advance(tick)
        return self.trace

    def _issue(self, chunk: int) -> None:
        start, size = int(self.chunks.starts[chunk]), int(self.chunks.sizes[chunk])
        bursts = range(start // 32, (start + size - 1) // 32 + 1)
        self.left[chunk] = len(bursts)
        self.in_flight += 1
        for burst in bursts:
            block, offset = divmod(burst, self.block_bursts)
            row, number = divmod(block, len(self.channels))
            if self.hashed:
                key = (row ^ (row >> 7)) * _MULTIPLIER & _WRAP
                number ^= (key >> 40) % len(self.channels)
            self.channels[number].fifo.append((chunk, row * self.block_bursts + offset))

    def finish_burst(self, chunk: int) -> None:
        """A burst of a chunk has returned or been taken."""
        self.left[chunk] -= 1
        if self.left[chunk] == 0:
            self.finished[chunk] = self.tick
            self.in_flight -= 1
            self.done += 1
