"""The compiled machine and the plain one agree to the picosecond, on small random programs."""

from __future__ import annotations

import random

import pytest

from hwmodels.machine.program import KernelProgram
from hwmodels.machine.simulation import run_program
from hwmodels.machine.spec import MachineSpec
from tests.hwmodels.machine.programs import on_cores, on_streams, some_machine, some_program
from tests.oracles.machine_twin import MachineTwin
from tests.sampling import tenth

SEEDS = range(210)


def assert_same(program: KernelProgram, machine: MachineSpec) -> None:
    """What both say of a program."""
    found = run_program(program, machine)
    twin = MachineTwin(program, machine)
    ended = twin.run()
    assert twin.launches_ps == list(found.launches_ps)
    assert ended == found.duration_ps
    assert twin.bytes == {
        "hit": found.hit_bytes,
        "missed": found.missed_bytes,
        "merged": found.merged_bytes,
        "read": found.read_bytes,
        "written": found.written_bytes,
        "near": found.near_bytes,
        "far": found.far_bytes,
        "sent": found.sent_bytes,
    }
    assert twin.states == found.states_ps
    assert (twin.chunks, twin.memory_wait_ps) == (found.chunks, found.memory_wait_ps)
    assert tuple(twin.memory.bytes) == found.channel_bytes
    assert len(twin.cores) * len(twin.cores[0].slots) == found.slots


def case(seed: int) -> tuple[KernelProgram, MachineSpec]:
    """A program and a machine."""
    rng = random.Random(seed)
    machine = some_machine(rng)
    return on_cores(rng, some_program(rng), machine.cores), machine


@pytest.mark.parametrize("seed", tenth(SEEDS, 17))
def test_a_random_program_takes_the_same_time(seed: int) -> None:
    assert_same(*case(seed))


@pytest.mark.parametrize("seed", tenth(range(1000, 1120), 18))
def test_launches_of_several_streams_take_the_same_time(seed: int) -> None:
    program, machine = case(seed)
    assert_same(on_streams(random.Random(seed), program), machine)
