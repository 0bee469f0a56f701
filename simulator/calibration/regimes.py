"""Divides the residuals of a family into regimes: a tree of few, large leaves.

A split is made where the quantiles of both sides fit so much better than those of the whole that
noise would not do it: the quantile losses of p10 and p90 together have to fall by a set share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.kernels.folds import folds_of
from simulator.kernels.interval import interval_from_quantiles
from simulator.kernels.parts import Floats
from simulator.kernels.regime import Regime, Situation, regime_of

LOW, HIGH = 0.1, 0.9
# A leaf has at least so many rows, a tenth of which lie beyond each quantile.
LEAST_ROWS = 60
MOST_SPLITS_DEEP = 3
# A split has to lower the quantile losses by this share.
LEAST_GAIN = 0.03
# Places at which a number is cut: its deciles.
_CUTS = np.linspace(0.1, 0.9, 9)
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class _Split:
    """A condition on a call, and the rows that meet it."""

    condition: dict[str, Any]
    meets: NDArray[np.bool_]


def quantile_pair(residuals: Floats) -> tuple[float, float]:
    """p10 and p90 of rows still to come: a little wider than those of the few that are known."""
    more = 1 + 1 / len(residuals)
    high = min(HIGH * more, 1.0)
    return float(np.quantile(residuals, 1 - high)), float(np.quantile(residuals, high))


def regimes_of(residuals: Floats, calls: Sequence[Situation]) -> tuple[Regime, ...]:
    """Regimes of rows whose residuals are known; one for all where they are few or alike."""
    return tuple(_regimes(residuals, calls, np.ones(len(residuals), dtype=bool), {}, 0))


def _regimes(
    residuals: Floats,
    calls: Sequence[Situation],
    own: NDArray[np.bool_],
    conditions: dict[str, Any],
    depth: int,
) -> Iterator[Regime]:
    split = _best_split(residuals, calls, own) if depth < MOST_SPLITS_DEEP else None
    if split is not None:
        # A limit below another takes its place.
        meeting = {**conditions, **split.condition}
        yield from _regimes(residuals, calls, own & split.meets, meeting, depth + 1)
        yield from _regimes(residuals, calls, own & ~split.meets, conditions, depth + 1)
        return
    low, high = quantile_pair(residuals[own])
    yield Regime(**conditions, log_error_p10=low, log_error_p90=high, rows=int(own.sum()))


def _best_split(
    residuals: Floats, calls: Sequence[Situation], own: NDArray[np.bool_]
) -> _Split | None:
    """The split that lowers the losses most; None where none lowers them enough."""
    before = _loss(residuals[own])
    best, least = None, before * (1 - LEAST_GAIN)
    for split in _splits(calls, own):
        inside, outside = own & split.meets, own & ~split.meets
        if min(inside.sum(), outside.sum()) < LEAST_ROWS:
            continue
        loss = _loss(residuals[inside]) + _loss(residuals[outside])
        if loss < least:
            best, least = split, loss
    return best


def _splits(calls: Sequence[Situation], own: NDArray[np.bool_]) -> Iterator[_Split]:
    """Conditions that can divide rows, in a fixed order."""
    for name in ("cause", "decode"):
        column = [getattr(call, name) for call in calls]
        known = {v for v, mine in zip(column, own, strict=True) if mine and v is not None}
        for value in sorted(known):
            yield _Split({name: value}, np.array([v == value for v in column]))
    for name in ("seconds", "tokens", "requests"):
        numbers = np.array([np.nan if (v := getattr(c, name)) is None else v for c in calls])
        if np.isnan(numbers[own]).any():
            continue
        for cut in np.unique(np.quantile(numbers[own], _CUTS)):
            limit = float(f"{cut:.{_DIGITS}g}")
            yield _Split({f"{name}_below": limit}, numbers < limit)


def _loss(residuals: Floats) -> float:
    """Sum of the quantile losses at p10 and p90."""
    return sum(_quantile_loss(residuals, share) for share in (LOW, HIGH))


def _quantile_loss(residuals: Floats, share: float) -> float:
    above = residuals - np.quantile(residuals, share)
    return float(np.where(above >= 0, share * above, (share - 1) * above).sum())


def factors_of(residuals: Floats, calls: Sequence[Situation]) -> tuple[Floats, Floats]:
    """Low and high factors of every row, from the regimes of the other folds' residuals."""
    low, high = np.empty(len(residuals)), np.empty(len(residuals))
    for held_out in folds_of(len(residuals)):
        others = np.setdiff1d(np.arange(len(residuals)), held_out)
        known = others if len(others) else held_out
        regimes = regimes_of(residuals[known], [calls[i] for i in known])
        for i in held_out:
            regime = regime_of(regimes, calls[i])
            found = interval_from_quantiles(regime.log_error_p10, regime.log_error_p90)
            low[i], high[i] = found.low, found.high
    return low, high
