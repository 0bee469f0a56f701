"""Whole-number arithmetic and limits that sizes need."""

from __future__ import annotations

from simulator.basis.errors import InputError


def ceil_div(number: int, by: int) -> int:
    """Smallest whole number that times `by` is at least `number`."""
    return -(-number // by)


def round_up(number: int, multiple: int) -> int:
    """Smallest multiple that is at least `number`."""
    return ceil_div(number, multiple) * multiple


def within(what: str, value: int, least: int, most: int) -> int:
    """The value, where it is from `least` to `most`; raises InputError with the gap otherwise."""
    if not least <= value <= most:
        gap = f"{least - value:,} too few" if value < least else f"{value - most:,} too many"
        raise InputError(f"{what} is {value:,}, expected {least:,} to {most:,} ({gap})")
    return value
