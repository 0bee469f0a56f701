"""A constant of a kernel family: physical quantity, unit, reading, and where it may lie."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """One fitted (or published) quantity.

    `meaning` is its physical reading in a few words; `start` where a fit begins, `low` and `high`
    the bounds outside of which the reading would make no sense. All are positive.
    """

    name: str
    unit: str
    meaning: str
    start: float
    low: float
    high: float

    def __post_init__(self) -> None:
        assert 0 < self.low <= self.start <= self.high, f"{self.name}: {self}"
