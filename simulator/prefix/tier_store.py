"""One tier of a running cache: its pools, what went in and out, and where it could resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.basis.whole import ceil_div
from simulator.prefix.cached_bytes import CachedBytes
from simulator.prefix.granularity import whole_granules
from simulator.prefix.hit import Extent
from simulator.prefix.segment import Segment
from simulator.prefix.segment_pool import SegmentPool
from simulator.prefix.tier import Tier
from simulator.prefix.window_pool import WindowPool
from simulator.prefix.write_queue import WriteQueue


@dataclass(slots=True)
class TierStore:
    """A tier with its two pools, and the bytes that went in and out."""

    tier: Tier
    pages: SegmentPool
    windows: WindowPool
    block_bytes: int
    checkpoint_bytes: int
    writes: WriteQueue
    written_bytes: int = 0
    read_bytes: int = 0
    peak_bytes: int = 0

    def count_pages(self, blocks: int, sizes: CachedBytes, now_s: float) -> None:
        """Blocks of the trace were written, in objects of the engine's pages."""
        if blocks:
            nbytes = blocks * self.block_bytes
            self.written_bytes += nbytes
            pages = ceil_div(blocks * self.pages.index.block_tokens, sizes.page_tokens)
            self.writes.add(nbytes, pages * sizes.page_objects, now_s)

    def count_window(self, sizes: CachedBytes, now_s: float) -> None:
        """A checkpoint was written."""
        self.written_bytes += self.checkpoint_bytes
        self.writes.add(self.checkpoint_bytes, sizes.checkpoint_objects, now_s)

    @property
    def used_bytes(self) -> int:
        """What is stored now."""
        return self.pages.used_blocks * self.block_bytes + self.windows.used * self.checkpoint_bytes


@dataclass(frozen=True, slots=True)
class RowsWithPages:
    """Window rows of every token, in the tiers that the pages are in."""

    extents: Sequence[Extent]
    granule: int

    def last(self, limit: int) -> tuple[int, str] | None:
        """Any whole granule of the pages."""
        end = max((extent.end for extent in self.extents), default=0)
        at = whole_granules(min(limit, end), self.granule)
        return (at, next(e.tier for e in self.extents if e.end >= at)) if at else None


@dataclass(frozen=True, slots=True)
class TierCheckpoints:
    """Checkpoints along a path in some tiers, fastest first."""

    stores: Sequence[TierStore]
    path: Sequence[Segment]

    def last(self, limit: int) -> tuple[int, str] | None:
        """Largest in any tier; of equal ones that of the fastest."""
        found = [(store.windows.last(self.path, limit), store.tier.name) for store in self.stores]
        best = max(found, key=lambda one: one[0], default=(0, ""))
        return best if best[0] else None
