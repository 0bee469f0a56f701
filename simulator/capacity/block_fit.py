"""Sizing with one block size charged to every group of pools (vLLM).

Source: vLLM 0.33 `v1/core/kv_cache_utils.py`, `single_type_kv_cache_manager.py`; vLLM issues 44376
and 54703 for the sizes.
"""

from __future__ import annotations

from simulator.basis.whole import ceil_div
from simulator.capacity.fit import Fit, Limit
from simulator.capacity.request_pages import Charge, Load, request_pages, useful_rows
from simulator.engine.physical_layout import CacheGeometry, PoolGeometry
from simulator.engine.sizing_rules import BlockGroup, BlockSizing


def block_bytes(geometry: CacheGeometry, rule: BlockSizing) -> int:
    """Bytes of a block: of the largest group, or of a page of every bucket for every slot."""
    if rule.block_bytes == "largest":
        return max(group_bytes(geometry, group)[0] for group in rule.groups)
    slots = max(
        ceil_div(pool.layers, group.split)
        for group in rule.groups
        for pool in geometry.of_kinds(*group.pools)
    )
    buckets = (geometry.of_kinds(*bucket) for bucket in rule.buckets)
    return slots * sum(max(pool.page_bytes for pool in bucket) for bucket in buckets if bucket)


def group_bytes(geometry: CacheGeometry, group: BlockGroup) -> tuple[int, ...]:
    """Bytes that a block of each part of a group uses; the first part has the most layers."""
    pools = geometry.of_kinds(*group.pools)
    return tuple(
        sum(_part_layers(pool, group.split, part) * pool.page_bytes for pool in pools)
        for part in range(group.split)
    )


def _part_layers(pool: PoolGeometry, parts: int, part: int) -> int:
    return pool.layers // parts + (part < pool.layers % parts)


def request_blocks(geometry: CacheGeometry, rule: BlockSizing, load: Load) -> dict[str, int]:
    """Blocks of a request by group, all its parts counted; groups without layers left out."""
    return {
        group.name: _parts(geometry, group)
        * max(request_pages(pool, geometry, load) for pool in _held(geometry, group))
        for group in rule.groups
        if _held(geometry, group)
    }


def _held(geometry: CacheGeometry, group: BlockGroup) -> list[PoolGeometry]:
    return geometry.of_kinds(*group.pools)


def _parts(geometry: CacheGeometry, group: BlockGroup) -> int:
    """Parts that have a layer at all."""
    return min(group.split, max(pool.layers for pool in _held(geometry, group)))


def longest_context(geometry: CacheGeometry, rule: BlockSizing, blocks: int, load: Load) -> int:
    """Most tokens that one request may have in so many blocks; 0 where not even one fits."""
    low, high = 0, max(1, blocks) * max(pool.page_tokens for pool in geometry.pools)
    while low < high:
        middle = (low + high + 1) // 2
        tried = _with_context(load, middle)
        if sum(request_blocks(geometry, rule, tried).values()) <= blocks:
            low = middle
        else:
            high = middle - 1
    return low


def _with_context(load: Load, context: int) -> Load:
    return Load(
        context_tokens=context,
        in_flight_tokens=load.in_flight_tokens,
        draft_tokens=load.draft_tokens,
        context_parallel=load.context_parallel,
    )


def fit_blocks(geometry: CacheGeometry, rule: BlockSizing, budget_bytes: int, load: Load) -> Fit:
    """Requests of a budget: whole blocks / blocks of a request."""
    unit = block_bytes(geometry, rule)
    blocks = request_blocks(geometry, rule, load)
    charges = tuple(
        _charge(geometry, group, unit, blocks[group.name], load)
        for group in rule.groups
        if group.name in blocks
    )
    needed = sum(blocks.values())
    available = budget_bytes // unit
    requests = available / needed
    return Fit(
        budget_bytes=budget_bytes,
        charges=charges,
        reserved=(),
        limits=(
            Limit(
                name="blocks",
                requests=requests,
                about=f"{available:,} blocks of {unit:,} B, {needed:,} a request",
            ),
        ),
        fixed_bytes=sum(c.nbytes for c in charges if not c.grows),
        bytes_per_token=_growth(geometry, rule, unit),
        tokens=int(requests * load.context_tokens),
    )


def _growth(geometry: CacheGeometry, rule: BlockSizing, unit: int) -> float:
    growing = [
        min(pool.page_tokens for pool in _held(geometry, group))
        for group in rule.groups
        if _held(geometry, group) and _grows(geometry, group)
    ]
    return sum(unit / tokens for tokens in growing)


def _grows(geometry: CacheGeometry, group: BlockGroup) -> bool:
    return any(pool.lives == "context" for pool in _held(geometry, group))


def _charge(
    geometry: CacheGeometry, group: BlockGroup, unit: int, blocks: int, load: Load
) -> Charge:
    useful = sum(
        pool.layers * pool.row_bytes * useful_rows(pool, load) for pool in _held(geometry, group)
    )
    return Charge(
        name=group.name,
        units=blocks,
        unit_bytes=unit,
        useful_bytes=useful,
        grows=_grows(geometry, group),
    )
