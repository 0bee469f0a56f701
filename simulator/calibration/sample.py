"""A seeded sample of measured rows: so many a file, of every family and chip that the file has."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from simulator.calibration.dispatch import NOT_COVERED, MeasuredRow, RowSet


def sampled(rows: RowSet, count: int, seed: int) -> RowSet:
    """At most `count` rows a file, in their order; rows that no profile lowers are left out.

    Which rows of a file are drawn depends on its rows, its name and the seed, on no other file.
    """
    by_file: dict[str, list[MeasuredRow]] = {}
    for row in rows.rows:
        if row.family != NOT_COVERED:
            by_file.setdefault(row.file, []).append(row)
    return RowSet(tuple(row for own in by_file.values() for row in _drawn(own, count, seed)))


def _drawn(rows: Sequence[MeasuredRow], count: int, seed: int) -> list[MeasuredRow]:
    """Rows of one file: of each family and chip in proportion to its rows, and at least one."""
    if count >= len(rows):
        return list(rows)
    draw = np.random.default_rng([seed, crc32(rows[0].file.encode())])
    strata: dict[tuple[str, str], list[int]] = {}
    for index, row in enumerate(rows):
        strata.setdefault((row.family, row.chip), []).append(index)
    groups = [draw.permutation(members) for _, members in sorted(strata.items())]
    shares = _shares([len(group) for group in groups], count, draw.permutation(len(groups)))
    chosen = [int(i) for group, share in zip(groups, shares, strict=True) for i in group[:share]]
    return [rows[index] for index in sorted(chosen)]


def _shares(sizes: Sequence[int], count: int, order: Sequence[int] | np.ndarray) -> list[int]:
    """How many of each group: one of each in the order while they last, then by its share."""
    shares = [0] * len(sizes)
    for group in list(order)[:count]:
        shares[group] = 1
    whole = sum(sizes)
    for _ in range(count - sum(shares)):
        open_groups = [i for i, size in enumerate(sizes) if shares[i] < size]
        # Whose rows are furthest below their part of the sample.
        short = max(open_groups, key=lambda i: (sizes[i] * count / whole - shares[i], -i))
        shares[short] += 1
    return shares
