"""Price of an engine's kernel as the machine runs its programs, event by event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hwmodels.machine.live import to_ps
from hwmodels.machine.power import throttled_seconds
from hwmodels.machine.program import KernelProgram
from hwmodels.machine.simulation import blocks_at_once
from hwmodels.machine.spec import MachineSpec, machine_of
from hwmodels.machine.steady import KernelTime, kernel_time
from simulator.cost.engine_price import program_price
from simulator.cost.machine_calls import call_program
from simulator.cost.machine_view import STATE_PLACES, MachineView
from simulator.cost.price import Price, Target
from simulator.cost.tile import tile_price
from simulator.cost.tile_blocks import tile_program, tiled_kernel
from simulator.engine.kernel import Demand
from simulator.kernels import attention_blocks, moved_blocks, product_blocks, stream_blocks
from simulator.kernels.causes import CAUSES, shared_out
from simulator.kernels.registry import FAMILIES

# Cause of what blocks spend their time on.
_CAUSE_OF_STATE = {
    "launch": "launch",
    "no block": "tail",
    "prologue": "serial",
    "matrix": "matrix",
    "vector": "vector",
    "wait": "serial",
    "pipe busy": "matrix",
    "cache": "llc",
    "memory": "dram_bandwidth",
    "links": "communication",
    "epilogue": "serial",
    "power": "power",
}


def machine_price(demand: Demand, target: Target) -> Price | None:
    """Price of a kernel whose program a calibrated family has; None where tiles price it.

    Assumes: a kernel's interval is that of its family's closed form, whose constants it has.
    """
    found = program_price(demand, target)
    if found is None:
        return _tiled_price(demand, target)
    tile, calls = found
    return _as_run(
        tile, [call_program(call, target.chip) for call in calls], target, machine_of(target.chip)
    )


def _tiled_price(demand: Demand, target: Target) -> Price | None:
    """Price of a kernel of a family that tiles price; None where it is of none.

    Assumes: what a family's kernels do not reach of the memory's rate is lost as if all of the
        memory ran slower by as much.
    """
    tile = tile_price(demand, target)
    if tile.priced_by not in FAMILIES:
        return None
    kernel, machine = tiled_kernel(demand, target), machine_of(target.chip)
    slower = replace(machine, peak_bytes_per_s=machine.peak_bytes_per_s * kernel.memory_share)
    return _as_run(tile, [tile_program(demand, target, kernel)], target, slower)


def _as_run(
    tile: Price, kernels: Sequence[KernelProgram], target: Target, machine: MachineSpec
) -> Price:
    """A price with the time that the machine takes for the kernel's programs."""
    times = [kernel_time(program, machine, target.chip.tdp_w) for program in kernels]
    total = to_ps(sum(time.seconds for time in times))
    states = shared_out(total, states_of(times), STATE_PLACES)
    causes = causes_of(states)
    launch = min(causes.get("launch", 0), total)
    return replace(
        tile,
        run_ps=total - launch,
        busy_ps={**tile.busy_ps, "launch": launch},
        causes_ps=causes,
        machine=replace(_view(times), states_ps=states),
    )


def states_of(times: Sequence[KernelTime]) -> dict[str, float]:
    """Seconds by what blocks spend them on, of launches one after the other."""
    found: dict[str, float] = {}
    for time in times:
        for state, seconds in (*time.states_s.items(), ("power", time.power_s)):
            found[state] = found.get(state, 0.0) + seconds
    return found


def causes_of(states_ps: Mapping[str, int]) -> dict[str, int]:
    """Picoseconds by cause, of those by state."""
    found: dict[str, int] = {}
    for state, part_ps in states_ps.items():
        cause = _CAUSE_OF_STATE[state]
        found[cause] = found.get(cause, 0) + part_ps
    return {cause: found[cause] for cause in CAUSES if cause in found}


def _view(times: Sequence[KernelTime]) -> MachineView:
    """What the machine saw of all launches together."""
    launches = [launch for time in times for launch in time.launches]
    results = [launch.result for launch in launches]
    seconds = sum(launch.duration_ps for launch in launches) or 1.0
    asked = sum(r.hit_bytes + r.missed_bytes + r.merged_bytes for r in results)
    bursts = sum(r.read_bytes + r.written_bytes for r in results)

    def by_time(value: Sequence[float]) -> float:
        pairs = zip(value, launches, strict=True)
        return sum(v * launch.duration_ps for v, launch in pairs) / seconds

    return MachineView(
        occupancy=by_time([_busy_share(r.states_ps) for r in results]),
        llc_hit_rate=1.0 - sum(r.missed_bytes for r in results) / asked if asked else 1.0,
        row_hit_rate=(
            sum(r.row_hit_rate * (r.read_bytes + r.written_bytes) for r in results) / bursts
            if bursts
            else 0.0
        ),
        queued_chunks=by_time([r.mean_in_flight_chunks for r in results]),
        channel_balance=min((r.channel_balance for r in results if r.chunks), default=1.0),
        extrapolated=by_time([launch.extrapolated for launch in launches]),
    )


def _busy_share(states_ps: Mapping[str, int]) -> float:
    """Share of the slots of blocks that hold one."""
    whole = sum(states_ps.values())
    return 1.0 - (states_ps["no block"] + states_ps["launch"]) / whole if whole else 0.0


def machine_assumed() -> tuple[object, ...]:
    """What stands behind a kernel that the machine ran, beyond its family's constants."""
    from hwmodels.machine import engine, steady

    return (
        machine_price, _tiled_price, tile_program, engine, engine._send, steady, machine_of,
        MachineSpec.tick_fs, MachineSpec.slice_of_stack, blocks_at_once,
        moved_blocks.after_first_load, moved_blocks.passed, moved_blocks.collective_blocks,
        attention_blocks._core_block, product_blocks._Pipeline.of, product_blocks._expert_block,
        stream_blocks._tensorrt_kernel, stream_blocks._unfitted_chain_s, throttled_seconds,
    )  # fmt: skip
