"""Whole-number arithmetic that sizes need."""

from __future__ import annotations


def ceil_div(number: int, by: int) -> int:
    """Smallest whole number that times `by` is at least `number`."""
    return -(-number // by)


def round_up(number: int, multiple: int) -> int:
    """Smallest multiple that is at least `number`."""
    return ceil_div(number, multiple) * multiple
