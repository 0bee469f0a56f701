"""Numbers for reading."""

from __future__ import annotations

import pytest

from reports.quantity import (
    count_text,
    flops_text,
    number_text,
    rate_text,
    scaled_text,
    share_text,
    traffic_text,
)


@pytest.mark.parametrize(
    ("part", "digits", "text"),
    [
        (0, 1, "0.0 %"),
        (1, 1, "<0.1 %"),
        (5, 1, "0.1 %"),
        (7134, 0, "71 %"),
        (9999, 1, ">99.9 %"),
        (9999, 0, ">99 %"),
        (10000, 1, "100.0 %"),
        (12345, 1, "123.5 %"),
    ],
)
def test_shares_never_read_as_nothing_or_all(part: int, digits: int, text: str) -> None:
    assert share_text(part, 10_000, digits) == text


def test_a_share_of_nothing_is_a_dash() -> None:
    assert share_text(0, 0) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.1234, "0.123"), (3.456, "3.46"), (81.26, "81.3"), (512.4, "512")],
)
def test_numbers_show_three_digits(value: float, text: str) -> None:
    assert number_text(value) == text


def test_whole_parts_are_never_cut() -> None:
    assert number_text(319_463.4) == "319,463"


def test_counts_have_nouns() -> None:
    assert count_text(1, "request") == "1 request"
    assert count_text(1280, "request") == "1,280 requests"
    assert count_text(2, "launch", "launches") == "2 launches"


def test_amounts_have_units() -> None:
    assert traffic_text(4_800_000_000) == "4.8 GB"
    assert flops_text(1_500_000) == "1.5 MFLOP"
    assert rate_text(48, 10, "B/s") == "4.8 TB/s"
    assert traffic_text(0) == flops_text(0) == rate_text(0, 10, "B/s") == "–"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (7, "7"),
        (3_840_903, "3.841 M"),
        (290_944_000_000, "290.9 B"),
        (1_598_839_674_782, "1.599 T"),
    ],
)
def test_counts_are_scaled(count: int, text: str) -> None:
    assert scaled_text(count) == text
