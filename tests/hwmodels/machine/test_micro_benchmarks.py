"""What small programs take on whole machines, against closed forms worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from hwmodels.bandwidth.efficiency import memory_efficiency
from hwmodels.chip import find_chip
from hwmodels.chip_edits import edited_chip
from hwmodels.machine.program import (
    NOTHING,
    Access,
    Block,
    KernelProgram,
    Launch,
    Region,
    Work,
    equal_blocks,
)
from hwmodels.machine.simulation import MachineResult, depth_of, noted_run, run_program
from hwmodels.machine.spec import MachineSpec, machine_of
from simulator.basis.errors import UnsupportedError
from tests.hwmodels.machine.programs import some_program

CHIPS = ("h200", "b200")
GIGABYTE = 1 << 30


def machine(chip: str) -> MachineSpec:
    """A chip's machine."""
    return machine_of(find_chip(chip))


def one_stack(chip: str) -> MachineSpec:
    """A chip's machine cut into as many as it has stacks: what all do at once, one does."""
    whole = machine(chip)
    parts = whole.stacks
    cache = replace(
        whole.cache,
        capacity_bytes=whole.cache.capacity_bytes // parts,
        read_bytes_per_s=whole.cache.read_bytes_per_s / parts,
    )
    return replace(
        whole,
        cores=whole.cores // parts,
        slices=whole.slices // parts,
        cache=cache,
        stacks=1,
        cross_bytes_per_s=whole.cross_bytes_per_s / parts,
        link_bytes_per_s=whole.link_bytes_per_s / parts,
        peak_bytes_per_s=whole.peak_bytes_per_s / parts,
    )


def one_launch(launch: Launch, *regions: Region) -> KernelProgram:
    """A program of one grid."""
    return KernelProgram(regions=regions, launches=(launch,))


def loads(
    nbytes: int,
    blocks: int,
    stages: int,
    depth: int,
    *,
    run_bytes: int = 0,
    warm: float = 0.0,
    threads: int = 64,
    stores: bool = False,
) -> KernelProgram:
    """Blocks that load, and with `stores` write to another place, bytes of their own."""
    block = Block(
        stage=NOTHING,
        accesses=tuple(
            Access(region=region, nbytes=nbytes, row_bytes=nbytes * stages, stores=region == 1)
            for region in range(1 + stores)
        ),
        in_flight=depth,
        threads=threads,
    )
    size = max(GIGABYTE, nbytes * stages * blocks)
    region = Region(nbytes=size, run_bytes=run_bytes, warm=warm)
    return one_launch(equal_blocks(block, blocks, stages), region, region)


def steady_rate(
    on: MachineSpec, program: Callable[[int], KernelProgram], short: int, long: int
) -> float:
    """Bytes a second from and to memory between a short run's end and a long one's."""
    first, second = (run_program(program(stages), on) for stages in (short, long))

    def moved(result: MachineResult) -> int:
        return result.read_bytes + result.written_bytes

    return (moved(second) - moved(first)) / (second.duration_ps - first.duration_ps) * 1e12


# Latencies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
def test_a_pointer_chase_takes_the_memory_latency_a_load(chip: str) -> None:
    found = run_program(loads(32, 1, 2000, 1, run_bytes=32), machine(chip))
    assert found.missed_bytes == 2000 * 32
    assert found.duration_ps / 2000 == pytest.approx(
        find_chip(chip).dram_latency_s * 1e12, rel=0.03
    )


@pytest.mark.parametrize("chip", CHIPS)
def test_a_chase_in_the_cache_takes_its_latencies(chip: str) -> None:
    on = machine(chip)
    found = run_program(loads(32, 1, 2000, 1, run_bytes=32, warm=1.0), on)
    near, far = (round(s * 1e12) for s in (on.cache.near_latency_s, on.cache.far_latency_s))
    # Nothing waits for anything: a load is its line's latency, 32 bytes through a slice, those
    # of far lines across the partitions, and 32 bytes through the port.
    # h200: 9,666 GB/s / 96 slices = 100.7 GB/s, 318 ps; 4,830 GB/s, 7 ps; 126.7 GB/s, 253 ps.
    # b200: 10,760 GB/s / 128 = 84.06 GB/s, 381 ps; 5,000 GB/s, 7 ps; 125.8 GB/s, 255 ps.
    a_slice, crossing, port = {"h200": (318, 7, 253), "b200": (381, 7, 255)}[chip]
    near_loads, far_loads = found.near_bytes // 32, found.far_bytes // 32
    assert near_loads + far_loads == 2000
    assert found.duration_ps == (
        near_loads * near + far_loads * (far + crossing) + 2000 * (a_slice + port)
    )
    assert near < found.duration_ps / 2000 < far
    assert found.duration_ps / 2000 == pytest.approx((near + far) / 2, rel=0.03)


