"""Launches of many waves: what goes on as a part did is what the whole run takes."""

from __future__ import annotations

import pytest

from hwmodels.chip import find_chip
from hwmodels.machine.program import Access, Block, KernelProgram, Region, Work, equal_blocks
from hwmodels.machine.simulation import run_program
from hwmodels.machine.spec import machine_of
from hwmodels.machine.steady import least_ps, simulated

STACK = machine_of(find_chip("h200")).slice_of_stack()


def kernel(waves: int, stages: int, matrix: float) -> KernelProgram:
    """Blocks of one a core that stream 8 KiB a stage from memory, and multiply."""
    block = Block(
        stage=Work(matrix=matrix),
        accesses=(Access(region=0, nbytes=8192, row_bytes=8192 * stages),),
        stage_bytes=8192,
        fixed_bytes=120_000,
        in_flight=4,
    )
    launch = equal_blocks(block, waves * STACK.cores + 5, stages)
    return KernelProgram(regions=(Region(nbytes=1 << 33),), launches=(launch,))


@pytest.mark.parametrize(("waves", "stages"), [(8, 16), (16, 16), (32, 8)])
@pytest.mark.parametrize("matrix", [100.0, 1500.0])
def test_a_part_of_a_launch_tells_the_whole(waves: int, stages: int, matrix: float) -> None:
    program = kernel(waves, stages, matrix)
    whole = run_program(program, STACK).duration_ps
    part = simulated(program, STACK, budget=200_000)
    assert part.extrapolated > 0.3
    assert part.duration_ps == pytest.approx(whole, rel=0.03)


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
