"""Commands by hand: each constraint binds to the tick, and one clock more moves it by as much.

HBM2 commands start on any clock (tick = clock, activate 2, others 1), so most counts are exact;
HBM3 checks what HBM2 does not have. The first chunk is issued at tick 1.
"""

from __future__ import annotations

import numpy as np
import pytest

from hwmodels.dram import words as w
from hwmodels.dram.chunks import chunk_list
from hwmodels.dram.parameters import ControllerSpec, Refresh
from hwmodels.dram.preset import DramPreset, find_preset
from hwmodels.dram.simulation import run_chunks
from simulator.basis.sourced import Sourced
from tests.hwmodels.dram.places import addresses

HBM2 = find_preset("hbm2_2400")
HBM3 = find_preset("hbm3_5200")


def slower(preset: DramPreset, **clocks: int) -> DramPreset:
    """A preset with other clock counts, not checked against each other."""
    changed = {
        name: Sourced(value=value, unit="clk", kind="guessed", note="for the test")
        for name, value in clocks.items()
    }
    return preset.model_copy(update={"timing": preset.timing.model_copy(update=changed)})


def commands(
    preset: DramPreset,
    starts: list[int],
    writes: object = False,
    refresh: Refresh = "none",
    at_ticks: list[int] | None = None,
) -> list[tuple[int, int]]:
    """(tick, command) of a run on one channel."""
    arrivals = None
    if at_ticks is not None:
        arrivals = np.rint((np.array(at_ticks) - 1) * preset.tick_ps).astype(int)
    result = run_chunks(
        preset,
        chunk_list(starts, 32, writes, arrivals),
        outstanding=len(starts),
        spec=ControllerSpec(refresh=refresh),
        trace_commands=1000,
    )
    return [(int(tick), int(kind)) for tick, _, kind, *_ in result.trace]


def ticks_of(trace: list[tuple[int, int]], kind: int) -> list[int]:
    return [tick for tick, what in trace if what == kind]


def test_activate_to_read() -> None:
    start = addresses(HBM2, 0)[:1]
    # tRCDRD 17 from the end of a 2-tick activate to the end of a 1-tick read: 18 ticks.
    assert commands(HBM2, start) == [(1, w.ACTIVATE), (19, w.READ)]
    assert commands(slower(HBM2, RCDRD=18), start)[-1] == (20, w.READ)


def test_activate_to_read_waits_for_an_odd_tick() -> None:
    start = addresses(HBM3, 0)[:1]
    # 26 clocks are 52 ticks, 3 - 2 more; tick 54 is even, so 55.
    assert commands(HBM3, start) == [(1, w.ACTIVATE), (55, w.READ)]


def test_reads_of_one_bank_group_and_of_two() -> None:
    same = addresses(HBM2, 0)[:2]
    assert ticks_of(commands(HBM2, same), w.READ) == [19, 23]  # tCCD_L 4
    assert ticks_of(commands(slower(HBM2, CCDL=5), same), w.READ) == [19, 24]
    rows = [addresses(HBM2, 0, group=group)[:2] for group in (0, 1)]
    four = [rows[0][0], rows[1][0], rows[0][1], rows[1][1]]
    # The second row opens tRRD 5 later; tCCD_S 2 between the groups, tCCD_L 4 inside each.
    assert ticks_of(commands(HBM2, four), w.READ) == [19, 23, 25, 29]


def test_reads_of_two_stack_ids() -> None:
    rows = [addresses(HBM3, 0, sid=sid)[:1] for sid in (0, 1)]
    late = [1, 1, 301, 301]  # both rows are open by then
    trace = commands(HBM3, [*rows[0], *rows[1], rows[0][0], rows[1][0]], at_ticks=late)
    first, second = ticks_of(trace, w.READ)[2:]
    assert second - first == 6  # tCCD_R 3 clocks
    slow = commands(
        slower(HBM3, CCDR=4), [*rows[0], *rows[1], rows[0][0], rows[1][0]], at_ticks=late
    )
    first, second = ticks_of(slow, w.READ)[2:]
    assert second - first == 8