# Bandwidth ---------------------------------------------------------------------------------------

# Of 256 bytes alone, in ns: idle latency, seven more bursts of one bank group (four clocks of
# 0.64 and 0.532 ns each), the slice, the port.
# h200: 288.1 + 7 x 4 x 0.64 + 256 / 100.7 + 256 / 126.7 = 288.1 + 17.9 + 2.5 + 2.0
# b200: 437.7 + 7 x 4 x 0.532 + 256 / 84.06 + 256 / 125.8 = 437.7 + 14.9 + 3.0 + 2.0
ALONE_NS = {"h200": 310.5, "b200": 457.6}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("blocks", "depth"), [(1, 1), (1, 4), (4, 1), (16, 1), (32, 1), (16, 4), (128, 1), (512, 1)]
)
def test_rate_is_bytes_in_flight_over_latency(chip: str, blocks: int, depth: int) -> None:
    on = one_stack(chip)
    rate = steady_rate(
        on, lambda stages: loads(256, blocks, stages, depth, run_bytes=256), 100, 600
    )
    expected = blocks * depth * 256 / (ALONE_NS[chip] * 1e-9)
    assert rate < expected
    if expected < 0.04 * on.peak_bytes_per_s:
        assert rate == pytest.approx(expected, rel=0.05)
    else:  # loads meet at channels and banks, though there is room
        assert rate > 0.8 * min(expected, on.peak_bytes_per_s)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("nbytes", "depth"), [(4096, 8), (8192, 4)])
def test_streams_of_all_cores_reach_what_memory_gives(chip: str, nbytes: int, depth: int) -> None:
    on = one_stack(chip)

    # A mebibyte a core takes some 20 us, of which the first answer's 0.4 us are 0.02.
    stages = (1 << 19) // nbytes
    found = run_program(loads(nbytes, 2 * on.cores, stages, depth, threads=1024), on)
    rate = found.read_bytes / found.duration_ps * 1e12
    assert 0.88 < rate / on.peak_bytes_per_s < 0.97


@pytest.mark.parametrize("chip", CHIPS)
def test_a_copy_reaches_the_memory_models_own_share(chip: str) -> None:
    on = one_stack(chip)

    def program(stages: int) -> KernelProgram:
        return loads(4096, 2 * on.cores, stages, 4, threads=1024, stores=True)

    rate = steady_rate(on, program, 16, 64)
    expected = memory_efficiency(find_chip(chip), write_fraction=0.5)
    assert rate / on.peak_bytes_per_s == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("chip", CHIPS)
def test_lines_that_the_cache_has_come_at_its_rate(chip: str) -> None:
    on = machine(chip)
    # Each core asks for 16 stages of 4 KiB at a time, 64 KiB: over 0.2 us, 327 GB/s, more than its
    # port and than its share of the slices, 73 GB/s.
    found = run_program(loads(4096, on.cores, 100, 16, warm=1.0, threads=1024), on)
    rate = found.hit_bytes / found.duration_ps * 1e12
    assert rate == pytest.approx(on.cache.read_bytes_per_s, rel=0.1)
    assert rate < on.cache.read_bytes_per_s


@pytest.mark.parametrize("chip", CHIPS)
def test_a_hit_does_not_hold_up_what_memory_sends(chip: str) -> None:
    """A stream from memory is as fast beside loads that the cache has, within its port's pace."""
    on = one_stack(chip)
    rates = []
    for cached in (0, 512):
        block = Block(
            stage=NOTHING,
            accesses=(
                Access(region=0, nbytes=2048, row_bytes=2048 * 256),
                *((Access(region=1, nbytes=cached, row_bytes=cached),) if cached else ()),
            ),
            in_flight=4,
            threads=512,
        )
        launch = equal_blocks(block, 2 * on.cores, 256)
        found = run_program(
            one_launch(launch, Region(nbytes=GIGABYTE), Region(nbytes=1 << 20, warm=1.0)), on
        )
        rates.append(found.read_bytes / found.duration_ps)
    assert rates[1] == pytest.approx(rates[0], rel=0.03)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("banks", [1, 2, 4])
