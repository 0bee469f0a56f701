"""How long a kernel program takes on a machine: whole launches, or steady parts of long ones.

A launch of much traffic runs on the machine's part with one stack of memory. What is still long
runs as many whole waves of blocks as there is a budget for, evenly spaced, and goes on at the pace
between the first of them and the last; where those are few, waves and loops of two lengths go
straight on. Equal launches are run once.

Assumes: launches of a kernel follow one another, and what one leaves in the cache is what the
regions of the next say is there.
Assumes: of a launch on many cores each stack of memory, with its share of cache and cores, sees the
same as the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.bandwidth.stored import entry_key, stored
from hwmodels.machine.live import PICOSECONDS
from hwmodels.machine.power import throttled_seconds
from hwmodels.machine.program import (
    ALL_ROWS,
    Access,
    Block,
    Counts,
    KernelProgram,
    Launch,
    Region,
    Work,
    spread_order,
)
from hwmodels.machine.simulation import (
    MachineResult,
    blocks_at_once,
    depth_of,
    noted_run,
    run_program,
)
from hwmodels.machine.spec import MachineSpec
from simulator.basis.errors import UnsupportedError

Floats = NDArray[np.float64]
# What runs of one launch may cost, in bursts of 32 bytes from memory, on the whole chip and on one
# stack of it; a request of `_REQUEST_BYTES` costs as much as one more.
WHOLE_CHIP, BUDGET = 700_000, 3_000_000
_REQUEST_BYTES, _REQUEST_COST = 256, 1.0
# Waves of the shortest runs, and stages of their loops beyond those in flight.
_FEWEST = (1, 2)
# Waves from which on their own pace tells that of more.
_FEW_WAVES = 5
_LOOPS = (4, 10)


@dataclass(frozen=True)
class LaunchTime:
    """Time of a launch, its longest run, and how much of its work was extrapolated."""

    duration_ps: float
    result: MachineResult
    extrapolated: float


@dataclass(frozen=True)
class KernelTime:
    """Time of a kernel alone; `power_s` of it is what the power limit adds."""

    seconds: float
    power_s: float
    launches: tuple[LaunchTime, ...]

    @property
    def states_s(self) -> dict[str, float]:
        """The time by what slots of blocks spend it on, mean over the slots; adds up."""
        found: dict[str, float] = {}
        for launch in self.launches:
            whole = sum(launch.result.states_ps.values())
            for name, part in launch.result.states_ps.items():
                share = part / whole * launch.duration_ps / PICOSECONDS
                found[name] = found.get(name, 0.0) + share
        return found


def cost_of(launch: Launch, regions: Sequence[Region]) -> float:
    """Bursts that the blocks of a launch ask for, and what their requests cost beside."""
    each = np.array([_stage_cost(kind, regions) for kind in launch.kinds])
    return float((each[launch.kind] * (launch.stages + 1)).sum())


def _stage_cost(block: Block, regions: Sequence[Region]) -> float:
    return sum(
        access.pieces * max(1.0, access.nbytes / access.pieces / _REQUEST_BYTES) * _REQUEST_COST
        + access.nbytes / 32 * (1.0 - regions[access.region].warm)
        for access in block.accesses
    )


def kernel_time(program: KernelProgram, machine: MachineSpec, tdp_w: float) -> KernelTime:
    """Launches one after the other; above the power limit the clock falls.

    Launches of several streams, which are not, are an UnsupportedError.
    """
    streams = {launch.stream for launch in program.launches}
    if len(streams) > 1:
        raise UnsupportedError(
            f"{program.name} has launches of {len(streams)} streams, expected one stream: its time "
            "is that of launches one after the other; run several together with run_program"
        )
    launches = tuple(launch_time(program, i, machine) for i in range(len(program.launches)))
    seconds = sum(launch.duration_ps for launch in launches) / PICOSECONDS
    limited = float(throttled_seconds(seconds, program.energy_j / tdp_w))
    return KernelTime(limited, limited - seconds, launches)


def launch_time(program: KernelProgram, number: int, machine: MachineSpec) -> LaunchTime:
    """One launch of a program alone."""
    own = program.launches[number]
    return _known(_Key(replace(program, launches=(own,), energy_j=0.0, name="")), machine)


class _Key:
    """A program of one launch, by its content."""

    def __init__(self, program: KernelProgram) -> None:
        self.program = program
        (launch,) = program.launches
        arrays = (launch.kind, launch.stages, launch.core, launch.place)
        content = tuple(b"" if a is None else a.tobytes() for a in arrays)
        facts = (launch.gap_s, launch.end_s, launch.fills_chip)
        self.content = (program.regions, launch.kinds, facts, content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)

    def name(self, machine: MachineSpec) -> str:
        """Name of what is kept of it on a machine."""
        regions, kinds, facts, arrays = self.content
        digest = hashlib.sha256(repr((regions, kinds, facts)).encode())
        for each in arrays:
            digest.update(len(each).to_bytes(8, "little") + each)
        chip = {each.name: getattr(machine, each.name) for each in fields(machine)}
        chip["preset"] = machine.preset.model_dump(mode="json")
        chip["cache"] = asdict(machine.cache)
        return entry_key(
            {"launch": digest.hexdigest(), "machine": chip, "budgets": [WHOLE_CHIP, BUDGET]}
        )


@lru_cache(maxsize=4096)
def _known(key: _Key, machine: MachineSpec) -> LaunchTime:
    return stored(
        key.name(machine), lambda: simulated(key.program, machine), asdict, _launch_time_of
    )


def _launch_time_of(content: dict[str, Any]) -> LaunchTime:
    own = content["result"]
    result = MachineResult(
        **{
            **own,
            "launches_ps": tuple(own["launches_ps"]),
            "channel_bytes": tuple(own["channel_bytes"]),
        }
    )
    return LaunchTime(content["duration_ps"], result, content["extrapolated"])


def simulated(program: KernelProgram, machine: MachineSpec, budget: float = BUDGET) -> LaunchTime:
    """The only launch of a program within a budget: whole, of one stack, or extrapolated.

    What goes on as a part did is never faster than all of it through memory at its peak.
    """
    found = _within(program, machine, budget)
    if not found.extrapolated:
        return found
    least = least_ps(program, machine)
    return replace(found, duration_ps=max(found.duration_ps, least))


def _within(program: KernelProgram, machine: MachineSpec, budget: float) -> LaunchTime:
    (launch,) = program.launches
    several = machine.stacks > 1
    if cost_of(launch, program.regions) <= (min(WHOLE_CHIP, budget) if several else budget):
        result = run_program(program, machine)
        return LaunchTime(float(result.duration_ps), result, 0.0)
    if several:
        program = of_stack(program, launch, machine)
        machine = machine.slice_of_stack()
        return _within(program, machine, budget)
    return _extrapolated(program, machine, budget)


def of_stack(program: KernelProgram, launch: Launch, machine: MachineSpec) -> KernelProgram:
    """A launch's blocks on one stack's share of the cores: as many a core, the last wave too."""
    part = machine.slice_of_stack()
    share = part.cores / machine.cores
    if launch.core is None:
        at_once = blocks_at_once(launch.kinds, machine)
        waves, rest = divmod(launch.blocks, at_once * machine.cores)
        count = waves * at_once * part.cores + int(np.ceil(rest * share - 1e-9))
        own = _kept(launch, _even_runs(launch, count))
    else:
        own = _kept_cores(launch, part.cores)
    kinds = tuple(_with_reuse(kind, share) for kind in launch.kinds)
    own = replace(own, kinds=kinds, place=_dense(own, launch))
    return replace(program, launches=(own,))


def _even_runs(launch: Launch, count: int) -> Counts:
    """Numbers of about evenly spaced blocks, neighbours on the same data kept together."""
    place = launch.coordinates
    begins = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    lengths = np.diff(np.append(begins, launch.blocks))
    # So that any number of runs is spread over the launch.
    order = spread_order(len(begins))
    enough = int(np.searchsorted(np.cumsum(lengths[order]), count)) + 1
    runs = np.sort(order[:enough])
    found = np.concatenate([begins[run] + np.arange(lengths[run]) for run in runs])
    return found[:count]


def _dense(own: Launch, launch: Launch) -> Counts:
    """Places of the blocks that stay: as they were where they say which data, else in order."""
    return own.coordinates if launch.place is not None else np.arange(own.blocks)


def _with_reuse(block: Block, share: float) -> Block:
    """The block among fewer others: of rows that all blocks go through in turn there are fewer.

    Rows that neighbours share stay shared by as many: the blocks that stay read their part of them.
    """

    def scaled(access: Access) -> Access:
        if access.divide > 1 or access.modulo >= ALL_ROWS:
            return access
        return replace(access, modulo=max(1, round(access.modulo * share)))

    return replace(block, accesses=tuple(map(scaled, block.accesses)))


def _kept_cores(launch: Launch, count: int) -> Launch:
    """Blocks of some of the cores, the one with the most work among them."""
    assert launch.core is not None
    work = np.bincount(launch.core, weights=launch.stages + 1.0)
    used = np.flatnonzero(work)
    ranked = used[np.argsort(-work[used], kind="stable")]
    at = np.rint(np.linspace(0, len(ranked) - 1, min(count, len(ranked)))).astype(np.int64)
    number = np.full(len(work), -1)
    number[np.sort(ranked[at])] = np.arange(len(at))
    keep = np.flatnonzero(number[launch.core] >= 0)
    own = _kept(launch, keep)
    return replace(own, core=number[launch.core[keep]])


def _kept(launch: Launch, keep: Counts) -> Launch:
    return replace(
        launch,
        kind=launch.kind[keep],
        stages=launch.stages[keep],
        core=None if launch.core is None else launch.core[keep],
        place=launch.coordinates[keep],
    )


def _extrapolated(program: KernelProgram, machine: MachineSpec, budget: float) -> LaunchTime:
    """As many waves as the budget has, which go on at their pace; or shorter loops too."""
    (launch,) = program.launches
    at_once = blocks_at_once(launch.kinds, machine) * machine.cores
    whole = whole_waves(launch, at_once)

    def cost(waves: int) -> float:
        return cost_of(cut_launch(launch, waves, 1.0, at_once), program.regions)

    if whole <= _FEW_WAVES or cost(_FEW_WAVES) > budget:
        return _shorter_loops(program, machine, budget)
    waves, above = _FEW_WAVES, whole
    while above - waves > 1:
        middle = (waves + above) // 2
        waves, above = (middle, above) if cost(middle) <= budget else (waves, middle)
    own = cut_launch(launch, waves, 1.0, at_once)
    run = noted_run(replace(program, launches=(own,)), machine, 0)
    done, left = _block_clocks(own, machine), _block_clocks(launch, machine).sum()
    left -= done.sum()
    more = left * _pace(run.ends_ps, done, waves)
    share = 1.0 - cost(waves) / cost_of(launch, program.regions)
    return LaunchTime(run.result.duration_ps + more, run.result, share)


def _pace(ends_ps: Counts, work: Floats, waves: int) -> float:
    """Picoseconds that a unit of blocks' work takes between the first wave and the last.

    Each block of the second wave is held against the one that ended some waves after it.
    """
    order = np.argsort(ends_ps, kind="stable")
    done, ends = np.cumsum(work[order]), ends_ps[order]
    wave = len(order) // waves
    early = np.arange(wave, 2 * wave)
    late = early + (waves - 3) * wave
    return float((ends[late] - ends[early]).sum() / (done[late] - done[early]).sum())


def _shorter_loops(program: KernelProgram, machine: MachineSpec, budget: float) -> LaunchTime:
    """Two lengths of loops, in all of the waves or by two numbers of them, and straight on."""
    (launch,), regions = program.launches, program.regions
    at_once = blocks_at_once(launch.kinds, machine) * machine.cores
    longest = int(launch.stages.max())
    depth = max(depth_of(kind, machine) for kind in launch.kinds)
    whole = whole_waves(launch, at_once)
    waves = (whole,) if whole <= _FEWEST[-1] else _FEWEST

    def cut(wave: int, loop: int) -> Launch:
        return cut_launch(launch, wave, loop / longest, at_once)

    loops: tuple[int, ...] = (longest,)
    cost = sum(cost_of(cut(wave, longest), regions) for wave in waves)
    if cost > budget and longest > depth + _LOOPS[-1]:
        # Half of the loop is run too.
        last = int(min(max(budget / cost / 1.5 * longest, depth + _LOOPS[-1]), longest))
        loops = (max(last // 2, min(depth + _LOOPS[0], last - 1)), last)
    runs = {
        (wave, loop): noted_run(replace(program, launches=(cut(wave, loop),)), machine, 0)
        for wave in waves
        for loop in loops
    }
    wholes = (*(cut(wave, longest) for wave in waves), launch)
    extents = tuple(_extent(one, at_once, machine) for one in wholes)
    share = 1.0 - cost_of(cut(waves[-1], loops[-1]), regions) / cost_of(launch, regions)
    part = 4 if launch.blocks <= at_once else launch.blocks
    late = {sizes: _late_ps(run.ends_ps, part) for sizes, run in runs.items()}
    key = waves[-1], loops[-1]
    more = _plane(late, waves, loops, extents, longest) - late[key]
    return LaunchTime(runs[key].result.duration_ps + more, runs[key].result, share)


def _late_ps(ends_ps: Counts, part: int) -> float:
    """When the last part of the blocks ended, in the mean.

    Of blocks that run at once a quarter is steadier than the very last one.
    """
    count = -(-len(ends_ps) // part)
    return float(np.partition(ends_ps, -count)[-count:].mean())


def least_ps(program: KernelProgram, machine: MachineSpec) -> float:
    """Time of the only launch at memory's peak, for what the cache has not, gap and end included.

    Of a region that stays in the cache each byte comes once.
    """
    (launch,) = program.launches
    moved = np.zeros((2, len(program.regions)))
    for number, kind in enumerate(launch.kinds):
        stages = float(launch.stages[launch.kind == number].sum())
        for access in kind.accesses:
            moved[int(access.stores), access.region] += stages * access.nbytes
    cold = 0.0
    for region, loaded, stored_bytes in zip(program.regions, *moved, strict=True):
        once = min(loaded, region.nbytes) if region.kept >= 1.0 else loaded
        cold += (once + stored_bytes) * (1.0 - region.warm)
    return (cold / machine.peak_bytes_per_s + launch.gap_s + launch.end_s) * PICOSECONDS


def whole_waves(launch: Launch, at_once: int) -> int:
    """Blocks that every place has, at least."""
    if launch.core is not None:
        counts = np.bincount(launch.core)
        return int(counts[counts > 0].min())
    return launch.blocks // at_once


def cut_launch(launch: Launch, waves: int, share: float, at_once: int) -> Launch:
    """A launch with so many waves, whose loops are a share as long."""
    own = _kept(launch, _kept_blocks(launch, waves, at_once))
    if share >= 1.0:
        return own
    stages = np.where(own.stages > 0, np.maximum(1, np.rint(own.stages * share)), 0)
    return replace(own, stages=stages.astype(np.int64))


def _kept_blocks(launch: Launch, waves: int, at_once: int) -> Counts:
    """Numbers of the blocks that stay: so many whole waves, evenly spaced, and what is over."""
    whole = whole_waves(launch, at_once)
    if waves >= whole:
        return np.arange(launch.blocks)
    if launch.core is None:
        firsts = np.rint(np.linspace(0, whole - 1, waves)).astype(np.int64) * at_once
        kept = (firsts[:, None] + np.arange(at_once)).ravel()
        return np.append(kept, np.arange(whole * at_once, launch.blocks))
    counts = np.bincount(launch.core)
    order = np.argsort(launch.core, kind="stable")
    cores = launch.core[order]
    rank = np.arange(len(order)) - np.searchsorted(cores, cores)
    # The same share of each core's blocks, evenly spaced.
    left = np.ceil(counts * (waves / whole))[cores]
    stay = np.floor((rank + 1) * left / counts[cores]) > np.floor(rank * left / counts[cores])
    return np.sort(order[stay])


def _extent(launch: Launch, at_once: int, machine: MachineSpec) -> float:
    """What the time of a launch grows with: work of the fullest core, or of blocks at once."""
    work = _block_clocks(launch, machine)
    if launch.core is None:
        return float(work.sum()) / at_once
    return float(np.bincount(launch.core, weights=work).max())


def _block_clocks(launch: Launch, machine: MachineSpec) -> Floats:
    """Clocks of every block if it were alone, at least one."""
    each = np.array([_alone_clocks(kind, machine) for kind in launch.kinds])
    return np.maximum(each[launch.kind, 0] + each[launch.kind, 1] * launch.stages, 1.0)


def _alone_clocks(block: Block, machine: MachineSpec) -> tuple[float, float]:
    """Clocks of a block that is alone, without its loop and in a stage of it."""

    def clocks(work: Work, accesses: tuple[Access, ...]) -> float:
        moved = sum(access.nbytes for access in accesses) / machine.port_bytes_per_s
        return work.matrix + work.vector + work.wait + moved * machine.clock_hz

    once = clocks(block.prologue, block.first_accesses)
    once += clocks(block.epilogue, block.last_accesses)
    return once, clocks(block.stage, block.accesses)


def _plane(
    times: dict[tuple[int, int], float],
    waves: tuple[int, ...],
    loops: tuple[int, ...],
    extents: tuple[float, ...],
    longest: int,
) -> float:
    """Time at all waves and the whole loop, straight on in both.

    `extents` are those of the runs and, last, of the whole launch.
    """

    def over_loops(wave: int) -> float:
        last = times[wave, loops[-1]]
        if len(loops) == 1:
            return last
        rate = (last - times[wave, loops[0]]) / (loops[1] - loops[0])
        return last + rate * (longest - loops[1])

    last = over_loops(waves[-1])
    if len(waves) == 1:
        return last
    rate = (last - over_loops(waves[0])) / (extents[1] - extents[0])
    return last + rate * (extents[2] - extents[1])
