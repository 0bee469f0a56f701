"""Entries that kernels compute for nothing because their tiles are wider than what is there.

Sources: FlashMLA 9241ae3 (tiles of 64 picked entries), DeepGEMM 54e2261 (paged index logits: blocks
of 64 keys, on Blackwell 32 or 64, within a page), vLLM 0.33 (C128 picks padded to 128).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwmodels.chip import ChipSpec
from simulator.layout.grouping import CutGeometry
from simulator.layout.request_mix import Lengths, RequestMix, mean

PICKS_A_TILE = 64
_KEYS_A_TILE = {"blackwell": (32, 64), "blackwell-ultra": (32, 64)}
_KEYS_OF_OTHERS = (64,)
_WIDTH_MULTIPLE = {"vllm": 128}


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


def index_tile(cut: CutGeometry, chip: ChipSpec) -> int:
    """Keys of a tile of the index kernel: the size that wastes least of a page, the larger first.

    Assumes: chips that DeepGEMM does not run on have its tiles of 64 keys.
    """
    rows = cut.cut("c4_index").pool.page_rows
    sizes = _KEYS_A_TILE.get(chip.architecture, _KEYS_OF_OTHERS)
    return min(sizes, key=lambda tile: (-(-rows // tile) * tile, -tile))


def index_waste(cut: CutGeometry, mix: RequestMix, chip: ChipSpec) -> TileWaste:
    """Of the index scan.

    Assumes: a page whose tokens are no multiple of the ratio has as many keys as it has slots.
    """
    pool = cut.cut("c4_index").pool
    if not pool.layers:
        return TileWaste(0.0, 0.0)
    return TileWaste(
        mean(mix, Rounded(pool.ratio, 0)),
        mean(mix, PageTiles(pool.ratio, pool.page_rows, index_tile(cut, chip))),
    )


def attention_waste(mix: RequestMix, window: int, top_k: int, kernels: str) -> dict[str, TileWaste]:
    """Of the attention kernel, by source of its keys; the same whatever the pages are.

    `kernels` names the engine as measured tables do: vLLM pads the C128 width of its call to 128
    entries.
    """
    multiple = next((n for name, n in _WIDTH_MULTIPLE.items() if kernels.startswith(name)), 1)
    widths = {
        "window": (1, window, PICKS_A_TILE),
        "c4": (4, top_k, PICKS_A_TILE),
        "c128": (128, 0, max(PICKS_A_TILE, multiple)),
    }
    return {
        name: TileWaste(mean(mix, Rounded(ratio, most)), mean(mix, Rounded(ratio, most, tile)))
        for name, (ratio, most, tile) in widths.items()
    }
