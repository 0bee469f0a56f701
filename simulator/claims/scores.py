"""How well measured serving rows are met: medians by concurrency, order of pairs, choices made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from simulator.claims.measured import Measured

# Classes of requests at once, by their largest.
CLASSES = ((1, "1"), (16, "2 to 16"), (128, "17 to 128"), (1 << 40, "above 128"))
# Pairs whose measured values differ by less are no test of their order.
APART = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Rows of a figure in a class of concurrency: median off by, and bias (median, signed)."""

    figure: str
    concurrency: str
    rows: int
    off: float
    bias: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Pairs at equal concurrency that differ in `what`, and how many ours orders as measured."""

    figure: str
    what: str
    pairs: int
    right: int

    @property
    def share(self) -> float:
        """Share ordered right."""
        return self.right / self.pairs if self.pairs else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The concurrency with the most tokens a second by ours, and what of the best that gives."""

    name: str
    ours: int
    best: int
    lost: float


def held_share(found: Sequence[Measured], figure: str) -> tuple[int, int]:
    """Rows of a figure whose measured value lies in the band, and those that have one."""
    own = [one for one in found if one.counted and one.figure == figure and one.band is not None]
    return sum(one.band.holds(one.row.value) for one in own if one.band), len(own)


def class_of(concurrency: int) -> str:
    """Class of a number of requests at once."""
    return next(name for most, name in CLASSES if concurrency <= most)


def scores_of(found: Sequence[Measured], figure: str) -> list[Score]:
    """All rows of a figure, then each class."""
    own = [one for one in found if one.counted and one.figure == figure]
    groups = [("all", own)]
    for _, name in CLASSES:
        groups.append((name, [one for one in own if class_of(one.run.concurrency) == name]))
    return [_score(figure, name, rows) for name, rows in groups if rows]


def _score(figure: str, name: str, rows: Sequence[Measured]) -> Score:
    off = np.array([one.difference for one in rows], dtype=np.float64)
    return Score(
        figure=figure,
        concurrency=name,
        rows=len(rows),
        off=float(np.median(np.abs(off))),
        bias=float(np.median(off)),
    )


def order_of(found: Sequence[Measured], figure: str) -> list[Order]:
    """All pairs at equal concurrency, and those between different chips."""
    own = [one for one in found if one.counted and one.figure == figure]
    counts = {"all": [0, 0], "chips": [0, 0]}
    for first, second in combinations(own, 2):
        if first.run.concurrency != second.run.concurrency or _setting(first) == _setting(second):
            continue
        measured = first.row.value / second.row.value
        if 1 / (1 + APART) <= measured <= 1 + APART:
            continue
        assert first.ours is not None
        assert second.ours is not None
        right = (measured > 1) == (first.ours > second.ours)
        names = ["all"] + (["chips"] if first.row.system != second.row.system else [])
        for name in names:
            counts[name][0] += 1
            counts[name][1] += right
    return [Order(figure=figure, what=k, pairs=n, right=r) for k, (n, r) in counts.items()]


def choices_of(found: Sequence[Measured]) -> list[Chosen]:
    """For every chip, model and format: tokens a second lost by the choice of concurrency."""
    groups: dict[tuple[object, ...], dict[int, Measured]] = {}
    for one in found:
        if one.counted and one.figure == "rate":
            groups.setdefault(_setting(one), {})[one.run.concurrency] = one
    chosen = []
    for setting, rows in groups.items():
        if len(rows) < 2:
            continue
        ours = max(rows.values(), key=lambda one: one.ours or 0.0)
        best = max(rows.values(), key=lambda one: one.row.value)
        chosen.append(
            Chosen(
                name=" ".join(map(str, setting)),
                ours=ours.run.concurrency,
                best=best.run.concurrency,
                lost=1 - ours.row.value / best.row.value,
            )
        )
    return chosen


def _setting(one: Measured) -> tuple[object, ...]:
    return one.row.system, one.row.chips, one.row.model, one.run.format
