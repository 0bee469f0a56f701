"""A window policy as somebody would add it: one class, one reader, one line in the table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from simulator.prefix import window_policy
from simulator.prefix.window_parts import StoredSpan, WindowPart, no_value


@dataclass(frozen=True, slots=True)
class PowersOfTwo(WindowPart):
    """A window after 1, 2, 4, 8, ... tokens."""

    def kept(self, span: StoredSpan, granule: int) -> Iterable[int]:
        """Powers of two that were computed."""
        powers = (1 << bit for bit in range(span.end.bit_length()))
        return [power for power in powers if span.resumed < power <= span.end]


def add_powers_of_two(patch: pytest.MonkeyPatch) -> None:
    """Make `powers` a name of a policy."""
    patch.setitem(
        window_policy.WINDOW_POLICIES,
        "powers",
        lambda value: ((no_value(PowersOfTwo, "powers", value),), None),
    )
