"""How an engine stores the rows of the model's cache regions: bytes a row, rows a page, runs.

The physical side of a `Region`: row formats and page sizes come from the layout of the engine's
profile. A precision that the engine does not store keeps the bytes of the region's own format.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.layout.cache_layout import CacheLayout
from simulator.layout.entry_bytes import find_row_format
from workloads.state_layout import Every, Region

# Pools of a layout by pool of a region.
_POOLS = {"window": "window", "c4": "c4", "index": "c4_index", "c128": "c128"}


@dataclass(frozen=True, slots=True)
class StoredRow:
    """Rows of one region: bytes of a row, rows that lie side by side in a page.

    `scaled_values` of a row are stored with scales, narrower than they are multiplied.
    """

    row_bytes: int
    page_rows: int
    scaled_values: int

    @property
    def page_bytes(self) -> int:
        """Bytes of a page's rows, which lie in one run."""
        return self.row_bytes * self.page_rows


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of all regions under an engine's layout."""

    layout: CacheLayout

    def of(self, region: Region) -> StoredRow:
        """Rows of a region.

        Assumes: rows of a compressor's state lie one run each, in the format of the model.
        """
        pool = _POOLS.get(region.pool)
        if pool is None:
            return StoredRow(region.format.nbytes, 1, 0)
        formats = self.layout.formats
        known = formats.index if region.pool == "index" else formats.kv
        name = known.get(region.format.precision)
        nbytes, scaled = region.format.nbytes, region.format.scaled_values
        if name is not None:
            form = find_row_format(name)
            rope = getattr(region.format, "rope", 0)
            nbytes = form.nbytes(region.format.dim, rope)
            wide = rope if form.rope_bits is not None else 0
            scaled = region.format.dim - wide if form.bits < 16 else 0
        return StoredRow(nbytes, self._page_rows(pool, region), scaled)

    def _page_rows(self, pool: str, region: Region) -> int:
        rule = self.layout.pools[pool]  # type: ignore[index]
        if isinstance(region.growth, Every):
            return max(1, (rule.page_tokens or 0) // region.growth.tokens)
        return min(region.growth.tokens, rule.page_tokens or rule.rows or 1)
