"""Unit factors, checked dimensions, exactness and the numbers in messages."""

from __future__ import annotations

import pytest

from simulator.basis.errors import InputError
from simulator.basis.units import (
    find_unit,
    format_bytes,
    format_rate,
    format_time_ps,
    to_picoseconds,
    to_si,
    unit_names,
)


@pytest.mark.parametrize(
    ("value", "unit", "si"),
    [
        (1, "B", 1),
        (1, "KiB", 1024),
        (50, "MiB", 52_428_800),
        (64, "GiB", 68_719_476_736),
        (1, "TiB", 1_099_511_627_776),
        (1, "kB", 1000),
        (60, "MB", 60_000_000),
        (141, "GB", 141_000_000_000),
        (2, "TB", 2_000_000_000_000),
        (3350, "GB/s", 3_350_000_000_000),
        (4.8, "TB/s", 4_800_000_000_000),
        (1, "GiB/s", 1_073_741_824),
        (5.2, "Gb/s", 5_200_000_000),
        (67, "TFLOP/s", 67_000_000_000_000),
        (1.5, "PFLOP/s", 1_500_000_000_000_000),
        (1979, "TOP/s", 1_979_000_000_000_000),
        (1830, "MHz", 1_830_000_000),
        (1.965, "GHz", 1_965_000_000),
        (3, "ms", 0.003),
        (1.37, "us", 1.37e-6),
        (288.1, "ns", 288.1e-9),
        (5, "ps", 5e-12),
        (2, "min", 120),
        (1.73, "kW", 1730),
        (0.5, "pJ/FLOP", 5e-13),
        (132, "1", 132),
        (128, "B/clk", 128),
        (260, "cycles", 260),
        (2.5, "USD/h", 2.5),
        (365, "USD/TB", 0.365),
    ],
)
def test_factors(value: float, unit: str, si: float) -> None:
    got = to_si(value, unit)
    assert got == si
    assert type(got) is type(si)


def test_decimal_text_is_taken_as_written() -> None:
    # 4.8 * 1e12 and 1.1 * 1e12 in floats are off by rounding; as decimals they are whole.
    assert to_si(1.1, "TB") == 1_100_000_000_000
    assert isinstance(to_si(1.1, "TB"), int)
    assert to_si(0.1, "kB") == 100


def test_decimal_and_binary_are_apart() -> None:
    assert to_si(1, "GB") * 1.073741824 == to_si(1, "GiB")


def test_dimension_is_checked() -> None:
    with pytest.raises(InputError) as caught:
        to_si(4.8, "TB", "B/s")
    assert caught.value.message.startswith(
        "unit 'TB' measures B, expected a unit of B/s: B/s, kB/s, MB/s, GB/s"
    )


@pytest.mark.parametrize(
    ("given", "near"),
    [("GBps", "GB/s"), ("TFLOPS", "TFLOP/s"), ("TOPS", "TOP/s"), ("Mhz", "MHz")],
)
def test_unknown_unit_names_the_nearest(given: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        find_unit(given)
    assert caught.value.message == f"unknown unit {given!r}; did you mean {near!r}?"


def test_unknown_unit_without_a_neighbour() -> None:
    with pytest.raises(InputError, match=r"unknown unit .qqqqqq.$"):
        find_unit("qqqqqq")


def test_every_dimension_has_its_si_unit_first() -> None:
    for dimension in ("B", "B/s", "FLOP/s", "Hz", "s", "W", "1", "b/s"):
        names = unit_names(dimension)
        assert names[0] == dimension
        assert find_unit(dimension).factor == 1


def test_picoseconds_are_whole_or_refused() -> None:
    assert to_picoseconds(1.37, "us") == 1_370_000
    assert to_picoseconds(288.1, "ns") == 288_100
    with pytest.raises(InputError, match=r"0\.0001 ns is 0\.1 ps, expected a whole number"):
        to_picoseconds(0.0001, "ns")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1024, "1 KiB"),
        (1_048_575, "1 MiB"),
        (3 * 2**20, "3 MiB"),
        (50_404_786_176, "46.94 GiB"),
        (2**51, "2048 TiB"),
        (-1536, "-1.5 KiB"),
    ],
)
def test_format_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_format_bytes_can_say_it_all() -> None:
    assert format_bytes(50_404_786_176, exact=True) == "46.94 GiB (50,404,786,176 B)"
    assert format_bytes(100, exact=True) == "100 B"


@pytest.mark.parametrize(
    ("time_ps", "text"),
    [
        (0, "0 ps"),
        (999, "999 ps"),
        (1_370_000, "1.37 us"),
        (288_100, "288.1 ns"),
        (70_600_000_000, "70.6 ms"),
        (12_345_678_901_234, "12.35 s"),
    ],
)
def test_format_time(time_ps: int, text: str) -> None:
    assert format_time_ps(time_ps) == text


def test_format_rate() -> None:
    assert format_rate(4.8e12) == "4.8 TB/s"
    assert format_rate(989e12, "FLOP/s") == "989 TFLOP/s"
    assert format_rate(1_965_000_000, "Hz") == "1.965 GHz"
    assert format_rate(17, "token/s") == "17 token/s"
