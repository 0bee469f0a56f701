"""The machine once more as SimPy processes, one a block: the slow truth of the compiled loop.

It shares only the program, the chip's facts and the plain DRAM channels with what it is held
against. Rules that decide ties: of events at one time the one that was added first comes first; a
tick of the memory comes before an event only if its picosecond is earlier; chunks that finish in
one tick are handled channel by channel; who waits for one chunk is answered last come, first.

A request leaves its core in turn, takes its turns at slice and crossing when it reaches the slice
and at the port when it comes back; a part of a block takes those at the core's units and at the
links when it begins, even where they lie ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import simpy
from simpy.events import URGENT

from hwmodels.machine.program import Access, Block, KernelProgram, Launch, Work
from hwmodels.machine.spec import MachineSpec
from tests.oracles.llc_twin import mixed
from tests.oracles.machine_twin_memory import (
    BLOCK_BYTES,
    Chunk,
    Lines,
    Memory,
    Server,
    chunk_at,
    share_of,
)

PICOSECONDS = 10**12
PAGE_BYTES = 4096
MOST_STAGES = 16
STORED_CHUNKS = 256
STATES = (
    "launch", "no block", "prologue", "matrix", "vector", "wait", "pipe busy", "cache", "memory",
    "links", "epilogue",
)  # fmt: skip
Steps = Generator[simpy.Event, None, None]


class Bell(simpy.Event):
    """Wakes a block at once, before anything else of this moment."""

    def ring(self) -> None:
        self._ok, self._value = True, None
        self.env.schedule(self, priority=URGENT)


@dataclass(eq=False)
class Flight:
    """What part of a block waits for: requests that are out, the last answer known, its source."""

    ready_ps: int
    source: str = "cache"
    out: int = 0

    def known(self, at: int, source: str) -> None:
        """A request is answered at `at`; of answers at one time the first one counts."""
        if at > self.ready_ps:
            self.ready_ps, self.source = at, source


@dataclass(eq=False)
class Slot:
    """Room for a block in a core; its time is charged to states up to `since_ps`."""

    stored: Flight
    block: BlockRun | None = None
    since_ps: int = 0
    owes: Run | None = None


@dataclass(eq=False)
class Core:
    """What the blocks of a core share."""

    number: int
    port: Server
    asking: Server
    storing: Server
    slots: list[Slot]
    room: dict[str, int]
    unit_free_ps: dict[str, int] = field(default_factory=lambda: {"matrix": 0, "vector": 0})


@dataclass(eq=False)
class Run:
    """A launch, begun or to begin, and the one that follows it in its stream."""

    launch: Launch
    queues: list[list[int]]
    left: int
    after: Run | None = None
    owed: int = 0
    begun: bool = False
    ended_ps: int | None = None


@dataclass(frozen=True)
class Place:
    """A region's place in memory: it begins at a page; a last part of a run is left out."""

    base: int
    nbytes: int
    run: int
    warm: float
    kept: float

    def address(self, offset: int) -> tuple[int, int]:
        """Address of a byte, and how many bytes lie there side by side."""
        if not self.run:
            return self.base + offset, self.nbytes - offset
        number, within = divmod(offset, self.run)
        place = number * 2654435761 % (self.nbytes // self.run)
        return self.base + place * self.run + within, self.run - within


def depth(block: Block, machine: MachineSpec) -> int:
    """Stages in flight: bounded by what the block says, by shared memory and by copies."""
    bounds = [block.in_flight, MOST_STAGES]
    loaded = sum(access.nbytes for access in block.accesses if not access.stores)
    if block.stage_bytes:
        bounds.append((machine.shared_bytes - block.fixed_bytes) // block.stage_bytes)
    if loaded:
        bounds.append(machine.copy_bytes // loaded)
        if block.flight_bytes:
            bounds.append(block.flight_bytes // loaded)
    return max(1, min(bounds))


def needs(block: Block, machine: MachineSpec) -> dict[str, int]:
    """What a block takes of its core; what its registers lack it has in shared memory anyway."""
    return {
        "shared": block.fixed_bytes + block.stage_bytes * depth(block, machine),
        "registers": min(block.registers_bytes, machine.register_bytes),
        "threads": min(block.threads, machine.threads),
        "blocks": 1,
    }


class MachineTwin:
    """A machine that runs one program; counts, times and states are attributes."""

    def __init__(self, program: KernelProgram, machine: MachineSpec) -> None:
        self.program, self.machine = program, machine
        self.env = simpy.Environment()
        self.memory = Memory(machine)
        self.lines = Lines(machine.cache)
        self.slices = [
            Server(machine.cache.read_bytes_per_s / machine.slices) for _ in range(machine.slices)
        ]
        self.crossings = [
            Server(machine.cross_bytes_per_s) for _ in range(machine.cache.partitions)
        ]
        self.links = Server(machine.link_bytes_per_s)
        self.path_ps = round(machine.path_s * PICOSECONDS)
        self.places = self._places()
        room = {
            "shared": machine.shared_bytes,
            "registers": machine.register_bytes,
            "threads": machine.threads,
            "blocks": machine.blocks,
        }
        kinds = [kind for launch in program.launches for kind in launch.kinds]
        slots = max(
            min(room[what] // need for what, need in needs(kind, machine).items() if need)
            for kind in kinds
        )
        room["blocks"] = slots
        self.cores = [
            Core(
                n, *(Server(machine.port_bytes_per_s) for _ in range(3)),
                [Slot(Flight(0)) for _ in range(slots)], dict(room),
            )
            for n in range(machine.cores)
        ]  # fmt: skip
        self.states = dict.fromkeys(STATES, 0)
        self.bytes = dict.fromkeys(
            ("hit", "missed", "merged", "read", "written", "near", "far", "sent"), 0
        )
        self.added = 0  # events and looks at lines, which decide what the cache has lost
        self.chunks = self.memory_wait_ps = 0
        self.runs = [Run(own, self._dealt(own), own.blocks) for own in program.launches]
        latest: dict[int, Run] = {}
        for run in self.runs:
            before = latest.get(run.launch.stream)
            if before is None:
                self.add(self._ps(run.launch.gap_s), partial(self._begin, run))
            else:
                before.after = run
            latest[run.launch.stream] = run

    @property
    def launches_ps(self) -> list[int]:
        """When launches ended."""
        return [run.ended_ps or 0 for run in self.runs]

    def _places(self) -> list[Place]:
        places, base = [], 0
        for region in self.program.regions:
            nbytes = region.nbytes
            if region.run_bytes:
                nbytes = max(1, nbytes // region.run_bytes) * region.run_bytes
            places.append(Place(base, nbytes, region.run_bytes, region.warm, region.kept))
            base += -(-nbytes // PAGE_BYTES) * PAGE_BYTES
        return places

    @property
    def now(self) -> int:
        """Picoseconds."""
        return int(self.env.now)

    def run(self) -> int:
        """Run all launches; the time of the end."""
        while any(run.ended_ps is None for run in self.runs):
            if self.memory.next_ps < self.env.peek():
                at = self.memory.next_ps
                for chunk in self.memory.step():
                    self._returned(chunk, at)
            else:
                self.env.step()
        last = max(self.runs, key=lambda run: run.ended_ps or 0)
        end = last.ended_ps or 0
        for core in self.cores:
            for slot in core.slots:
                self.spend(slot, "no block", end - self._ps(last.launch.end_s))
                self.spend(slot, "epilogue", end)
        return end

    def _ps(self, seconds: float) -> int:
        return round(seconds * PICOSECONDS)

    def add(self, at: int, call: Callable[[], None] | None = None) -> simpy.Event:
        """An event at a time, and what it does."""
        self.added += 1
        event = self.env.timeout(at - self.now)
        if call:
            event.callbacks.append(lambda _: call())
        return event

    def spend(self, slot: Slot, state: str, until: int) -> None:
        """Charge a slot's time to a state."""
        if until > slot.since_ps:
            self.states[state] += until - slot.since_ps
            slot.since_ps = until

    # Launches and blocks -------------------------------------------------------------------------

    def _begin(self, run: Run) -> None:
        """Deal the first blocks of a launch to the cores, one each in turn, until none fits."""
        run.begun = True
        for core in self.cores:
            for slot in core.slots:
                if slot.block is None:
                    self.spend(slot, "no block", self.now - self._ps(run.launch.gap_s))
                    self.spend(slot, "launch", self.now)
        while any([self._place(run, core) for core in self.cores]):
            pass

    def _dealt(self, launch: Launch) -> list[list[int]]:
        """Blocks that each core may start, in order: its own, or one list that all take from."""
        if launch.core is None:
            return [list(range(launch.blocks))] * len(self.cores)
        return [np.flatnonzero(launch.core == core.number).tolist() for core in self.cores]

    def _place(self, run: Run, core: Core) -> bool:
        """Start the next block of a launch on a core, where one is left and fits."""
        queue, launch = run.queues[core.number], run.launch
        if not queue:
            return False
        kind = launch.kinds[launch.kind[queue[0]]]
        need = needs(kind, self.machine)
        if any(core.room[what] < amount for what, amount in need.items()):
            return False
        number = queue.pop(0)
        for what, amount in need.items():
            core.room[what] -= amount
        slot = next(slot for slot in core.slots if slot.block is None)
        self.spend(slot, "no block", self.now)
        place, stages = int(launch.coordinates[number]), int(launch.stages[number])
        slot.block = BlockRun(self, run, core, slot, kind, place, stages)
        self.env.process(slot.block.run())
        return True

    def block_ended(self, run: Run, core: Core, slot: Slot) -> None:
        """A block gives its room back, for as many of the next ones as fit."""
        assert slot.block is not None
        for what, amount in needs(slot.block.kind, self.machine).items():
            core.room[what] += amount
        slot.block = None
        if slot.stored.out and slot.owes is None:
            slot.owes = run
            run.owed += 1
        run.left -= 1
        self._close(run)
        for other in self.runs:
            while other.begun and self._place(other, core):
                pass

    def _close(self, run: Run) -> None:
        """End a launch that has no block left and none of whose stores is on its way."""
        if run.left or run.owed:
            return
        run.ended_ps = self.now + self._ps(run.launch.end_s)
        if run.after is not None:
            begin = run.ended_ps + self._ps(run.after.launch.gap_s)
            self.add(begin, partial(self._begin, run.after))

    def taken(self, slot: Slot) -> None:
        """A slot looks whether the last of its stores are there, and with them its launch's."""
        run = slot.owes
        if run is not None and not slot.stored.out:
            slot.owes = None
            run.owed -= 1
            self._close(run)

    # Requests ------------------------------------------------------------------------------------

    def request(
        self, block: BlockRun, flight: Flight, place: Place, address: int, nbytes: int, store: bool
    ) -> None:
        """Bytes within one block of memory leave the core in turn, and reach their slice."""
        cache, core = self.machine.cache, block.core
        number = address // BLOCK_BYTES
        group, place_in_group = divmod(number, len(self.slices))
        at_slice = (place_in_group + mixed(group)) % len(self.slices)
        home = at_slice % cache.partitions
        near = core.number % cache.partitions == home
        latency = self._ps(cache.near_latency_s if near else cache.far_latency_s)
        flight.out += 1
        way = core.storing if store else core.asking
        left = way.turn_begins(self.now, nbytes)
        if store:
            flight.known(way.free_ps, "cache")

        def reached() -> None:
            served = self.slices[at_slice].turn(self.now, nbytes)
            if not near:
                served = self.crossings[home].turn(served, nbytes)
            self.bytes["near" if near else "far"] += nbytes
            self._reached(block, flight, place, address, nbytes, store, home, left, served, latency)

        self.add(left + latency // 2, reached)

    def _reached(
        self, block: BlockRun, flight: Flight, place: Place, address: int, nbytes: int,
        store: bool, home: int, left: int, served: int, latency: int,
    ) -> None:  # fmt: skip
        """A request that its slice has served: from or to the cache, or memory."""
        at_memory = max(served, left + self.path_ps // 2)
        warm = share_of(address // BLOCK_BYTES * 5 + 1, place.warm)
        found = 0
        if store and not warm:
            self._wait(self._send(address, nbytes, True, at_memory), block, flight, 0)
        elif not store:
            found = nbytes
            if not warm:
                found = self._look_up(block, flight, place, address, nbytes, home, at_memory)
        if found:
            self.bytes["hit"] += found
            at = served + latency - latency // 2
            self.add(at, lambda: self._answer(block, flight, found, at, "cache"))
        else:
            self._given_back(block, flight, self.now)

    def _look_up(
        self, block: BlockRun, flight: Flight, place: Place, address: int, nbytes: int, home: int,
        at: int,
    ) -> int:  # fmt: skip
        """Bytes that the cache has, line by line; the rest is on its way, or comes as a chunk.

        Where a sector is missing, the chunk spans all that are asked for of its line. A line that
        is there has been lost meanwhile by chance, where the region keeps a share of its lines.
        """
        cache = self.machine.cache
        there = 0
        end = address + nbytes
        for number in range(address // cache.line_bytes, (end - 1) // cache.line_bytes + 1):
            begin = number * cache.line_bytes
            low = max(address - begin, 0)
            high = min(end - begin, cache.line_bytes)
            asked = range(low // cache.sector_bytes, (high - 1) // cache.sector_bytes + 1)
            self.added += 1
            line = self.lines.find(number, home)
            missing = not line.sectors.issuperset(asked)
            if not missing and line.coming is None:
                missing = not share_of(number * 3 + self.added, place.kept)
            if missing:
                first = asked.start * cache.sector_bytes
                span = len(asked) * cache.sector_bytes
                chunk = self._send(begin + first, span, False, at)
                chunk.line = line
                line.coming = chunk
                line.sectors.update(asked)
                self.bytes["missed"] += high - low
                self._wait(chunk, block, flight, high - low)
            elif line.coming is not None:
                self.bytes["merged"] += high - low
                self._wait(line.coming, block, flight, high - low)
            else:
                there += high - low
        return there

    def _send(self, address: int, nbytes: int, write: bool, at: int) -> Chunk:
        chunk = chunk_at(self.machine, address, nbytes, write, at)
        self.chunks += 1
        self.bytes["written" if write else "read"] += chunk.nbytes
        self.add(at, lambda: self.memory.take(chunk))
        return chunk

    def _wait(self, chunk: Chunk, block: BlockRun, flight: Flight, nbytes: int) -> None:
        chunk.waiting.insert(0, ((block, flight), nbytes))
        flight.out += 1

    def _returned(self, chunk: Chunk, now: int) -> None:
        """A chunk is back, half a way from its cores, or taken by memory."""
        self.memory_wait_ps += now - chunk.sent_ps
        back = now if chunk.write else now + self.path_ps - self.path_ps // 2
        if chunk.line is not None and chunk.line.coming is chunk:
            chunk.line.coming = None
        for (block, flight), nbytes in chunk.waiting:
            self._answer(block, flight, nbytes, back, "memory", now)

    def _answer(
        self, block: BlockRun, flight: Flight, nbytes: int, at: int, source: str,
        now: int | None = None,
    ) -> None:  # fmt: skip
        """Bytes come to a core at `at`, and take their turn at its port."""
        if nbytes:
            flight.known(block.core.port.turn(at, nbytes), source)
        self._given_back(block, flight, at if now is None else now)

    def _given_back(self, block: BlockRun, flight: Flight, now: int) -> None:
        """A part of a block waits for one answer less."""
        flight.out -= 1
        if flight.out in (0, STORED_CHUNKS):
            block.announce(max(flight.ready_ps, now))


class BlockRun:
    """A block on a core."""

    def __init__(
        self, twin: MachineTwin, launch: Run, core: Core, slot: Slot, kind: Block, place: int,
        stages: int,
    ) -> None:  # fmt: skip
        self.twin, self.launch, self.core, self.slot = twin, launch, core, slot
        self.kind, self.place, self.stages = kind, place, stages
        self.depth = depth(kind, twin.machine)
        self.flights: list[Flight] = []
        self.done = 0
        self.bell: Bell | None = None

    def run(self) -> Steps:
        """Prologue, stages while later ones are loaded, epilogue."""
        twin, kind = self.twin, self.kind
        self.stored = self.slot.stored
        self.stored.ready_ps, self.stored.source = twin.now, "cache"
        first = self._load(kind.first_accesses, 0)
        self._load_ahead()
        multiplies = kind.stage.matrix > 0
        fill = twin.machine.matrix_fill_clocks - kind.held_fill if multiplies else 0.0
        issue = twin.machine.matrix_issue_clocks - kind.held_issue if multiplies else 0.0
        yield from self._await(first)
        yield self._work(first, kind.prologue, fill, "prologue")
        for stage in range(self.stages):
            while (
                len(self.flights) == stage
                or self.stored.out > STORED_CHUNKS
                or not self._is_there(self.flights[stage])
            ):
                yield from self._hear()
            yield self._work(self.flights[stage], kind.stage, issue, "wait")
            self.done += 1
            self._touch(kind.accesses, stage, True, self.stored)
            self._load_ahead()
        self._touch(kind.last_accesses, 0, True, self.stored)
        self.announce(max(self.stored.ready_ps, twin.now))
        yield from self._hear()
        while self.stored.ready_ps > twin.now or self.stored.out > STORED_CHUNKS:
            yield from self._hear()
        yield self._work(self.stored, kind.epilogue, 0.0, "epilogue")
        twin.block_ended(self.launch, self.core, self.slot)

    def _load_ahead(self) -> None:
        """Send the loads of all stages that may be in flight."""
        while len(self.flights) < min(self.stages, self.done + self.depth):
            self.flights.append(self._load(self.kind.accesses, len(self.flights)))

    def _load(self, accesses: tuple[Access, ...], stage: int) -> Flight:
        flight = Flight(self.twin.now)
        self._touch(accesses, stage, False, flight)
        if not flight.out:
            self.announce(flight.ready_ps)
        return flight

    def announce(self, at: int) -> None:
        """Have the block look at `at` whether it can go on."""
        self.twin.add(at, self._look)

    def _look(self) -> None:
        self.twin.taken(self.slot)
        running = self.slot.block
        if running is not None and running.bell is not None:
            running.bell.ring()
            running.bell = None

    def _is_there(self, flight: Flight) -> bool:
        return flight.out == 0 and flight.ready_ps <= self.twin.now

    def _hear(self) -> Steps:
        """Sleep until an answer of this block comes that was announced, whichever it is."""
        self.bell = Bell(self.twin.env)
        yield self.bell

    def _await(self, flight: Flight) -> Steps:
        """Sleep at least once, until this one's answers are there."""
        yield from self._hear()
        while not self._is_there(flight):
            yield from self._hear()

    def _work(self, flight: Flight, work: Work, more_clocks: float, other: str) -> simpy.Event:
        """Matrix, vector, links and wait one after the other; the end of the part."""
        twin, slot = self.twin, self.slot
        here = twin.now
        twin.spend(slot, flight.source, here)
        for unit, clocks in (("matrix", work.matrix), ("vector", work.vector)):
            busy = twin.machine.clocks_ps(clocks)
            if busy:
                start = max(here, self.core.unit_free_ps[unit])
                here = self.core.unit_free_ps[unit] = start + busy
                twin.spend(slot, "pipe busy", start)
                twin.spend(slot, unit, here)
        if work.send_bytes:
            here = twin.links.turn(here, work.send_bytes)
            twin.bytes["sent"] += work.send_bytes
            twin.spend(slot, "links", here)
        here += twin.machine.clocks_ps(max(0.0, work.wait + more_clocks))
        twin.spend(slot, other, here)
        return twin.add(here)

    def _touch(
        self, accesses: tuple[Access, ...], stage: int, stores: bool, flight: Flight
    ) -> None:
        """Send the loads, or the stores, of a part: pieces of one run and one block of memory."""
        for access in accesses:
            if access.stores != stores:
                continue
            place = self.twin.places[access.region]
            row = self.place // access.divide % access.modulo
            nbytes = access.nbytes // access.pieces
            begin = access.first + row * access.row_bytes + stage * nbytes
            for piece in range(access.pieces):
                self._touch_run(place, begin + piece * access.pitch, nbytes, stores, flight)

    def _touch_run(
        self, place: Place, begin: int, nbytes: int, stores: bool, flight: Flight
    ) -> None:
        sent = 0
        while sent < nbytes:
            address, along = place.address((begin + sent) % place.nbytes)
            to_block = BLOCK_BYTES - address % BLOCK_BYTES
            part = min(nbytes - sent, along, to_block)
            self.twin.request(self, flight, place, address, part, stores)
            sent += part
