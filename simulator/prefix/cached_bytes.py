"""Bytes and objects of what a prefix cache stores, from an engine's layout of the cache."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.basis.whole import ceil_div
from simulator.capacity.block_fit import block_bytes
from simulator.engine.physical_layout import CacheGeometry, PoolGeometry
from simulator.engine.sizing_rules import BlockSizing
from simulator.prefix.hit import OVERLAP_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedBytes:
    """Sizes over all layers.

    `page_bytes` of a page of `page_tokens` tokens, compressed entries and index keys, moved as
    `page_objects`. `window_bytes` and `overlap_bytes` of one checkpoint, moved as
    `checkpoint_objects`. `row_bytes`: window rows of one token, which `full` keeps of every token.
    """

    page_tokens: int
    page_bytes: int
    page_objects: int
    window_bytes: int
    overlap_bytes: int
    checkpoint_objects: int
    row_bytes: int

    @property
    def checkpoint_bytes(self) -> int:
        """A window with the overlap rows that go with it."""
        return self.window_bytes + self.overlap_bytes

    def pages_bytes(self, tokens: int) -> int:
        """Compressed entries of so many tokens, in whole pages."""
        return ceil_div(tokens, self.page_tokens) * self.page_bytes


def cached_bytes(geometry: CacheGeometry) -> CachedBytes:
    """Sizes in an engine's granules.

    One block size (vLLM): whole blocks are moved, whichever group owns them.

    Assumes: where pools have memory of their own, a page (or checkpoint) of one pool is moved over
    all layers as one object.
    """
    tokens = geometry.layout.hit_tokens
    sizing = geometry.layout.sizing
    if isinstance(sizing, BlockSizing):
        return _in_blocks(geometry, sizing, tokens)
    kept = [pool for pool in geometry.pools if pool.lives == "context" and pool.layers]
    window = geometry.window
    states = geometry.of_kinds("csa_state", "csa_index_state")
    return CachedBytes(
        page_tokens=tokens,
        page_bytes=sum(
            pool.layers * pool.page_bytes * ceil_div(tokens, pool.page_tokens) for pool in kept
        ),
        page_objects=len(kept),
        window_bytes=_window_bytes(window),
        overlap_bytes=sum(_overlap_bytes(pool) for pool in states),
        checkpoint_objects=1 + sum(pool.layers > 0 for pool in states),
        row_bytes=_row_bytes(geometry),
    )


def _window_bytes(window: PoolGeometry) -> int:
    """The rows in reach, in whole pages where the engine has window pages."""
    if window.lives == "sliding":
        return window.layers * ceil_div(window.reach_tokens, window.page_tokens) * window.page_bytes
    return window.layers * window.reach_tokens * window.row_bytes


def _overlap_bytes(state: PoolGeometry) -> int:
    """The last rows of a compressor with overlap; the whole ring where it goes with a page."""
    if state.lives == "window_page":
        return state.layers * state.page_bytes
    return state.layers * OVERLAP_TOKENS * state.row_bytes


def _in_blocks(geometry: CacheGeometry, sizing: BlockSizing, tokens: int) -> CachedBytes:
    """Blocks of one size: a full one a page; of every other group those in reach of a boundary.

    The states of ratio-128 layers are kept as well, though nothing at a boundary needs them.
    """
    unit = block_bytes(geometry, sizing)
    blocks = {"page": 0, "window": 0, "overlap": 0}
    for group in sizing.groups:
        pools = geometry.of_kinds(*group.pools)
        if not pools:
            continue
        if pools[0].lives == "context":
            blocks["page"] += group.split * ceil_div(tokens, pools[0].page_tokens)
            continue
        reach = max(ceil_div(pool.reach_tokens, pool.page_tokens) for pool in pools)
        kind = "window" if pools[0].name == "window" else "overlap"
        blocks[kind] += group.split * reach
    return CachedBytes(
        page_tokens=tokens,
        page_bytes=blocks["page"] * unit,
        page_objects=blocks["page"],
        window_bytes=blocks["window"] * unit,
        overlap_bytes=blocks["overlap"] * unit,
        checkpoint_objects=blocks["window"] + blocks["overlap"],
        row_bytes=_row_bytes(geometry),
    )


def _row_bytes(geometry: CacheGeometry) -> int:
    window = geometry.window
    return window.layers * window.row_bytes
