"""A seeded tenth of long lists of cases, or all of them where `V4SIM_WHOLE` is set."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


WHOLE = bool(os.environ.get("V4SIM_WHOLE"))


def tenth(cases: Sequence[T], seed: int) -> list[T]:
    """Every tenth case on average, at least one, in their order."""
    if WHOLE:
        return list(cases)
    picked = random.Random(seed).sample(range(len(cases)), -(-len(cases) // 10))
    return [cases[i] for i in sorted(picked)]
