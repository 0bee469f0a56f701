"""Lists of accesses to the last-level cache: runs of bytes in order, each read or written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.basis.errors import InputError


@dataclass(frozen=True)
class AccessList:
    """Byte addresses, sizes, directions, and the partition that the asking core sits in."""

    starts: np.ndarray
    sizes: np.ndarray
    writes: np.ndarray
    cores: np.ndarray

    @property
    def count(self) -> int:
        """Number of accesses."""
        return len(self.starts)

    @property
    def nbytes(self) -> int:
        """Bytes asked for, each time."""
        return int(self.sizes.sum())


def access_list(
    starts: object, sizes: object, writes: object = False, cores: object = 0
) -> AccessList:
    """Accesses of given addresses; one size, direction or partition serves all."""
    first = np.atleast_1d(np.asarray(starts, dtype=np.int64))
    count = len(first)

    def spread(values: object) -> np.ndarray:
        return np.broadcast_to(np.asarray(values, dtype=np.int64), (count,)).copy()

    made = AccessList(first, spread(sizes), spread(np.asarray(writes, dtype=bool)), spread(cores))
    if count and (first.min() < 0 or made.sizes.min() < 1 or made.cores.min() < 0):
        raise InputError("an access begins below 0, holds no byte, or comes from no partition")
    return made


def joined(lists: Sequence[AccessList]) -> AccessList:
    """Lists one after the other."""
    return AccessList(
        np.concatenate([one.starts for one in lists]),
        np.concatenate([one.sizes for one in lists]),
        np.concatenate([one.writes for one in lists]),
        np.concatenate([one.cores for one in lists]),
    )


def pick_accesses(
    picks: np.ndarray, entry_bytes: int, base: int = 0, slot_bytes: int | None = None
) -> AccessList:
    """Entries that queries pick: `picks` [queries, k] as the evaluator records them; below 0: none.

    Queries follow one another, as neighbours share their cores.
    """
    ids = np.asarray(picks, dtype=np.int64).reshape(-1)
    ids = ids[ids >= 0]
    return access_list(base + ids * (slot_bytes or entry_bytes), entry_bytes)


def stated_picks(visible: int, count: int, queries: int, overlap: float, seed: int) -> np.ndarray:
    """Picks [queries, count] of which each query shares `overlap` with the one before.

    Assumes: what a query renews it draws evenly from all visible entries.
    """
    if not 0 <= overlap <= 1 or count < 1 or queries < 1 or visible < count:
        raise InputError(
            f"{count} picks of {visible} entries by {queries} queries, overlap {overlap:g}, "
            "expected at least one of each, no more picks than entries, and an overlap of 0 to 1"
        )
    random = np.random.default_rng(seed)
    current = random.permutation(visible)[:count].astype(np.int64)
    renewed = round((1 - overlap) * count)
    picks = np.empty((queries, count), dtype=np.int64)
    for query in range(queries):
        if query and renewed:
            places = random.permutation(count)[:renewed]
            current[places] = random.integers(0, visible, renewed)
        picks[query] = current
    return picks


def matrix_accesses(
    rows: int, columns: int, depth_bytes: int, tile_rows: int, tile_columns: int, step_bytes: int,
    cores: int = 1, band: int = 16,
) -> AccessList:  # fmt: skip
    """Operands of a matrix product that tiles fetch: activations [rows], then weights [columns].

    Tiles run in waves of `cores` through bands of so many row tiles, and step through the depth
    together. A step of a tile is one run.
    """
    row_tiles, column_tiles = -(-rows // tile_rows), -(-columns // tile_columns)
    row, column = np.meshgrid(np.arange(row_tiles), np.arange(column_tiles), indexing="ij")
    order = np.lexsort((row.ravel(), column.ravel(), row.ravel() // band))
    tile_row, tile_column = row.ravel()[order], column.ravel()[order]
    steps = -(-depth_bytes // step_bytes)
    weights_at = row_tiles * tile_rows * depth_bytes
    lists = []
    step = np.arange(steps)[:, None] * step_bytes
    for first in range(0, len(order), cores):
        wave = slice(first, first + cores)
        activation = tile_row[wave] * tile_rows * depth_bytes + step * tile_rows
        weight = tile_column[wave] * tile_columns * depth_bytes + step * tile_columns + weights_at
        starts = np.stack([activation, weight], axis=2).reshape(-1)
        sizes = np.tile([tile_rows * step_bytes, tile_columns * step_bytes], len(starts) // 2)
        lists.append(access_list(starts, sizes))
    return joined(lists)


def expert_accesses(
    experts: np.ndarray, expert_bytes: int, run_bytes: int = 16_384, base: int = 0
) -> AccessList:
    """Weights of experts in the order in which blocks of tokens need them, run by run."""
    runs = np.arange(-(-expert_bytes // run_bytes)) * run_bytes
    firsts = base + np.asarray(experts, dtype=np.int64)[:, None] * expert_bytes
    sizes = np.minimum(run_bytes, expert_bytes - runs)
    starts = (firsts + runs[None, :]).reshape(-1)
    return access_list(starts, np.tile(sizes, len(firsts)))
