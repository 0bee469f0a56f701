"""Entries that kernels compute for nothing because their tiles are wider than what is there.

Sources: FlashMLA 9241ae3 (tiles of 64 picked entries), DeepGEMM 54e2261 (paged index logits: blocks
of 64 keys, on Blackwell 32 or 64, within a page), vLLM 0.33 (C128 picks padded to 128).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.engine.physical_layout import CacheGeometry
from simulator.engine.profile import EngineProfile
from simulator.kernels.index_logits import tile_keys
from simulator.kernels.sparse_core import ID_PAD
from simulator.layout.request_mix import Lengths, RequestMix, mean
from workloads.deepseek_v4.config import ModelConfig

PICKS_A_TILE = 64


@dataclass(frozen=True, slots=True)
class TileWaste:
    """Entries that a layer's kernel asks for and those its tiles hold, a request on average."""

    entries: float
    tile_entries: float

    @property
    def share(self) -> float:
        """Share of the tiles' entries that are none."""
        return 1 - self.entries / self.tile_entries if self.tile_entries else 0.0


@dataclass(frozen=True, slots=True)
class Rounded:
    """min(length // ratio, most) rounded up to a multiple (1: as it is)."""

    ratio: int
    most: int
    multiple: int = 1

    def __call__(self, lengths: Lengths) -> Lengths:
        """Entries [n] of lengths [n]."""
        entries = lengths // self.ratio
        if self.most:
            entries = np.minimum(entries, self.most)
        rounded: Lengths = -(-entries // self.multiple) * self.multiple
        return rounded


@dataclass(frozen=True, slots=True)
class PageTiles:
    """Keys of the tiles over a request's pages: tiles do not reach from page to page."""

    ratio: int
    page_rows: int
    tile: int

    def __call__(self, lengths: Lengths) -> Lengths:
        """Keys [n] of lengths [n]."""
        pages, rest = np.divmod(lengths // self.ratio, self.page_rows)
        full = -(-self.page_rows // self.tile) * self.tile
        tiles: Lengths = pages * full - (-rest // self.tile) * self.tile
        return tiles


def index_tile(cut: CacheGeometry, chip: ChipSpec) -> int:
    """Keys of a tile of the index kernel, as its program takes them; 0 without an indexer."""
    keys = cut.of_kinds("csa_index")
    return tile_keys(keys[0].page_rows, chip) if keys else 0


def index_waste(cut: CacheGeometry, mix: RequestMix, chip: ChipSpec) -> TileWaste:
    """Of the index scan, a layer on average.

    Assumes: a page whose tokens are no multiple of the ratio has as many keys as it has slots.
    """
    found = [
        (
            pool.layers,
            mean(mix, Rounded(pool.ratio, 0)),
            mean(mix, PageTiles(pool.ratio, pool.page_rows, tile_keys(pool.page_rows, chip))),
        )
        for pool in cut.of_kinds("csa_index")
    ]
    layers = sum(count for count, _, _ in found) or 1
    return TileWaste(
        sum(count * entries for count, entries, _ in found) / layers,
        sum(count * tiles for count, _, tiles in found) / layers,
    )


def padded_ids(profile: EngineProfile) -> int:
    """Entries to which an engine's attention kernel pads what all queries see."""
    forms = [kernel.core.form for kernel in profile.kernels if kernel.core is not None]
    return ID_PAD if "two_lists" in forms else PICKS_A_TILE


def attention_waste(
    mix: RequestMix, config: ModelConfig, multiple: int = PICKS_A_TILE
) -> dict[str, TileWaste]:
    """Of the attention kernel, by source of its keys; the same whatever the pages are.

    `multiple`: entries to which an engine pads what all queries see (vLLM: 128).
    """
    widths = {"window": (1, config.sliding_window, PICKS_A_TILE)}
    for layer in config.layers:
        if layer.ratio:
            most, tile = (config.index_topk, PICKS_A_TILE) if layer.indexed else (0, multiple)
            widths[layer.pool] = (layer.ratio, most, tile)
    return {
        name: TileWaste(mean(mix, Rounded(ratio, most)), mean(mix, Rounded(ratio, most, tile)))
        for name, (ratio, most, tile) in widths.items()
    }
