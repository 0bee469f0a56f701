"""A layout whose C4 entries lie on the host, behind a buffer of entries a request on the device.

The window, C128 entries, index keys and compressor rows stay on the device. Source: SGLang 0.5.23
HiSparse guide (`advanced_features/hisparse_guide`): only C4 entries move.
"""

from __future__ import annotations

from dataclasses import replace

from simulator.basis.whole import ceil_div, round_up
from simulator.engine.physical_layout import CacheGeometry, PoolGeometry

MOVED = "c4"
BUFFER = "c4_buffer"


def buffered(
    geometry: CacheGeometry, buffer_entries: int, host_ratio: int | None = None
) -> CacheGeometry:
    """The device's pools: no C4 pool, but a buffer of so many entries a request and C4 layer.

    With a `host_ratio` buffers come out of a pool of one C4 entry in so many (SGLang's sizing,
    `host_to_device_ratio`), which grows with the tokens held.

    Assumes: a buffer is whole pages of the engine's C4 pool; without a host ratio one buffer is
        kept for every request that the engine sets state aside for.
    """
    pools = [replace(pool, layers=0) if pool.name == MOVED else pool for pool in geometry.pools]
    moved = geometry.pool(MOVED)
    if host_ratio is None:
        added = buffer_pool(moved, buffer_entries)
    else:
        added = replace(
            moved,
            name=BUFFER,
            ratio=moved.ratio * host_ratio,
            page_tokens=moved.page_tokens * host_ratio,
            origin="SGLang 0.5.23 HiSparse: C4 pool = full tokens / (4 x host_to_device_ratio)",
        )
    return replace(geometry, pools=(*pools, added))


def buffers_in_pool(moved: PoolGeometry, tokens: int, host_ratio: int, buffer_entries: int) -> int:
    """Buffers that a pool of one C4 entry in `host_ratio` holds, where so many tokens fit."""
    return tokens // (moved.ratio * host_ratio) // round_up(buffer_entries, moved.page_rows)


def buffer_pool(moved: PoolGeometry, buffer_entries: int) -> PoolGeometry:
    """The buffer as a pool that lives as long as its request; a page is one layer's buffer."""
    pages = ceil_div(buffer_entries, moved.page_rows)
    return replace(
        moved,
        name=BUFFER,
        lives="request",
        ratio=1,
        reach_tokens=buffer_entries,
        page_tokens=0,
        page_rows=pages * moved.page_rows,
        page_bytes=pages * moved.page_bytes,
        origin="SGLang 0.5.23 HiSparse: a device buffer a request, 2 x top-k by default",
    )


def ceiling(geometry: CacheGeometry) -> float:
    """Tokens with all C4 entries on the host against tokens without, by bytes of rows alone.

    No padding, no buffers, nothing that a request holds whatever its length: what no buffer and no
    context can exceed.
    """
    whole = sum(pool.useful_bytes_per_token for pool in geometry.pools)
    return whole / (whole - geometry.pool(MOVED).useful_bytes_per_token)


def host_bytes(geometry: CacheGeometry, context_tokens: int) -> int:
    """Host memory of one request's C4 entries, in pages of the engine's C4 pool.

    Assumes: the host pool has the pages of the device's C4 pool, padding included.
    """
    moved = geometry.pool(MOVED)
    return moved.layers * ceil_div(context_tokens, moved.page_tokens) * moved.page_bytes
