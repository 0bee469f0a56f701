"""One run of a kernel program on a machine: its tables, the compiled call, what came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwmodels.dram import words as d
from hwmodels.dram.chip_memory import ChipController
from hwmodels.dram.mapping import parse_mapping
from hwmodels.dram.parameters import controller_memory, controller_parameters
from hwmodels.machine import words as w
from hwmodels.machine.live import PICOSECONDS
from hwmodels.machine.program import Access, Block, KernelProgram, Launch, Work
from hwmodels.machine.spec import MachineSpec
from simulator.basis.errors import UnsupportedError

_MOST_CHUNKS = 1 << 19
_PAGE = 4096
Words = NDArray[np.int64]


@dataclass(frozen=True)
class MachineResult:
    """What a run says. Times in picoseconds, from the first launch gap to the last block's end.

    `states_ps` add up to the time times the slots of blocks. Bytes are of the whole chip.
    """

    duration_ps: int
    launches_ps: tuple[int, ...]
    slots: int
    states_ps: dict[str, int]
    hit_bytes: int
    missed_bytes: int
    merged_bytes: int
    read_bytes: int
    written_bytes: int
    near_bytes: int
    far_bytes: int
    sent_bytes: int
    chunks: int
    memory_wait_ps: int
    row_hit_rate: float
    channel_bytes: tuple[int, ...]
    events: int

    @property
    def hit_rate(self) -> float:
        """Share of loaded bytes that the cache had, or that were already on their way."""
        asked = self.hit_bytes + self.missed_bytes + self.merged_bytes
        return (asked - self.missed_bytes) / asked if asked else 1.0

    @property
    def channel_balance(self) -> float:
        """Mean channel over the fullest: 1 where all move as much."""
        most = max(self.channel_bytes)
        return sum(self.channel_bytes) / len(self.channel_bytes) / most if most else 1.0

    @property
    def mean_in_flight_chunks(self) -> float:
        """Chunks between their core's request and memory's answer, mean over the time."""
        return self.memory_wait_ps / max(self.duration_ps, 1)


def depth_of(block: Block, machine: MachineSpec) -> int:
    """Stages that a block has in flight: what it asks for, as far as the core has room.

    A core without room for one stage is an UnsupportedError that says how much is missing.
    """
    need = block.fixed_bytes + block.stage_bytes
    if need > machine.shared_bytes:
        raise UnsupportedError(
            f"a block needs {need} bytes of shared memory, but a core has {machine.shared_bytes} "
            f"({need - machine.shared_bytes} too few); take a smaller tile or another chip"
        )
    depth = min(block.in_flight, w.RING)
    if block.stage_bytes:
        depth = min(depth, (machine.shared_bytes - block.fixed_bytes) // block.stage_bytes)
    loaded = sum(a.nbytes for a in block.accesses if not a.stores)
    if loaded:
        depth = min(depth, machine.copy_bytes // loaded)
        if block.flight_bytes:
            depth = min(depth, block.flight_bytes // loaded)
    return max(depth, 1)


@dataclass(frozen=True)
class Noted:
    """A run, when its blocks ended, by their numbers, and its first stretches.

    A stretch is a row as `words.N_...` says; `left_out` had no room.
    """

    result: MachineResult
    ends_ps: Words
    stretches: Words
    left_out: int


def run_program(program: KernelProgram, machine: MachineSpec) -> MachineResult:
    """Run all launches of a kernel."""
    return noted_run(program, machine, 0).result


def noted_run(program: KernelProgram, machine: MachineSpec, most: int) -> Noted:
    """Run all launches; also the first `most` stretches of cores, slices, chunks and links."""
    from hwmodels.machine.engine import run_machine  # compiles, so only where it runs

    controller = ChipController()
    spec = controller.spec(machine.preset)
    parameters = controller_parameters(
        machine.preset, spec, machine.channels, controller.interleave_bytes, hashed=False
    )
    digits = parse_mapping(controller.mapping, machine.preset.organisation).table()
    memory = controller_memory(parameters)
    table = _Table(program, machine, most)
    totals = np.zeros(d.TOTALS, np.int64)
    totals[[d.X_FINISHED]] = -1
    runs = np.zeros((table.chunks, d.RUN_WORDS), np.int64)
    runs[:, d.F_NEXT] = np.append(np.arange(1, len(runs)), -1)
    wake = np.full(machine.channels, memory[d.C_REF_DUE], np.int64)
    words = table.words
    writes, sizes, left, finished = (
        table.view(at, table.chunks) for at in (w.O_WRITES, w.O_SIZES, w.O_LEFT, w.O_FINISHED)
    )
    no_trace = np.zeros((0, d.TRACE_WORDS), np.int64)
    run_machine(
        words, memory, parameters, digits, runs, totals, wake, writes, sizes, left, finished,
        no_trace,
    )  # fmt: skip
    if words[w.T_FAULT]:
        raise AssertionError(f"the machine stopped with fault {words[w.T_FAULT]}")
    noted = int(words[w.T_LANES])
    stretches = table.records(w.O_LANES, w.LANE_WORDS, min(noted, most)).copy()
    result = _result(table, memory.reshape(machine.channels, -1))
    return Noted(result, table.ends_ps(), stretches, max(0, noted - most))


class _Table:
    """The machine's memory for one run."""

    def __init__(self, program: KernelProgram, machine: MachineSpec, lanes: int) -> None:
        self.program, self.machine = program, machine
        self.kinds = [k for launch in program.launches for k in launch.kinds]
        self.depths = [depth_of(kind, machine) for kind in self.kinds]
        self.slots = blocks_at_once(self.kinds, machine)
        in_flight = self._most_chunks()
        self.chunks = min(in_flight, _MOST_CHUNKS)
        heap = 3 * self.chunks + machine.cores * self.slots * (w.PLACES + 2) + 64
        sets = machine.cache.sets
        lines = sets * machine.cache.ways * machine.cache.partitions
        accesses = sum(
            len(k.accesses) + len(k.first_accesses) + len(k.last_accesses) for k in self.kinds
        )
        sizes = {
            w.O_REGIONS: len(program.regions) * w.R_WORDS,
            w.O_ACCESSES: accesses * w.A_WORDS,
            w.O_KINDS: len(self.kinds) * w.K_WORDS,
            w.O_LAUNCHES: len(program.launches) * w.G_WORDS,
            w.O_BLOCKS: program.blocks * w.B_WORDS,
            w.O_DEALT: len(program.launches) * machine.cores * 2,
            w.O_CORES: machine.cores * w.U_WORDS,
            w.O_SLOTS: machine.cores * self.slots * w.S_WORDS,
            w.O_SLICES: machine.slices,
            w.O_CROSSINGS: machine.cache.partitions,
            w.O_TAGS: lines,
            w.O_VALID: lines,
            w.O_STAMPS: lines,
            w.O_PENDING: lines,
            w.O_CHUNKS: self.chunks * w.H_WORDS,
            w.O_SIZES: self.chunks,
            w.O_WRITES: self.chunks,
            w.O_LEFT: self.chunks,
            w.O_FINISHED: self.chunks,
            w.O_WAITERS: 2 * self.chunks * w.W_WORDS,
            w.O_HEAP: heap * w.E_WORDS,
            w.O_CHANNELS: machine.channels,
            w.O_LANES: lanes * w.LANE_WORDS,
        }
        at = w.HEADER_WORDS
        self.at: dict[int, int] = {}
        for name, size in sizes.items():
            self.at[name] = at
            at += size
        self.words: Words = np.zeros(at, np.int64)
        for name, place in self.at.items():
            self.words[name] = place
        self.words[w.M_HEAP] = heap
        self.words[w.M_LANES] = lanes
        self._header()
        self._regions()
        self._kinds()
        self._launches()
        self._cores()
        self._free_lists()

    def view(self, table: int, count: int) -> Words:
        """A table of single words."""
        return self.words[self.at[table] : self.at[table] + count]

    def records(self, table: int, width: int, count: int) -> Words:
        """A table of records, one a row."""
        return self.view(table, width * count).reshape(count, width)

    def ends_ps(self) -> Words:
        """When blocks ended, in the order in which the launches have them."""
        ended = self.records(w.O_BLOCKS, w.B_WORDS, self.program.blocks)[:, w.B_ENDED]
        found = np.empty_like(ended)
        found[self.order] = ended
        return found

    def _most_chunks(self) -> int:
        """Chunks that loads may have in flight; stores are bounded by the memory's own pace."""
        line = min(self.machine.cache.line_bytes, 256)
        most = 0
        for kind, depth in zip(self.kinds, self.depths, strict=True):
            each = sum(a.nbytes // line + 2 for a in kind.accesses) * (depth + 1)
            each += sum(a.nbytes // line + 2 for a in (*kind.first_accesses, *kind.last_accesses))
            stored = sum(a.nbytes // line + 2 * a.pieces for a in kind.accesses if a.stores)
            most = max(most, each + w.STORED + stored)
        return 4 * most * self.machine.cores * self.slots + 1024

    def _header(self) -> None:
        machine, words = self.machine, self.words
        cache = machine.cache

        def kilobyte_ps(bytes_per_s: float) -> int:
            return round(1024 / bytes_per_s * PICOSECONDS) if bytes_per_s else 0

        facts = {
            w.M_CORES: machine.cores,
            w.M_SLOTS: self.slots,
            w.M_SLICES: machine.slices,
            w.M_PARTITIONS: cache.partitions,
            w.M_TICK_FS: machine.tick_fs,
            w.M_NEAR_PS: round(cache.near_latency_s * PICOSECONDS),
            w.M_FAR_PS: round(cache.far_latency_s * PICOSECONDS),
            w.M_PATH_PS: round(machine.path_s * PICOSECONDS),
            w.M_SLICE_PS_A_KB: kilobyte_ps(cache.read_bytes_per_s / machine.slices),
            w.M_PORT_PS_A_KB: kilobyte_ps(machine.port_bytes_per_s),
            w.M_CROSS_PS_A_KB: kilobyte_ps(machine.cross_bytes_per_s),
            w.M_LINK_PS_A_KB: kilobyte_ps(machine.link_bytes_per_s),
            w.M_LINE: cache.line_bytes,
            w.M_SECTOR: cache.sector_bytes,
            w.M_WAYS: cache.ways,
            w.M_SETS: cache.sets,
            w.M_CHANNELS: machine.channels,
            w.M_STACK_CHANNELS: machine.stack_channels,
            w.M_STACKS: machine.stacks,
            w.M_LAUNCHES: len(self.program.launches),
        }
        for word, value in facts.items():
            words[word] = value
        self.view(w.O_TAGS, self._lines)[:] = -1
        self.view(w.O_PENDING, self._lines)[:] = -1

    @property
    def _lines(self) -> int:
        cache = self.machine.cache
        return cache.sets * cache.ways * cache.partitions

    def _regions(self) -> None:
        """Regions lie one behind the other, from page to page."""
        base = 0
        rows = self.records(w.O_REGIONS, w.R_WORDS, len(self.program.regions))
        for row, region in zip(rows, self.program.regions, strict=True):
            run = region.run_bytes
            runs = max(1, region.nbytes // run) if run else 1
            nbytes = runs * run if run else region.nbytes
            shares = (round(share * w.SHARES) for share in (region.warm, region.kept))
            row[:] = (base, nbytes, run, runs, *shares)
            base += -(-nbytes // _PAGE) * _PAGE

    def _kinds(self) -> None:
        places = iter(range(self.at[w.O_ACCESSES], self.words.size, w.A_WORDS))
        rows = self.records(w.O_KINDS, w.K_WORDS, len(self.kinds))
        for row, kind, depth in zip(rows, self.kinds, self.depths, strict=True):
            row[w.K_SHARED] = kind.fixed_bytes + kind.stage_bytes * depth
            row[w.K_REGISTERS] = min(kind.registers_bytes, self.machine.register_bytes)
            row[w.K_THREADS] = min(kind.threads, self.machine.threads)
            row[w.K_DEPTH] = depth
            parts = (
                (kind.prologue, kind.first_accesses),
                (kind.stage, kind.accesses),
                (kind.epilogue, kind.last_accesses),
            )
            multiplies = kind.stage.matrix > 0
            for number, (work, accesses) in enumerate(parts):
                at = w.K_PARTS + number * w.PART_WORDS
                more = 0.0
                if multiplies and number == w.PROLOGUE:
                    more = self.machine.matrix_fill_clocks - kind.held_fill
                elif multiplies and number == w.LOOP:
                    more = self.machine.matrix_issue_clocks - kind.held_issue
                row[at : at + w.PART_WORDS] = (
                    *self._work(work, more),
                    *self._accesses(accesses, places),
                )

    def _work(self, work: Work, more_clocks: float) -> tuple[int, int, int, int]:
        ps = self.machine.clocks_ps
        wait = max(0.0, work.wait + more_clocks)
        return ps(work.matrix), ps(work.vector), ps(wait), work.send_bytes

    def _accesses(self, accesses: Sequence[Access], places: object) -> tuple[int, int]:
        """Writes accesses side by side; the first and past-last place."""
        first = to = self.at[w.O_ACCESSES]
        for number, access in enumerate(accesses):
            at = next(places)  # type: ignore[call-overload]
            first = first if number else at
            to = at + w.A_WORDS
            self.words[at:to] = (
                self.at[w.O_REGIONS] + access.region * w.R_WORDS,
                access.nbytes,
                access.row_bytes,
                access.divide,
                access.modulo,
                int(access.stores),
                access.pieces,
                access.pitch,
                access.first,
            )
        return first, to

    def _launches(self) -> None:
        rows = self.records(w.O_LAUNCHES, w.G_WORDS, len(self.program.launches))
        blocks = self.records(w.O_BLOCKS, w.B_WORDS, self.program.blocks)
        self.order = np.arange(self.program.blocks)
        first_block, first_kind = 0, 0
        before_in: dict[int, int] = {}
        for number, (row, launch) in enumerate(zip(rows, self.program.launches, strict=True)):
            at = self.at[w.O_BLOCKS] + first_block * w.B_WORDS
            own = blocks[first_block : first_block + launch.blocks]
            order = np.arange(launch.blocks)
            dealt = -1
            if launch.core is not None:
                order = np.argsort(launch.core, kind="stable")
                dealt = self._deal(number, launch, at)
            self.order[first_block : first_block + launch.blocks] = first_block + order
            own[:, w.B_KIND] = self.at[w.O_KINDS] + (first_kind + launch.kind[order]) * w.K_WORDS
            own[:, w.B_STAGES] = launch.stages[order]
            own[:, w.B_PLACE] = launch.coordinates[order]
            own[:, w.B_LAUNCH] = self.at[w.O_LAUNCHES] + number * w.G_WORDS
            before = before_in.get(launch.stream, -1)
            before_in[launch.stream] = self.at[w.O_LAUNCHES] + number * w.G_WORDS
            gap, end = (round(s * PICOSECONDS) for s in (launch.gap_s, launch.end_s))
            to = at + launch.blocks * w.B_WORDS
            row[:] = (at, to, dealt, before, gap, end, at, launch.blocks, -1, -1, 0)
            first_block += launch.blocks
            first_kind += len(launch.kinds)

    def _deal(self, number: int, launch: Launch, first: int) -> int:
        """Lists of blocks by core; the place of the first list."""
        cores = self.machine.cores
        assert launch.core is not None
        counts = np.bincount(launch.core, minlength=cores)
        ends = np.cumsum(counts) * w.B_WORDS + first
        at = self.at[w.O_DEALT] + number * cores * 2
        table = self.words[at : at + 2 * cores].reshape(cores, 2)
        table[:, 0] = ends - counts * w.B_WORDS
        table[:, 1] = ends
        return at

    def _cores(self) -> None:
        machine, count = self.machine, self.machine.cores
        cores = self.records(w.O_CORES, w.U_WORDS, count)
        numbers = np.arange(count)
        first_slots = self.at[w.O_SLOTS] + numbers * self.slots * w.S_WORDS
        cores[:, w.U_NUMBER] = numbers
        cores[:, w.U_FIRST_SLOT] = first_slots
        cores[:, w.U_SHARED] = machine.shared_bytes
        cores[:, w.U_REGISTERS] = machine.register_bytes
        cores[:, w.U_THREADS] = machine.threads
        cores[:, w.U_BLOCKS] = self.slots
        slots = self.records(w.O_SLOTS, w.S_WORDS, count * self.slots)
        slots[:, w.S_BLOCK] = -1
        slots[:, w.S_CORE] = self.at[w.O_CORES] + np.repeat(numbers, self.slots) * w.U_WORDS

    def _free_lists(self) -> None:
        chunks = self.records(w.O_CHUNKS, w.H_WORDS, self.chunks)
        chunks[:, w.H_WAITERS] = np.append(np.arange(1, self.chunks), -1)
        waiters = self.records(w.O_WAITERS, w.W_WORDS, 2 * self.chunks)
        first = self.at[w.O_WAITERS]
        places = first + np.arange(1, 2 * self.chunks) * w.W_WORDS
        waiters[:, w.W_NEXT] = np.append(places, -1)
        self.words[w.T_FREE_WAITER] = first


def blocks_at_once(kinds: Sequence[Block], machine: MachineSpec) -> int:
    """Blocks that a core may hold at once, at most; a kind that fits on none is refused.

    Assumes: a block whose registers are more than a core's keeps the rest in its shared memory.
    """
    most = 1
    for kind in kinds:
        need = kind.fixed_bytes + kind.stage_bytes * depth_of(kind, machine)
        own = min(machine.blocks, machine.shared_bytes // need if need else machine.blocks)
        registers = min(kind.registers_bytes, machine.register_bytes)
        own = min(own, machine.register_bytes // registers if registers else own)
        threads = min(kind.threads, machine.threads)
        own = min(own, machine.threads // threads if threads else own)
        most = max(most, own)
    return most


def _result(table: _Table, channels: Words) -> MachineResult:
    words, machine = table.words, table.machine
    launches = table.records(w.O_LAUNCHES, w.G_WORDS, len(table.program.launches))
    last = int(launches[:, w.G_ENDED].argmax())
    end = int(launches[last, w.G_ENDED])
    cores = table.records(w.O_CORES, w.U_WORDS, machine.cores)
    slots = machine.cores * table.slots
    states = cores[:, w.U_STATES :].sum(axis=0)
    if not all(launch.fills_chip for launch in table.program.launches):
        used = max(1, int((cores[:, w.U_STATES + w.Z_PROLOGUE :].sum(axis=1) > 0).sum()))
        states[w.Z_LAUNCH] = states[w.Z_LAUNCH] * used // slots
        states[w.Z_EMPTY], slots = 0, used
    # What is left until the end is time without a block, but for the end of the last launch.
    charged = table.records(w.O_SLOTS, w.S_WORDS, slots)[:, w.S_SINCE]
    ending = np.maximum(charged, end - int(launches[last, w.G_END_PS]))
    states[w.Z_EPILOGUE] += int((end - ending).sum())
    states[w.Z_EMPTY] += end * slots - int(states.sum())
    columns = int(channels[:, [d.N_READ, d.N_WRITE]].sum())
    return MachineResult(
        duration_ps=end,
        launches_ps=tuple(int(ended) for ended in launches[:, w.G_ENDED]),
        slots=slots,
        states_ps=dict(zip(w.STATE_NAMES, map(int, states), strict=True)),
        hit_bytes=int(words[w.T_HIT]),
        missed_bytes=int(words[w.T_MISS]),
        merged_bytes=int(words[w.T_MERGED]),
        read_bytes=int(words[w.T_READ]),
        written_bytes=int(words[w.T_WRITTEN]),
        near_bytes=int(words[w.T_NEAR]),
        far_bytes=int(words[w.T_FAR]),
        sent_bytes=int(words[w.T_SENT]),
        chunks=int(words[w.T_CHUNKS]),
        memory_wait_ps=int(words[w.T_DRAM_PS]),
        row_hit_rate=int(channels[:, d.N_HIT].sum()) / max(columns, 1),
        channel_bytes=tuple(table.view(w.O_CHANNELS, machine.channels).tolist()),
        events=int(words[w.T_EVENTS]),
    )
