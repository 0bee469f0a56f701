"""Presets with numbers replaced: clocks by hand, every parameter, contradictions."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.dram.edited_preset import PresetNumbers, edited_preset, in_clocks
from hwmodels.dram.pattern import Pattern, simulate
from hwmodels.dram.preset import Timing, find_preset, list_presets
from simulator.basis.sourced import Sourced
from simulator.basis.yaml_loader import KeyFaultError

HBM3E = find_preset("hbm3e_7800")  # a clock of 513 ps, tRAS 55, tRP 32, tRC 88
NUMBERS = tuple(name for name in PresetNumbers.model_fields if name != "RCD")


def number(value: float, unit: str = "clk") -> Sourced:
    return Sourced(value=value, unit=unit, kind="guessed", note="made up for a test")


def replaced(**numbers: tuple[float, str] | float) -> dict[str, Sourced]:
    return {
        name: number(*given) if isinstance(given, tuple) else number(given)
        for name, given in numbers.items()
    }


def test_nothing_replaced_is_the_preset_itself() -> None:
    assert edited_preset(HBM3E, {}) is HBM3E


def test_nanoseconds_become_whole_clocks_rounded_up() -> None:
    edited = edited_preset(HBM3E, replaced(RC=(60, "ns"), FAW=(15.39, "ns"), RRDL=(0.004, "us")))
    # 60 / 0.513 = 116.96; 15.39 / 0.513 = 30 exactly; 4 / 0.513 = 7.8.
    clocks = edited.timing.in_clocks
    assert (clocks["RC"], clocks["FAW"], clocks["RRDL"]) == (117, 30, 8)
    others = HBM3E.timing.in_clocks | {"RC": 117, "RRDL": 8}
    assert clocks == others
    assert edited.organisation == HBM3E.organisation
    assert edited.name == "hbm3e_7800 with RC 60 ns, FAW 15.39 ns, RRDL 0.004 us"


@given(picoseconds=st.integers(1, 4_000_000), preset=st.sampled_from(list_presets()))
def test_no_timing_is_cut_short(picoseconds: int, preset: str) -> None:
    clock = find_preset(preset).clock
    clocks = in_clocks(number(picoseconds / 1000, "ns"), clock)
    length = Fraction(repr(picoseconds / 1000)) / 10**9
    own = Fraction(repr(clock.value)) / 10**12
    assert (clocks - 1) * own < length <= clocks * own
    assert clocks == ceil(length / own)


def test_rcd_stands_for_both_and_not_beside_them() -> None:
    clocks = edited_preset(HBM3E, replaced(RCD=(10, "ns"))).timing.in_clocks
    assert clocks["RCDRD"] == clocks["RCDWR"] == 20
    with pytest.raises(KeyFaultError, match="RCD stands for RCDRD and RCDWR, and RCDWR is given"):
        edited_preset(HBM3E, replaced(RCD=20, RCDWR=20))


def test_the_keys_are_those_of_a_preset() -> None:
    timings = set(Timing.model_fields)
    assert timings <= set(NUMBERS)
    assert set(NUMBERS) - timings == {
        *("pseudo_channels", "stack_ids", "bank_groups", "banks_a_group"),
        *("rows", "bursts_a_row"),
    }


# Other numbers that have to follow for a set without contradictions.
ALONG = {
    "BL": {"CCDS": 4, "CCDL": 4, "CCDR": 4},
    "CCDS": {"CCDL": 8, "CCDR": 4},
    "RRDS": {"RRDL": 14},
    "WTRS": {"WTRL": 26},
    "RCDRD": {"RAS": 80, "RC": 130},
    "RP": {"RC": 130},
    "RAS": {"RC": 150},
}


@pytest.mark.parametrize("preset", list_presets())
@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_of_a_preset_can_be_replaced(name: str, preset: str) -> None:
    base = find_preset(preset)
    own = base.timing.in_clocks
    if name in Timing.model_fields:
        unit, before = "clk", own.get(name, 20)
        value = before - 1 if name in ("RFC", "REFIpb") else before + 1
        value = 4 if name == "BL" else value
    else:
        unit, before = "1", getattr(base.organisation, name).whole
        value = before + 8 if name == "bursts_a_row" else before // 2 or 2
    along = {key: max(clocks, own.get(key, 0)) for key, clocks in ALONG.get(name, {}).items()}
    numbers = {name: number(value, unit)} | {key: number(n) for key, n in along.items()}
    edited = edited_preset(base, numbers)
    if name in Timing.model_fields:
        assert edited.timing.in_clocks[name] == value
    else:
        assert getattr(edited.organisation, name).whole == value
    assert edited.numbers != base.numbers
    result = simulate(edited, Pattern("gather", 64, chunks=500), channels=2)
    assert 0 < result.useful_fraction <= 1.002


def test_longer_row_cycles_cost_scattered_reads_bandwidth() -> None:
    pattern = Pattern("gather", 64, chunks=20_000)
    rates = [
        simulate(edited_preset(HBM3E, replaced(RC=(ns, "ns"))), pattern).useful_fraction
        for ns in (45, 400)
    ]
    # 32 banks of two bursts of 32 bytes each a row cycle of 400 ns, on two pseudo-channels.
    most = 2 * 32 * 64 / 400e-9 / HBM3E.channel_bytes_per_s
    assert rates[1] < most < rates[0]
    assert rates[1] > 0.5 * most


def test_bursts_and_pseudo_channels_change_the_channels_peak() -> None:
    longer = edited_preset(HBM3E, replaced(BL=4, CCDS=4, CCDR=4))
    assert longer.channel_bytes_per_s == pytest.approx(2 * 32 / (4 * 513e-12))
    fewer = edited_preset(HBM3E, replaced(pseudo_channels=(1, "1")))
    assert fewer.channel_bytes_per_s == pytest.approx(32 / (2 * 513e-12))


def test_each_banks_refresh_follows_the_interval_and_the_banks() -> None:
    # 237 clocks are 7602 over 32 banks; half the interval, or twice the banks, halve them.
    rarer = edited_preset(HBM3E, replaced(REFI=3801))
    assert rarer.timing.in_clocks["REFIpb"] == 118
    more = edited_preset(HBM3E, replaced(banks_a_group=(8, "1")))
    assert more.timing.in_clocks["REFIpb"] == 118
    own = edited_preset(HBM3E, replaced(REFI=3801, REFIpb=200))
    assert own.timing.in_clocks["REFIpb"] == 200


@pytest.mark.parametrize(
    ("numbers", "key", "words"),
    [
        (
            {"RC": 86},
            "RC",
            r"tRC is 86 clocks, expected at least tRAS \+ tRP = 55 \+ 32 = 87; a number that is "
            "not given here is that of hbm3e_7800",
        ),
        ({"RAS": 57}, "RAS", r"tRC is 88 clocks, expected at least .* 57 \+ 32 = 89"),
        ({"RCD": (60, "ns")}, "RCD", "tRAS is 55 clocks, expected at least tRCDRD = 117"),
        ({"CCDL": 1}, "CCDL", "tCCDL is 1 clocks, expected at least tCCDS = 2"),
        ({"BL": 8}, "BL", "tCCDS is 2 clocks, expected at least tBL = 8"),
        ({"FAW": 9000}, "FAW", "tFAW is 9000 clocks, expected at most tREFI = 7602"),
        ({"REFI": 2**21}, "REFI", "tREFI is 2097152 clocks, expected at most 1048576"),
        ({"RREFD": 238}, "RREFD", "tREFIpb is 237 clocks, expected at least tRREFD = 238"),
        ({"REFIpb": 14}, "REFIpb", r"every REFIpb x banks = 448 .* RFCpb \+ RC = 478"),
        ({"stack_ids": (5, "1")}, "stack_ids", r"has 80 banks, expected at most 64 \(16 too many"),
        ({"bursts_a_row": (12, "1")}, "bursts_a_row", "expected a multiple of 8, .* try 16"),
        ({"rows": (2**25, "1")}, "rows", "rows is 33554432, expected at most 16777216$"),
    ],
)
def test_contradictions(numbers: dict[str, float], key: str, words: str) -> None:
    with pytest.raises(KeyFaultError, match=words) as caught:
        edited_preset(HBM3E, replaced(**numbers))
    assert caught.value.keys == (key,)


def test_all_contradictions_are_said_at_once() -> None:
    with pytest.raises(KeyFaultError, match=r"tRC is 80 .*; tRRDL is 2 .*; bursts_a_row is 4"):
        edited_preset(HBM3E, replaced(RC=80, RRDL=2, bursts_a_row=(4, "1")))
