"""One line of the printed table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What was measured, and what is asked where something is; `most` or `least` in `unit`."""

    what: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def asked(self) -> str:
        """The target in words."""
        if self.most is not None:
            return f"at most {self.most:g}"
        return f"at least {self.least:g}" if self.least is not None else ""

    @property
    def verdict(self) -> str:
        """`met` or `missed`, nothing without a target."""
        if self.most is None and self.least is None:
            return ""
        under = self.most is None or self.value <= self.most
        over = self.least is None or self.value >= self.least
        return "met" if under and over else "missed"

    def __str__(self) -> str:
        return (
            f"{self.what:<66} {self.value:>12,.4g} {self.unit:<13} {self.asked:<15} {self.verdict}"
        )


def seconds_of(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def median_seconds(call: Callable[[], object], runs: int) -> float:
    """Median wall time of several calls."""
    return statistics.median(seconds_of(call) for _ in range(runs))
