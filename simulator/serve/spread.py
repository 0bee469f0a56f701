"""How numbers are spread: mean and percentiles, of plain or of weighted values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """`count`: values, or the sum of their weights. All in the unit of the values."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    most: float


def spread_of(values: ArrayLike) -> Spread | None:
    """Spread of values, each as good as any other; None where there is none.

    Percentiles lie between neighbours in proportion, as numpy's do.
    """
    found = np.asarray(values, dtype=np.float64)
    if not len(found):
        return None
    p50, p90, p99 = np.percentile(found, PERCENTILES).tolist()
    return Spread(
        count=len(found), mean=float(found.mean()), p50=p50, p90=p90, p99=p99, most=found.max()
    )


def weighted_spread(values: ArrayLike, weights: ArrayLike) -> Spread | None:
    """Spread of values that occur as often as their whole weights say; None where none does.

    A percentile is the least value that so many per cent do not exceed.
    """
    numbers = np.asarray(values, dtype=np.float64)
    counts = np.asarray(weights, dtype=np.int64)
    total = int(counts.sum())
    if not total:
        return None
    order = np.argsort(numbers, kind="stable")
    below = np.cumsum(counts[order])
    ranks = [-(-total * percent // 100) for percent in PERCENTILES]
    p50, p90, p99 = numbers[order][np.searchsorted(below, ranks)].tolist()
    return Spread(
        count=total,
        mean=float(np.dot(numbers, counts) / total),
        p50=p50,
        p90=p90,
        p99=p99,
        most=float(numbers[counts > 0].max()),
    )
