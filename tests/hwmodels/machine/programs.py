"""Small machines and small programs for tests, made from a seed."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from hwmodels.chip import find_chip
from hwmodels.machine.program import NOTHING, Access, Block, KernelProgram, Launch, Region, Work
from hwmodels.machine.spec import MachineSpec, machine_of

NS = 1e-9


def some_machine(rng: random.Random) -> MachineSpec:
    """Two to four cores with a cache of a few sets, one or two stacks of one or two channels."""
    whole = machine_of(find_chip(rng.choice(["h200", "b200"])))
    stacks, channels = rng.choice([1, 2]), rng.choice([1, 2])
    pins = stacks * channels * whole.preset.channel_bytes_per_s
    ways = rng.choice([1, 2, 4, 16])
    partitions = rng.choice([1, 2])
    line, sector = rng.choice([(128, 32), (128, 32), (128, 64), (512, 128)])
    cache = replace(
        whole.cache,
        line_bytes=line,
        sector_bytes=sector,
        capacity_bytes=line * ways * partitions * rng.choice([1, 3, 16, 64]),
        ways=ways,
        partitions=partitions,
        read_bytes_per_s=rng.choice([1e10, 1e11, 4e11]),
        near_latency_s=rng.choice([whole.cache.near_latency_s, 20 * NS]),
        far_latency_s=rng.choice([whole.cache.far_latency_s, 41 * NS]),
    )
    return replace(
        whole,
        cores=rng.choice([2, 3, 4]),
        shared_bytes=rng.choice([4096, 16384, 65536]),
        blocks=rng.choice([1, 2, 5]),
        copy_bytes=rng.choice([2048, 8192, 262144]),
        matrix_issue_clocks=rng.choice([0, 32, 37]),
        port_bytes_per_s=rng.choice([1e10, 64 * whole.clock_hz]),
        cross_bytes_per_s=rng.choice([2e10, 4e11]),
        link_bytes_per_s=rng.choice([5e9, 4e11]),
        slices=rng.choice([1, 2, 3, 4]),
        cache=cache,
        stacks=stacks,
        stack_channels=channels,
        peak_bytes_per_s=pins * rng.choice([1.0, 0.95, 1.03]),
        path_s=rng.choice([whole.path_s, 30 * NS, 0.0]),
    )


def some_program(rng: random.Random) -> KernelProgram:
    """One to three launches of a few blocks over a few regions."""
    regions = tuple(_region(rng) for _ in range(rng.choice([1, 2, 3])))
    launches = rng.choice([1, 1, 2, 3])
    blocks = rng.choice([1, 4, 12]) // launches + 1
    return KernelProgram(
        regions=regions, launches=tuple(_launch(rng, len(regions), blocks) for _ in range(launches))
    )


def on_cores(rng: random.Random, program: KernelProgram, cores: int) -> KernelProgram:
    """The program with some launches whose blocks are dealt to cores by the kernel."""
    return replace(
        program,
        launches=tuple(
            replace(launch, core=np.array([rng.randrange(cores) for _ in range(launch.blocks)]))
            if rng.random() < 0.3
            else launch
            for launch in program.launches
        ),
    )


def on_streams(rng: random.Random, program: KernelProgram) -> KernelProgram:
    """The program with its launches on one to three streams."""
    streams = rng.choice([1, 2, 2, 3])
    return replace(
        program,
        launches=tuple(replace(one, stream=rng.randrange(streams)) for one in program.launches),
    )


def _region(rng: random.Random) -> Region:
    return Region(
        nbytes=rng.choice([1000, 4096, 20_000, 1 << 18]),
        run_bytes=rng.choice([0, 0, 32, 100, 576, 4096]),
        warm=rng.choice([0.0, 0.0, 0.3, 1.0]),
        kept=rng.choice([1.0, 1.0, 0.5, 0.0]),
    )


def _access(rng: random.Random, regions: int, stores: bool) -> Access:
    nbytes = rng.choice([32, 100, 256, 584, 1024])
    return Access(
        region=rng.randrange(regions),
        nbytes=nbytes,
        row_bytes=rng.choice([0, nbytes, 4 * nbytes, 5000]),
        divide=rng.choice([1, 1, 2, 3]),
        modulo=rng.choice([1 << 40, 1 << 40, 2, 1]),
        stores=stores,
        pieces=rng.choice([1, 1, 2, 5]),
        pitch=rng.choice([0, 256, 1000]),
        first=rng.choice([0, 0, 300]),
    )


def _accesses(rng: random.Random, regions: int, loads: int, stores: int) -> tuple[Access, ...]:
    found = [_access(rng, regions, False) for _ in range(rng.randint(0, loads))]
    found += [_access(rng, regions, True) for _ in range(rng.randint(0, stores))]
    rng.shuffle(found)
    return tuple(found)


def _work(rng: random.Random) -> Work:
    def clocks() -> float:
        return rng.choice([0.0, 0.0, rng.randrange(300) / 2, rng.randrange(2000) / 2])

    return Work(
        matrix=clocks(),
        vector=clocks(),
        wait=clocks(),
        send_bytes=rng.choice([0, 0, 0, rng.randrange(2000)]),
    )


def _block(rng: random.Random, regions: int) -> Block:
    loaded = rng.choice([0, 512, 1024])
    return Block(
        stage=_work(rng),
        prologue=rng.choice([NOTHING, _work(rng)]),
        epilogue=rng.choice([NOTHING, _work(rng)]),
        accesses=_accesses(rng, regions, 2, 1),
        first_accesses=_accesses(rng, regions, 1, 0),
        last_accesses=_accesses(rng, regions, 0, 2),
        stage_bytes=loaded,
        fixed_bytes=rng.choice([0, 1000, 3000]),
        registers_bytes=rng.choice([0, 30_000, 140_000]),
        threads=rng.choice([128, 1024]),
        in_flight=rng.choice([1, 2, 4, 16, 40]),
        flight_bytes=rng.choice([0, 0, 2000]),
        held_fill=rng.choice([0, 20, 40]),
        held_issue=rng.choice([0, 20, 40]),
    )


def _launch(rng: random.Random, regions: int, blocks: int) -> Launch:
    kinds = tuple(_block(rng, regions) for _ in range(rng.choice([1, 1, 2])))
    return Launch(
        kinds=kinds,
        kind=np.array([rng.randrange(len(kinds)) for _ in range(blocks)]),
        stages=np.array([rng.choice([0, 1, 2, 4, 18]) for _ in range(blocks)]),
        place=rng.choice([None, np.array([rng.randrange(50) for _ in range(blocks)])]),
        gap_s=rng.choice([0.0, 50 * NS]),
        end_s=rng.choice([0.0, 70 * NS]),
    )
