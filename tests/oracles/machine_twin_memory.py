"""Network, cache and memory of the plain machine: servers, lines by least recent use, channels.

An address is taken apart by the rules of `hwmodels/machine/engine.py`, written down once more. The
memory's channels are those of the plain DRAM controller, one tick after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hwmodels.dram.chip_memory import ChipController
from hwmodels.dram.mapping import parse_mapping
from hwmodels.dram.parameters import tick_table
from hwmodels.llc.spec import CacheSpec
from hwmodels.machine.spec import MachineSpec
from tests.oracles.dram_twin_channel import TwinChannel
from tests.oracles.llc_twin import mixed

BLOCK_BYTES = 256
BURST_BYTES = 32
_GOLDEN = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1
_MILLION = 1 << 20


def share_of(number: int, share: float) -> bool:
    """Whether a number belongs to a share of all numbers, to a millionth."""
    return mixed(number) % _MILLION < round(share * _MILLION)


class Server:
    """Takes bytes one request after the other, in the order in which they are announced."""

    def __init__(self, bytes_per_s: float) -> None:
        self.ps_a_kb = round(1024 / bytes_per_s * 10**12) if bytes_per_s else 0
        self.free_ps = 0

    def turn(self, at: int, nbytes: int) -> int:
        """When bytes that come at `at` are through."""
        begins = self.turn_begins(at, nbytes)
        return begins + self.takes(nbytes)

    def turn_begins(self, at: int, nbytes: int) -> int:
        """When the turn begins of bytes that come at `at`."""
        begins = max(self.free_ps, at)
        self.free_ps = begins + self.takes(nbytes)
        return begins

    def takes(self, nbytes: int) -> int:
        """Picoseconds of so many bytes."""
        return -(-nbytes * self.ps_a_kb // 1024)


@dataclass(eq=False)
class Chunk:
    """Neighbouring bytes of one block on their way to or from memory, and who waits for them."""

    write: bool
    sent_ps: int
    channel: int
    bursts: range
    line: Line | None = None
    waiting: list[tuple[Any, int]] = field(default_factory=list)  # stage in flight, bytes
    left: int = 0

    @property
    def nbytes(self) -> int:
        """Whole bursts."""
        return len(self.bursts) * BURST_BYTES


@dataclass(eq=False)
class Line:
    """A line that the cache has or awaits."""

    number: int
    way: int
    sectors: set[int] = field(default_factory=set)
    coming: Chunk | None = None


class Lines:
    """Tags of the cache: lists of lines by home and set, the least recently used first."""

    def __init__(self, spec: CacheSpec) -> None:
        self.spec = spec
        self.sets: dict[tuple[int, int], list[Line]] = {}

    def find(self, number: int, home: int) -> Line:
        """A line, the last to be used now; one that is missing comes in without sectors.

        In a full set the first one goes that is not on its way, or where all are the one in way 0.
        """
        lines = self.sets.setdefault((home, mixed(number + 7) % self.spec.sets), [])
        for line in lines:
            if line.number == number:
                lines.remove(line)
                lines.append(line)
                return line
        way = len(lines)
        if way == self.spec.ways:
            still = [line for line in lines if line.coming is None]
            gone = still[0] if still else next(line for line in lines if line.way == 0)
            lines.remove(gone)
            way = gone.way
        lines.append(Line(number, way))
        return lines[-1]


def chunk_at(machine: MachineSpec, address: int, nbytes: int, write: bool, at: int) -> Chunk:
    """A chunk of bytes within a block.

    Blocks lie on stacks in turn, turned by a hash, within a stack on channels by an XOR hash, and
    within a channel on eight rows of blocks by another.
    """
    stacks, channels = machine.stacks, machine.stack_channels
    block, within = divmod(address, BLOCK_BYTES)
    own, place = divmod(block, stacks)
    stack = (place + mixed(own + 3)) % stacks
    row, number = divmod(own, channels)
    number ^= (((row ^ (row >> 7)) * _GOLDEN & _WORD) >> 40) % channels
    row ^= mixed(row // 8) % 8
    first = row * (BLOCK_BYTES // BURST_BYTES)
    bursts = range(first + within // BURST_BYTES, first + (within + nbytes - 1) // BURST_BYTES + 1)
    return Chunk(write, at, stack * channels + number, bursts, left=len(bursts))


class Memory:
    """The plain channels of a machine; it is what `TwinChannel` asks and tells."""

    def __init__(self, machine: MachineSpec) -> None:
        controller = ChipController()
        self.spec = controller.spec(machine.preset)
        self.ticks = tick_table(machine.preset, self.spec)
        self.organisation = machine.preset.organisation
        self.mapping = parse_mapping(controller.mapping, self.organisation)
        self.trace: list[Any] = []
        self.chunks = SimpleNamespace(writes=[])  # by number, as the channels want it
        self.taken: list[Chunk] = []
        self.finished: list[Chunk] = []
        self.channels = [TwinChannel(self, number) for number in range(machine.channels)]  # type: ignore[arg-type]
        self.bytes = [0] * machine.channels
        self.tick_fs = machine.tick_fs
        self.tick = 0

    @property
    def next_ps(self) -> int:
        """Time of the next tick: the first picosecond that is not before it."""
        return -(-(self.tick + 1) * self.tick_fs // 1000)

    def take(self, chunk: Chunk) -> None:
        """Queue the bursts of a chunk that reaches its channel now, before the next tick."""
        self.taken.append(chunk)
        self.chunks.writes.append(chunk.write)
        self.bytes[chunk.channel] += chunk.nbytes
        fifo = self.channels[chunk.channel].fifo
        fifo.extend((len(self.taken) - 1, burst) for burst in chunk.bursts)

    def step(self) -> list[Chunk]:
        """One tick of all channels; the chunks that finished, channel by channel."""
        self.tick += 1
        self.finished = []
        for channel in self.channels:
            if not _rests(channel, self.tick):
                channel.advance(self.tick)
        return self.finished

    def finish_burst(self, number: int) -> None:
        """A burst of a chunk has returned or been taken."""
        chunk = self.taken[number]
        chunk.left -= 1
        if chunk.left == 0:
            self.finished.append(chunk)


def _rests(channel: TwinChannel, tick: int) -> bool:
    """Whether nothing waits at a channel and no refresh is due: such a tick changes nothing."""
    busy = channel.fifo or any(channel.queues) or channel.active or channel.returning
    return (
        not busy
        and channel.draining == 1
        and tick < channel.refresh_due
        and not any(
            pc.refresh_pending or pc.owed or pc.chosen >= 0 or tick >= pc.due for pc in channel.pcs
        )
    )
