"""Pages that one request holds in each pool, at a context and with tokens in flight."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.basis.whole import ceil_div
from simulator.engine.physical_layout import CacheGeometry, PoolGeometry


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is to be held. All lengths in tokens.

    `in_flight_tokens`: tokens of a step that may be written before older pages are freed (the
    scheduler's largest step); `draft_tokens`: speculative tokens of a step and request, made by
    `draft_layers`.
    `context_parallel`: ranks that share a request's compressed entries; each keeps all of the
    index keys, the window and the compressor's rows (SGLang pull 37407, vLLM RFC 57228).
    """

    context_tokens: int
    in_flight_tokens: int = 1
    draft_tokens: int = 0
    draft_layers: int = 1
    context_parallel: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Memory of one pool or group: `units` of `unit_bytes`; `useful_bytes` hold a row each."""

    name: str
    units: int
    unit_bytes: int
    useful_bytes: int
    grows: bool

    @property
    def nbytes(self) -> int:
        """Bytes charged."""
        return self.units * self.unit_bytes


def request_pages(pool: PoolGeometry, geometry: CacheGeometry, load: Load) -> int:
    """Pages of one layer that a request holds at most.

    A sliding pool holds the tokens in reach and those in flight, and one page more: the window may
    begin anywhere in a page. Source: vLLM 0.33 `single_type_kv_cache_manager.py`.
    """
    held = load.context_tokens + load.draft_tokens
    if pool.lives == "request":
        return 1
    if pool.lives == "window_page":
        return request_pages(geometry.window, geometry, load)
    if pool.lives == "context":
        return ceil_div(ceil_div(held, pool.page_tokens), pool.ranks(load.context_parallel))
    reach = pool.reach_tokens - 1 + load.in_flight_tokens + load.draft_tokens
    return ceil_div(min(reach, held), pool.page_tokens) + 1


def useful_rows(pool: PoolGeometry, load: Load) -> int:
    """Rows of one layer that mean something after the step."""
    if pool.lives == "context":
        return ceil_div(load.context_tokens // pool.ratio, pool.ranks(load.context_parallel))
    return min(load.context_tokens, pool.reach_tokens)


def request_charges(geometry: CacheGeometry, load: Load) -> tuple[Charge, ...]:
    """What a request holds, pool by pool, each with pages of its own."""
    return tuple(
        Charge(
            name=pool.name,
            units=pool.layers * request_pages(pool, geometry, load),
            unit_bytes=pool.page_bytes,
            useful_bytes=pool.layers * pool.row_bytes * useful_rows(pool, load),
            grows=pool.lives == "context",
        )
        for pool in geometry.pools
        if pool.layers
    )