def test_row_conflict() -> None:
    starts = [addresses(HBM2, 0)[0], addresses(HBM2, 1)[0]]
    trace = commands(HBM2, starts)
    # tRAS 40 + 1 after the activate; tRP 17 - 1 after the precharge; together tRC 57.
    assert trace[:4] == [(1, w.ACTIVATE), (19, w.READ), (42, w.PRECHARGE), (58, w.ACTIVATE)]
    assert commands(slower(HBM2, RAS=41), starts)[2:4] == [(43, w.PRECHARGE), (59, w.ACTIVATE)]
    assert commands(slower(HBM2, RP=18, RC=58), starts)[2:4] == [
        (42, w.PRECHARGE),
        (59, w.ACTIVATE),
    ]
    assert commands(slower(HBM2, RC=60), starts)[3] == (61, w.ACTIVATE)
    assert commands(slower(HBM2, RTP=30), starts)[2] == (49, w.PRECHARGE)


def test_write_keeps_its_row_open() -> None:
    late = addresses(HBM2, 0)[1]  # a write is done when taken: a late read keeps the run going
    starts = [addresses(HBM2, 0)[0], addresses(HBM2, 1)[0], late]
    trace = commands(HBM2, starts, [True, True, False], at_ticks=[1, 1, 300])
    # Write at 1 + 14 + 1; then tCWL 6 + BL 2 + tWR 19 to the precharge.
    assert trace[:3] == [(1, w.ACTIVATE), (16, w.WRITE), (43, w.PRECHARGE)]


def test_four_activates_window() -> None:
    banks = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1)]
    starts = [addresses(HBM3, 0, group=group, bank=bank)[0] for group, bank in banks]
    # tRRD_S 4 clocks apart; the fifth waits for tFAW 20 clocks after the first.
    assert ticks_of(commands(HBM3, starts), w.ACTIVATE) == [1, 9, 17, 25, 41, 49]
    assert ticks_of(commands(slower(HBM3, FAW=21), starts), w.ACTIVATE)[4] == 43


def test_activates_of_one_bank_group() -> None:
    starts = [addresses(HBM3, 0, bank=bank)[0] for bank in (0, 1)]
    assert ticks_of(commands(HBM3, starts), w.ACTIVATE) == [1, 11]  # tRRD_L 5 clocks


@pytest.mark.parametrize(("group", "wait"), [(0, 18), (1, 16)])
def test_write_to_read(group: int, wait: int) -> None:
    rows = [addresses(HBM2, 0, group=number) for number in (0, 1)]
    starts = [rows[0][0], rows[1][0], rows[0][1], rows[group][2]]  # both rows are open by 201
    trace = commands(HBM2, starts, [False, False, True, False], at_ticks=[1, 1, 201, 202])
    # CWL 6 + BL 2 + tWTR_L 10 or tWTR_S 8 after the write.
    assert ticks_of(trace, w.WRITE) == [201]
    assert ticks_of(trace, w.READ)[2] == 201 + wait


def test_read_to_write() -> None:
    starts = addresses(HBM3, 0)[:3]
    trace = commands(HBM3, starts, [False, True, False], at_ticks=[1, 56, 300])
    assert ticks_of(trace, w.READ)[0] == 55
    assert ticks_of(trace, w.WRITE) == [55 + 34]  # tRTW 17 clocks


def test_all_bank_refresh() -> None:
    starts = [addresses(HBM2, 0)[0], addresses(HBM2, 0)[1]]
    trace = commands(HBM2, starts, refresh="all-bank", at_ticks=[1, 4700])
    # Due at 4682: close, tRP 17, refresh; the second pseudo-channel is closed and follows at once.
    assert trace[2:5] == [(4682, w.PRECHARGE_ALL), (4699, w.REFRESH), (4700, w.REFRESH)]
    # tRFC 421 from a 1-tick refresh to a 2-tick activate.
    assert trace[5] == (4699 + 420, w.ACTIVATE)


def test_per_bank_refresh_blocks_one_bank_only() -> None:
    first, other = addresses(HBM3, 0)[0], addresses(HBM3, 0, group=1)[0]
    # tREFIpb is 318 ticks; the first pseudo-channel is due after half of it.
    trace = commands(HBM3, [first, other], refresh="per-bank", at_ticks=[160, 160])
    assert trace[0] == (159, w.REFRESH_PB)
    assert trace[1] == (171, w.ACTIVATE)  # the other bank: tRREFD 7 clocks less 2, odd
    assert trace[-2] == (159 + 518, w.ACTIVATE)  # tRFCpb 260 clocks less 2
