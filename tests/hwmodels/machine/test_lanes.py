"""Stretches of a run add up to what the run says, and noting them changes nothing of it."""

from __future__ import annotations

import numpy as np
import pytest

from hwmodels.chip import find_chip
from hwmodels.machine import words as w
from hwmodels.machine.lanes import (
    LANES_BUDGET,
    bins_of,
    busy_share,
    bytes_per_s,
    kernel_lanes,
    mean_open,
)
from hwmodels.machine.program import Access, Block, KernelProgram, Region, Work, equal_blocks
from hwmodels.machine.simulation import Noted, noted_run, run_program
from hwmodels.machine.spec import machine_of

MACHINE = machine_of(find_chip("h200")).slice_of_stack()
ROW = 4096


def program(blocks: int, stages: int) -> KernelProgram:
    block = Block(
        stage=Work(matrix=64.0, vector=16.0, send_bytes=256),
        prologue=Work(wait=100.0),
        accesses=(
            Access(region=0, nbytes=ROW, row_bytes=ROW * stages),
            Access(region=1, nbytes=ROW // 2, row_bytes=ROW // 2 * stages, stores=True),
        ),
        in_flight=2,
    )
    size = blocks * stages * ROW
    return KernelProgram(
        regions=(Region(nbytes=size), Region(nbytes=size)),
        launches=(equal_blocks(block, blocks, stages, gap_s=1e-6),),
    )


@pytest.fixture(scope="module")
def noted() -> Noted:
    return noted_run(program(40, 4), MACHINE, 100_000)


def of(noted: Noted, sort: int) -> np.ndarray:
    return noted.stretches[noted.stretches[:, w.N_SORT] == sort]


def test_stretches_add_up(noted: Noted) -> None:
    result = noted.result
    assert noted.left_out == 0
    slices, chunks, links = (of(noted, sort) for sort in (w.OF_SLICE, w.OF_CHUNK, w.OF_LINK))
    assert slices[:, w.N_BYTES].sum() == result.near_bytes + result.far_bytes
    assert len(chunks) == result.chunks
    written = chunks[:, w.N_STATE] == 1
    assert chunks[~written, w.N_BYTES].sum() == result.read_bytes
    assert chunks[written, w.N_BYTES].sum() == result.written_bytes
    assert (chunks[:, w.N_TO] - chunks[:, w.N_FROM]).sum() == result.memory_wait_ps
    by_channel = np.bincount(chunks[:, w.N_WHO], weights=chunks[:, w.N_BYTES])
    assert by_channel.astype(int).tolist() == list(result.channel_bytes)
    assert links[:, w.N_BYTES].sum() == result.sent_bytes == 40 * 4 * 256
    cores = of(noted, w.OF_CORE)
    matrix = cores[cores[:, w.N_STATE] == w.Z_MATRIX]
    assert (matrix[:, w.N_TO] - matrix[:, w.N_FROM]).sum() == result.states_ps["matrix"]


def test_servers_take_one_after_the_other(noted: Noted) -> None:
    for sort in (w.OF_SLICE, w.OF_LINK):
        own = of(noted, sort)
        for who in np.unique(own[:, w.N_WHO]):
            turns = own[own[:, w.N_WHO] == who]
            assert (turns[1:, w.N_FROM] >= turns[:-1, w.N_TO]).all()


def test_noting_changes_nothing_and_keeps_to_its_bound(noted: Noted) -> None:
    few = noted_run(program(40, 4), MACHINE, 10)
    assert few.result == noted.result == run_program(program(40, 4), MACHINE)
    assert few.stretches.tolist() == noted.stretches[:10].tolist()
    assert few.left_out == len(noted.stretches) - 10


def stretch(start: int, end: int, nbytes: int = 0) -> list[int]:
    row = [0] * w.LANE_WORDS
    row[w.N_FROM], row[w.N_TO], row[w.N_BYTES] = start, end, nbytes
    return row


def test_bins_by_hand() -> None:
    edges = bins_of(100, 4)
    assert edges.tolist() == [0, 25, 50, 75, 100]
    found = np.array([stretch(0, 50, 100), stretch(40, 60, 7), stretch(90, 100, 1)])
    assert mean_open(found, edges) == pytest.approx([1.0, 1.4, 0.4, 0.4])
    assert bytes_per_s(found, edges) == pytest.approx([0, 0, 107 / 25e-12, 1 / 25e-12])
    assert busy_share(found[[0, 2]], edges) == pytest.approx([1.0, 1.0, 0.0, 0.4])
    assert bins_of(3, 200).tolist() == [0, 1, 2, 3]


def test_a_long_launch_is_followed_on_a_part_of_the_chip() -> None:
    chip = machine_of(find_chip("h200"))
    short = kernel_lanes(program(40, 4), chip)
    assert short.machine == chip
    assert short.kept == pytest.approx(1.0)
    long = kernel_lanes(program(chip.cores * 16, 64), chip)
    assert long.machine == chip.slice_of_stack()
    assert 0.0 < long.kept < 1.0
    assert len(long.stretches) < LANES_BUDGET / 2
    assert long.noted_to_ps <= long.result.duration_ps


def test_of_several_launches_the_longest_is_followed() -> None:
    one, other = program(8, 2), program(8, 12)
    both = KernelProgram(regions=other.regions, launches=(*one.launches, *other.launches))
    assert kernel_lanes(both, MACHINE).launch == 1
