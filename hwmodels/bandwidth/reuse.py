"""Bytes that come from memory again, since the last-level cache did not keep them for their reuse.

Whole tiles, entries or runs stand for lines: a cache of so many of them, with the same policy.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from hwmodels.llc.accesses import AccessList, access_list, matrix_accesses
from hwmodels.llc.cache import run_cache
from hwmodels.llc.spec import CacheSpec

_TILE = 128
_MOST_TOUCHES = 400_000
_MOST_STEPS = 2_000_000


def fetched_again_bytes(cache: CacheSpec, accesses: AccessList, line_bytes: int) -> float:
    """Bytes fetched beyond the first time, of runs that are all `line_bytes` long at most."""
    lines = access_list(accesses.starts // line_bytes * _TILE, 1)
    ways = cache.ways
    capacity = max(cache.capacity_bytes // line_bytes, ways * cache.partitions)
    scaled = replace(cache, capacity_bytes=capacity * _TILE, line_bytes=_TILE, sector_bytes=_TILE)
    fills = run_cache(scaled, lines).fills
    return float((fills - len(np.unique(lines.starts))) * line_bytes)


@lru_cache(maxsize=512)
def matrix_again_bytes(
    cache: CacheSpec,
    cores: int,
    rows: int,
    columns: int,
    depth: int,
    row_bytes: float,
    column_bytes: float,
) -> float:
    """Operand bytes of one product that its tiles fetch from memory again.

    `row_bytes` and `column_bytes` are those of one value of the activations and of the weights.

    Assumes: tiles of 128 x 128 run in waves over all cores, through bands of 16 row tiles.
    """
    row_tiles, column_tiles = math.ceil(rows / _TILE), math.ceil(columns / _TILE)
    operands = depth * (rows * row_bytes + columns * column_bytes)
    if row_tiles == 1 or column_tiles == 1 or 2 * operands <= cache.capacity_bytes:
        return 0.0
    steps = max(1, math.ceil(depth / _TILE))
    kept = max(1, min(steps, _MOST_STEPS // (2 * row_tiles * column_tiles)))
    value_bytes = (row_bytes + column_bytes) / 2
    accesses = matrix_accesses(
        row_tiles * _TILE, column_tiles * _TILE, kept * _TILE, _TILE, _TILE, _TILE, cores
    )
    # Fewer steps of the depth stand for all in a cache smaller by as much.
    share = kept / steps / value_bytes
    smaller = replace(
        cache, capacity_bytes=max(int(cache.capacity_bytes * share), cache.ways * _TILE * 256)
    )
    return fetched_again_bytes(smaller, accesses, _TILE * _TILE) / share


@lru_cache(maxsize=512)
def picked_again_share(
    cache: CacheSpec, run_bytes: int, queries: int, picks: int, renewed: float
) -> float:
    """Bytes fetched again, as a share of the distinct ones, where queries pick entries in turn.

    Each query renews so many of its `picks` with entries that no query before it had.
    """
    kept = max(1, min(queries, _MOST_TOUCHES // max(picks, 1)))
    if kept < 2 or renewed >= picks:
        return 0.0
    random = np.random.default_rng(7)
    current = np.arange(picks, dtype=np.int64)
    rounds, fresh, owed = [current.copy()], picks, 0.0
    for _ in range(kept - 1):
        owed += renewed
        count = int(owed)
        owed -= count
        current[random.permutation(picks)[:count]] = np.arange(fresh, fresh + count)
        fresh += count
        rounds.append(current.copy())
    starts = np.concatenate(rounds) * run_bytes
    return fetched_again_bytes(cache, access_list(starts, run_bytes), run_bytes) / (
        fresh * run_bytes
    )