def test_loads_of_other_rows_come_a_row_cycle_and_bank_apart(chip: str, banks: int) -> None:
    """Loads of 32 bytes, each of a row of its own, far more at once than one channel has banks.

    Refresh, which a single bank would spend all its time in, is put off.
    """
    edits = [
        *("memory.stack_ids=1", "memory.bank_groups=1", f"memory.banks_a_group={banks}"),
        *("memory.REFI=1000000clk", "memory.REFIpb=1000000clk"),
    ]
    whole = machine_of(edited_chip(find_chip(chip), edits))
    on = replace(
        whole, stacks=1, stack_channels=1, peak_bytes_per_s=whole.preset.channel_bytes_per_s
    )
    rate = steady_rate(on, lambda stages: loads(32, 64, stages, 4, run_bytes=32), 20, 60)
    row_cycle_s = whole.preset.timing.in_clocks["RC"] * float(whole.preset.clock.si)
    banks *= whole.preset.organisation.pseudo_channels.whole
    assert rate / 32 == pytest.approx(banks / row_cycle_s, rel=0.08)


@pytest.mark.parametrize("chip", CHIPS)
def test_blocks_that_only_store_go_at_memorys_pace(chip: str) -> None:
    """A place in a core has no more than 256 stored pieces on their way, whatever its blocks do."""
    on = one_stack(chip)
    block = Block(
        stage=NOTHING,
        last_accesses=(Access(region=0, nbytes=65536, row_bytes=65536, stores=True),),
        threads=1024,
    )
    found = run_program(one_launch(equal_blocks(block, 2000, 0), Region(nbytes=GIGABYTE)), on)
    assert found.written_bytes == 2000 << 16
    rate = found.written_bytes / found.duration_ps * 1e12
    # What is in the controllers' queues at the end is taken, but not yet written.
    assert 0.9 < rate / on.peak_bytes_per_s < 1.01


# Two streams -------------------------------------------------------------------------------------


def streaming(on: MachineSpec, megabytes: int, region: int, stream: int, **more: float) -> Launch:
    """Half of what every core can hold: a block a core that streams its part from memory."""
    stages = (megabytes << 20) // on.cores // 8192
    block = Block(
        stage=NOTHING,
        accesses=(Access(region=region, nbytes=8192, row_bytes=8192 * stages),),
        fixed_bytes=on.shared_bytes // 2,
        in_flight=8,
    )
    return equal_blocks(block, on.cores, stages, stream=stream, **more)


@pytest.mark.parametrize("chip", CHIPS)
def test_kernels_of_two_streams_share_memory_as_arithmetic_says(chip: str) -> None:
    """Of 6 and 18 MB side by side each has half of the rate, then the longer one all of it."""
    on = one_stack(chip)
    region = Region(nbytes=GIGABYTE)

    def ends(*launches: Launch) -> tuple[int, ...]:
        return run_program(
            KernelProgram(regions=(region, region), launches=launches), on
        ).launches_ps

    (short,) = ends(streaming(on, 6, 0, 0))
    (long,) = ends(streaming(on, 18, 1, 0))
    both = ends(streaming(on, 6, 0, 0), streaming(on, 18, 1, 1))
    # 12 MB at the rate of both, 12 MB more of the longer one alone.
    assert both[0] == pytest.approx(2 * short, rel=0.06)
    assert both[1] == pytest.approx(short + long, rel=0.06)
    # On one stream they follow one another.
    after = ends(streaming(on, 6, 0, 0), streaming(on, 18, 1, 0))
    assert after == (short, pytest.approx(short + long, rel=0.02))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_kernel_of_matrix_work_runs_beside_a_stream_for_nothing(chip: str) -> None:
    """What shares no unit costs no time, and what shares the matrix unit adds up."""
    on = one_stack(chip)
    half = on.shared_bytes // 2
    work = Block(stage=Work(matrix=2000), fixed_bytes=half)
    region = Region(nbytes=GIGABYTE)

    def ends(*launches: Launch) -> tuple[int, ...]:
        return run_program(
            KernelProgram(regions=(region, region), launches=launches), on
        ).launches_ps

    product = equal_blocks(work, on.cores, 10)
    beside = equal_blocks(work, on.cores, 10, stream=1)
    (alone,), (stream,) = ends(product), ends(streaming(on, 6, 0, 0))
    assert ends(streaming(on, 6, 0, 0), beside) == (
        pytest.approx(stream, rel=0.001),
        pytest.approx(alone, rel=0.001),
    )
    assert max(ends(product, beside)) == pytest.approx(2 * alone, rel=0.02)


