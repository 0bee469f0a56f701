"""Launches of many waves: what goes on as a part did is what the whole run takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwmodels.chip import find_chip
from hwmodels.machine.program import Access, Block, KernelProgram, Region, Work, equal_blocks
from hwmodels.machine.simulation import run_program
from hwmodels.machine.spec import machine_of
from hwmodels.machine.steady import LaunchTime, kernel_time, least_ps, simulated
from simulator.basis.errors import UnsupportedError

STACK = machine_of(find_chip("h200")).slice_of_stack()


def kernel(waves: int, stages: int, matrix: float, more: int = 5) -> KernelProgram:
    """Blocks of one a core that stream 8 KiB a stage from memory, and multiply."""
    block = Block(
        stage=Work(matrix=matrix),
        accesses=(Access(region=0, nbytes=8192, row_bytes=8192 * stages),),
        stage_bytes=8192,
        fixed_bytes=120_000,
        in_flight=4,
    )
    launch = equal_blocks(block, waves * STACK.cores + more, stages)
    return KernelProgram(regions=(Region(nbytes=1 << 33),), launches=(launch,))


def part_and_whole(program: KernelProgram) -> tuple[LaunchTime, int]:
    """With the budget that every kernel has, and all of it in picoseconds."""
    return simulated(program, STACK), run_program(program, STACK).duration_ps


@pytest.mark.parametrize(("waves", "stages"), [(8, 120), (16, 60), (32, 30), (64, 15)])
@pytest.mark.parametrize("matrix", [100.0, 400.0, 1500.0])
def test_waves_go_on_at_their_pace(waves: int, stages: int, matrix: float) -> None:
    """Bound by memory, by both and by the matrix units; half of it and more is not run."""
    part, whole = part_and_whole(kernel(waves, stages, matrix))
    assert part.extrapolated > 0.48
    assert part.duration_ps == pytest.approx(whole, rel=0.01)


@pytest.mark.parametrize("matrix", [50.0, 350.0])
def test_loops_go_on_at_their_pace(matrix: float) -> None:
    """One block a core."""
    part, whole = part_and_whole(kernel(1, 1000, matrix, more=0))
    assert part.extrapolated > 0.48
    assert part.duration_ps == pytest.approx(whole, rel=0.01)


def test_blocks_of_unlike_work_go_on_in_the_mix_of_all() -> None:
    """The first half of the blocks have nothing to do: what is kept has as many of them.

    That all others start at once in the middle counts twice, as half of the waves are kept.
    """
    program = kernel(128, 15, 400.0)
    (launch,) = program.launches
    stages = np.where(np.arange(launch.blocks) < launch.blocks // 2, 0, 15)
    part, whole = part_and_whole(replace(program, launches=(replace(launch, stages=stages),)))
    assert part.extrapolated > 0.48
    assert part.duration_ps == pytest.approx(whole, rel=0.02)


def test_blocks_without_work_go_on_too() -> None:
    """What they store last is all that they do."""
    block = Block(
        stage=Work(),
        accesses=(Access(region=0, nbytes=4096, row_bytes=4096),),
        last_accesses=(Access(region=0, nbytes=4096, row_bytes=4096, stores=True),),
        fixed_bytes=120_000,
    )
    launch = equal_blocks(block, 2000 * STACK.cores, 0)
    program = KernelProgram(regions=(Region(nbytes=1 << 33),), launches=(launch,))
    part, whole = part_and_whole(program)
    assert part.extrapolated > 0.48
    assert part.duration_ps == pytest.approx(whole, rel=0.01)


def test_kernels_of_several_streams_are_not_taken_one_after_the_other() -> None:
    program = kernel(1, 4, 10.0)
    (launch,) = program.launches
    both = replace(program, launches=(launch, replace(launch, stream=1)))
    with pytest.raises(UnsupportedError, match="launches of 2 streams, expected one stream"):
        kernel_time(both, STACK, 700.0)


def test_no_launch_is_faster_than_memory_at_its_peak() -> None:
    program = kernel(64, 64, 10.0)
    (launch,) = program.launches
    nbytes = launch.blocks * 64 * 8192
    assert least_ps(program, STACK) == pytest.approx(nbytes / STACK.peak_bytes_per_s * 1e12)
    assert simulated(program, STACK, budget=100_000).duration_ps >= nbytes / (
        STACK.peak_bytes_per_s
    ) * 1e12 * (1 - 1e-9)


def test_what_blocks_share_comes_from_memory_once() -> None:
    """Of eight blocks that read the same megabyte memory gives it to one; of the chip, not a part.

    On one stack of six the same blocks would be held to all of the bytes at a sixth of the rate.
    """
    chip = machine_of(find_chip("h200"))
    stages, shared, waves = 128, 8, 40
    blocks = waves * chip.cores
    nbytes = blocks // shared * stages * 8192
    block = Block(
        stage=Work(matrix=250.0),
        accesses=(Access(region=0, nbytes=8192, row_bytes=8192 * stages, divide=shared),),
        stage_bytes=8192,
        fixed_bytes=120_000,
        in_flight=8,
    )
    program = KernelProgram(
        regions=(Region(nbytes=nbytes),), launches=(equal_blocks(block, blocks, stages),)
    )
    least = nbytes / chip.peak_bytes_per_s * 1e12
    assert least_ps(program, chip) == pytest.approx(least)
    found = simulated(program, chip, budget=400_000)
    assert found.result.hit_rate > 0.8
    work_ps = waves * stages * (250 + chip.matrix_issue_clocks) / chip.clock_hz * 1e12
    assert max(least, work_ps) < found.duration_ps < 1.15 * work_ps
