"""What the requests of a mix hold beyond useful rows: padding, part-filled pages, slack.

Part-filled pages never take less when a page grows to a multiple of itself. Between sizes that do
not divide each other they may: 300 tokens leave 212 empty in pages of 256, and 84 in pages of 384.

Assumes: requests decode: a sliding pool holds the rows in reach and one page more, since the window
    may begin anywhere in a page; no page is shared between requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.capacity.block_fit import block_bytes, group_bytes
from simulator.engine.physical_layout import CacheGeometry, PoolGeometry
from simulator.engine.sizing_rules import BlockGroup, BlockSizing
from simulator.layout.request_mix import Lengths, RequestMix, mean

ID_BYTES = 4  # page tables of FlashMLA and DeepGEMM hold int32


@dataclass(frozen=True, slots=True)
class PageCount:
    """Pages of one layer that a request of a length holds; as `request_pages` without prefill."""

    page_tokens: int
    reach_tokens: int

    def __call__(self, lengths: Lengths) -> Lengths:
        """Pages [n] of lengths [n]."""
        if not self.page_tokens:
            return np.ones_like(lengths)
        if self.reach_tokens:
            lengths = np.minimum(lengths, self.reach_tokens)
        pages: Lengths = -(-lengths // self.page_tokens) + bool(self.reach_tokens)
        return pages


@dataclass(frozen=True, slots=True)
class RowCount:
    """Rows of one layer that mean something at a length: finished entries, or rows in reach."""

    ratio: int
    reach_tokens: int

    def __call__(self, lengths: Lengths) -> Lengths:
        """Rows [n] of lengths [n]."""
        if self.reach_tokens:
            return np.minimum(lengths, self.reach_tokens)
        rows: Lengths = lengths // self.ratio
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBytes:
    """Bytes of a request on average over the mix, all layers: the parts add up to `held`."""

    name: str
    held_bytes: float
    useful_bytes: float
    padding_bytes: float
    partial_bytes: float
    slack_bytes: float = 0.0


def page_count(pool: PoolGeometry, cut: CacheGeometry) -> PageCount:
    """Pages of one layer of a pool, by length."""
    if pool.lives == "window_page":
        pool = cut.window
    if pool.lives == "request":
        return PageCount(0, 0)
    return PageCount(pool.page_tokens, 0 if pool.lives == "context" else pool.reach_tokens)


def held_bytes(cut: CacheGeometry, mix: RequestMix) -> tuple[HeldBytes, ...]:
    """By pool; blocks that several pools share add their slack as lines of their own."""
    pools = [_held_pool(one, cut, mix) for one in cut.pools]
    rule = cut.layout.sizing
    if not isinstance(rule, BlockSizing):
        return tuple(pools)
    unit = block_bytes(cut, rule)
    slack = [_held_slack(group, unit, cut, mix) for group in rule.groups if _pools(group, cut)]
    return (*pools, *slack)


def _held_pool(pool: PoolGeometry, cut: CacheGeometry, mix: RequestMix) -> HeldBytes:
    pages = mean(mix, page_count(pool, cut))
    rows = mean(mix, RowCount(pool.ratio, pool.reach_tokens))
    return HeldBytes(
        name=pool.name,
        held_bytes=pool.layers * pages * pool.page_bytes,
        useful_bytes=pool.layers * rows * pool.row_bytes,
        padding_bytes=pool.layers * pages * pool.padding_bytes,
        partial_bytes=pool.layers * (pages * pool.page_rows - rows) * pool.row_bytes,
    )


def _held_slack(group: BlockGroup, unit: int, cut: CacheGeometry, mix: RequestMix) -> HeldBytes:
    """Blocks are as large as the largest group's, or have a page of every bucket."""
    pages = mean(mix, page_count(_pools(group, cut)[0], cut))
    used = sum(group_bytes(cut, group))
    slack = pages * (_parts(group, cut) * unit - used)
    return HeldBytes(
        name=f"slack of {group.name} blocks",
        held_bytes=slack,
        useful_bytes=0.0,
        padding_bytes=0.0,
        partial_bytes=0.0,
        slack_bytes=slack,
    )


def block_slack(cut: CacheGeometry) -> dict[str, float]:
    """Share of a block that each part of each group leaves unused; empty without shared blocks."""
    rule = cut.layout.sizing
    if not isinstance(rule, BlockSizing):
        return {}
    unit = block_bytes(cut, rule)
    return {
        group.name if group.split == 1 else f"{group.name} {part + 1}": 1 - nbytes / unit
        for group in rule.groups
        for part, nbytes in enumerate(group_bytes(cut, group))
        if nbytes
    }


def table_bytes(cut: CacheGeometry, mix: RequestMix) -> float:
    """Bytes of page ids of a request on average: a table for every pool or group, not a layer.

    Rows kept with a window page are found by the window's ids and need none of their own.
    """
    rule = cut.layout.sizing
    if isinstance(rule, BlockSizing):
        groups = [(group, _pools(group, cut)) for group in rule.groups]
        ids = sum(
            _parts(group, cut) * mean(mix, page_count(pools[0], cut))
            for group, pools in groups
            if pools
        )
    else:
        own = (one for one in cut.pools if one.lives != "window_page")
        ids = sum(mean(mix, page_count(pool, cut)) for pool in own)
    return ID_BYTES * ids


def _pools(group: BlockGroup, cut: CacheGeometry) -> list[PoolGeometry]:
    return cut.of_kinds(*group.pools)


def _parts(group: BlockGroup, cut: CacheGeometry) -> int:
    return min(group.split, max(pool.layers for pool in _pools(group, cut)))