# Units, waves, launches, links -------------------------------------------------------------------


def waits(clocks: float, blocks: int, **needs: int) -> KernelProgram:
    """Blocks that wait, and use none of the units."""
    return one_launch(equal_blocks(Block(stage=Work(wait=clocks), **needs), blocks, 1))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("fixed_share", [1, 2, 4])
def test_waves_of_blocks(chip: str, fixed_share: int) -> None:
    on = machine(chip)
    a_wave = fixed_share * on.cores
    wait = on.clocks_ps(1000)
    for blocks, waves in ((1, 1), (a_wave, 1), (a_wave + 1, 2), (2 * a_wave, 2), (3 * a_wave, 3)):
        program = waits(1000, blocks, fixed_bytes=on.shared_bytes // fixed_share)
        assert run_program(program, on).duration_ps == waves * wait


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("occupancy", [1, 2, 4])
def test_waves_of_matrix_work(chip: str, occupancy: int) -> None:
    on = machine(chip)
    block = Block(stage=Work(matrix=500), fixed_bytes=on.shared_bytes // occupancy)
    # The pipe's fill, 32 clocks on h200 and 64 on b200, and a stage's dependent instructions.
    fill = on.clocks_ps({"h200": 32, "b200": 64}[chip]) + on.clocks_ps(32)
    work = on.clocks_ps(500)
    for waves in (1, 2, 5):
        for blocks in (on.cores * (waves - 1) + 1, on.cores * waves):
            found = run_program(one_launch(equal_blocks(block, blocks, 1)), on)
            # One block on a core: each fills the pipe anew. More: they fill behind one another.
            fills = waves if occupancy == 1 else 1
            assert found.duration_ps == fills * fill + waves * work


@pytest.mark.parametrize("chip", CHIPS)
def test_past_half_of_the_shared_memory_one_block_fits(chip: str) -> None:
    on = machine(chip)
    half = on.shared_bytes // 2
    two, one = (
        run_program(waits(1000, 2 * on.cores, fixed_bytes=half + more), on) for more in (0, 1)
    )
    assert (two.slots, one.slots) == (2 * on.cores, on.cores)
    assert one.duration_ps == 2 * two.duration_ps
    # So it is of stages in flight: four of an eighth and four of a little more.
    stage = Block(stage=Work(wait=1000), stage_bytes=half // 4, in_flight=4)
    more = replace(stage, stage_bytes=half // 4 + 1)
    slots = [run_program(one_launch(equal_blocks(kind, 1, 1)), on).slots for kind in (stage, more)]
    assert slots == [2 * on.cores, on.cores]


def test_registers_and_threads_bound_blocks_too() -> None:
    on = machine("h200")
    for needs in ({"threads": 1024}, {"registers_bytes": on.register_bytes // 2}):
        assert run_program(waits(1000, 1, **needs), on).slots == 2 * on.cores


def test_stages_in_flight_are_bounded_by_the_block_and_its_core() -> None:
    on = replace(machine("h200"), shared_bytes=100_000, copy_bytes=60_000)
    load = Access(region=0, nbytes=8000, row_bytes=0)
    store = replace(load, stores=True)
    block = Block(stage=NOTHING, accesses=(load, store), in_flight=10)
    assert depth_of(block, on) == 7  # copies of 8,000 bytes in 60,000
    assert depth_of(replace(block, in_flight=3), on) == 3
    assert depth_of(replace(block, flight_bytes=47_999), on) == 5
    assert depth_of(replace(block, flight_bytes=100), on) == 1
    # Stages of 20,000 bytes beside 39,000 in 100,000.
    assert depth_of(replace(block, stage_bytes=20_000, fixed_bytes=39_000), on) == 3
    assert depth_of(replace(block, in_flight=40, accesses=(store,)), on) == 16


def test_a_block_that_no_core_holds_is_refused() -> None:
    on = machine("h200")
    block = Block(stage=Work(wait=1), fixed_bytes=200_000, stage_bytes=40_000)
    words = (
        "a block needs 240000 bytes of shared memory, but a core has 233472 \\(6528 too few\\); "
        "take a smaller tile or another chip"
    )
    with pytest.raises(UnsupportedError, match=words):
        run_program(one_launch(equal_blocks(block, 1, 1)), on)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_launch_begins_a_gap_after_the_end_before(chip: str) -> None:
    on = machine(chip)
    first = equal_blocks(Block(stage=Work(wait=700)), 3, 2, gap_s=1.5e-6, end_s=0.25e-6)
    second = equal_blocks(Block(stage=Work(vector=400)), 5, 1, gap_s=0.75e-6)
    found = run_program(KernelProgram(regions=(), launches=(first, second)), on)
    ended = 1_500_000 + 2 * on.clocks_ps(700) + 250_000
    assert found.launches_ps == (ended, ended + 750_000 + on.clocks_ps(400))
    assert found.duration_ps == found.launches_ps[1]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("blocks", [1, 7, 400])
def test_links_take_bytes_over_their_rate(chip: str, blocks: int) -> None:
    on = machine(chip)
    block = Block(stage=Work(send_bytes=1 << 16))
    found = run_program(one_launch(equal_blocks(block, blocks, 3)), on)
    assert found.sent_bytes == 3 * blocks << 16
    # Whole picoseconds a 1,024 bytes: h200 1,024 / 450 GB/s = 2,276, b200 at 900 GB/s 1,138.
    assert found.duration_ps == 3 * blocks * 64 * {"h200": 2276, "b200": 1138}[chip]
    assert found.duration_ps == pytest.approx(
        found.sent_bytes / on.link_bytes_per_s * 1e12, rel=0.0003
    )


# Laws --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_every_picosecond_of_a_slot_has_a_state(seed: int) -> None:
    program = some_program(random.Random(seed))
    found = run_program(program, one_stack("h200"))
    assert sum(found.states_ps.values()) == found.slots * found.duration_ps
    assert min(found.states_ps.values()) >= 0


@pytest.mark.parametrize("seed", range(8))
def test_two_runs_are_one(seed: int) -> None:
    program = some_program(random.Random(seed))
    on = one_stack("b200")
    first, second = (noted_run(program, on, 50) for _ in range(2))
    assert first.result == second.result == run_program(program, on)
    assert (first.stretches == second.stretches).all()


# Which loads meet at a bank is a matter of chance, and so is which one finds its bank in refresh,
# 0.2 us, or its line in the other partition, 0.13 us.
CHANCE = 0.02
CHANCE_PS = 200_000


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("warm", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_more_bytes_more_work_or_fewer_cores_take_no_less_time(
    chip: str, warm: float, seed: int
) -> None:
    on = one_stack(chip)
    rng = random.Random(seed)
    blocks, run = rng.randrange(1, 200), rng.choice([0, 256, 4096])
    nbytes = rng.choice([32, 100, 256, 1000, 4096])

    def time(by: int = 1, fewer: int = 1, clocks: float = 100.0) -> int:
        block = Block(
            stage=Work(vector=clocks),
            accesses=(Access(region=0, nbytes=by * nbytes, row_bytes=40_960),),
            threads=512,
        )
        region = Region(nbytes=1 << 26, run_bytes=run, warm=warm)
        program = one_launch(equal_blocks(block, blocks, 1), region)
        return run_program(program, replace(on, cores=on.cores // fewer)).duration_ps

    for times in (
        [time(by=by) for by in (1, 2, 4)],
        [time(fewer=fewer) for fewer in (1, 2, 4)],
    ):
        for less, more in pairwise(times):
            assert more >= (1 - CHANCE) * less - CHANCE_PS
    slower = [time(clocks=clocks) for clocks in (100, 150, 400)]
    assert slower == sorted(slower)


@pytest.mark.parametrize("seed", range(12))
def test_without_memory_they_never_do_by_any_picosecond(seed: int) -> None:
    rng = random.Random(seed)
    work = Work(
        matrix=rng.choice([0, 100]), vector=rng.choice([0, 70]), send_bytes=rng.choice([0, 5000])
    )
    blocks, stages = rng.randrange(1, 90), rng.randrange(1, 5)

    def time(more: Work, cores: int) -> int:
        launch = equal_blocks(Block(stage=more, threads=512), blocks, stages)
        return run_program(one_launch(launch), replace(one_stack("h200"), cores=cores)).duration_ps

    times = [time(work, cores) for cores in (22, 21, 15, 8, 2, 1)]
    assert times == sorted(times)
    for name in ("matrix", "vector", "wait", "send_bytes"):
        for more in (1, 30, 500):
            added = replace(work, **{name: getattr(work, name) + more})
            assert time(added, 22) >= times[0]
