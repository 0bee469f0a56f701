"""Sizing with pools of fixed size (SGLang): window slots against full tokens, or a fixed number.

Source: SGLang 0.5.23 `srt/model_executor/pool_configurator.py`, `srt/mem_cache/
deepseek_v4_memory_pool.py`.
Assumes: a request in decode holds whole window pages for its window and one page, the admission
    floor (window + page slots).
"""

from __future__ import annotations

from dataclasses import replace

from simulator.basis.whole import ceil_div, round_up
from simulator.capacity.fit import Fit, Limit
from simulator.capacity.request_pages import Charge, Load, useful_rows
from simulator.engine.entry_bytes import find_row_format
from simulator.engine.physical_layout import CacheGeometry, PoolGeometry
from simulator.engine.sizing_rules import WindowSizing


def full_token_bytes(geometry: CacheGeometry, rule: WindowSizing, load: Load) -> float:
    """Bytes that the engine budgets for one full token: its compressed entries and index key."""
    per_token = sum(
        _priced(pool, rule).bytes_per_token / pool.ranks(load.context_parallel)
        for pool in geometry.pools
    )
    return per_token * _draft_factor(geometry, load)


def window_token_bytes(geometry: CacheGeometry, rule: WindowSizing, load: Load) -> float:
    """Bytes of one window slot over all layers, with the compressor rows of its page."""
    window = geometry.window
    pages = window.layers * window.page_bytes + sum(
        pool.layers * pool.page_bytes for pool in geometry.pools if pool.lives == "window_page"
    )
    return pages / window.page_tokens * _draft_factor(geometry, load)


def _draft_factor(geometry: CacheGeometry, load: Load) -> float:
    """With speculation engines let all per-token bytes grow as the layers do."""
    extra = load.draft_layers if load.draft_tokens else 0
    return (geometry.layers + extra) / geometry.layers


def _priced(pool: PoolGeometry, rule: WindowSizing) -> PoolGeometry:
    """The pool as the engine budgets it: an index key may be priced in another, wider format.

    Assumes: an engine that budgets a format narrower than what it is asked to store, which it does
        not do by itself, would budget what it stores.
    """
    if pool.kind != "csa_index" or rule.index_priced_as is None:
        return pool
    key = max(pool.row_bytes, find_row_format(rule.index_priced_as).nbytes(pool.row_values))
    return replace(pool, row_bytes=key, page_bytes=pool.page_rows * key + pool.padding_bytes)


def request_window_tokens(geometry: CacheGeometry) -> int:
    """Window slots of a request in decode, in whole pages."""
    window = geometry.window
    return round_up(window.reach_tokens + window.page_tokens, window.page_tokens)


def capped_window_tokens(geometry: CacheGeometry, rule: WindowSizing, load: Load) -> int:
    """Window slots of the fixed sizing: requests, two prefill chunks, and tails of prefixes."""
    window = geometry.window
    page, reach = window.page_tokens, window.reach_tokens
    request = reach + rule.eviction_tokens * max(1, load.draft_tokens) + page + rule.decode_tokens
    tails = rule.prefix_tails_per_request * rule.max_requests * (reach + page)
    return rule.max_requests * request + 2 * load.in_flight_tokens + page + tails


def fit_window(geometry: CacheGeometry, rule: WindowSizing, budget_bytes: int, load: Load) -> Fit:
    """Pools of a budget, and the requests that each of them holds."""
    reserved = [_request_state(pool, rule) for pool in _per_request(geometry)]
    full_bytes = full_token_bytes(geometry, rule, load)
    slot_bytes = window_token_bytes(geometry, rule, load)
    left = budget_bytes - sum(charge.nbytes for charge in reserved)
    page = geometry.layout.page_tokens
    held = round_up(load.context_tokens + load.draft_tokens, page)
    if rule.window_ratio is not None:
        tokens = left / (full_bytes + rule.window_ratio * slot_bytes)
        slots = int(rule.window_ratio * max(0.0, tokens)) // page * page
    else:
        slots = capped_window_tokens(geometry, rule, load)
        rest = left - slots * slot_bytes
        # Where no layer grows, memory for the slots is all that requests need.
        tokens = rest / full_bytes if full_bytes else held * rule.max_requests * (rest >= 0)
    full_tokens = max(0, int(tokens) // page * page)
    reserved.append(_window_charge(geometry, slots, slot_bytes))
    return Fit(
        budget_bytes=budget_bytes,
        charges=_charges(geometry, rule, load, held),
        reserved=tuple(reserved),
        limits=_limits(geometry, rule, full_tokens, slots, held, load),
        fixed_bytes=sum(c.nbytes for c in _charges(geometry, rule, load, held) if not c.grows),
        bytes_per_token=full_bytes,
        tokens=full_tokens,
    )


def _per_request(geometry: CacheGeometry) -> list[PoolGeometry]:
    return [pool for pool in geometry.pools if pool.lives == "request" and pool.layers]


def _request_state(pool: PoolGeometry, rule: WindowSizing) -> Charge:
    units = pool.layers * rule.max_requests
    return Charge(
        name=f"{pool.name} of {rule.max_requests} requests",
        units=units,
        unit_bytes=pool.page_bytes,
        useful_bytes=units * pool.row_bytes * min(pool.page_rows, pool.reach_tokens),
        grows=False,
    )


def _window_charge(geometry: CacheGeometry, slots: int, slot_bytes: float) -> Charge:
    window = geometry.window
    return Charge(
        name=f"window slots ({slots:,} tokens)",
        units=slots // window.page_tokens,
        unit_bytes=round(slot_bytes * window.page_tokens),
        useful_bytes=0,
        grows=False,
    )


def _limits(
    geometry: CacheGeometry,
    rule: WindowSizing,
    full_tokens: int,
    slots: int,
    held: int,
    load: Load,
) -> tuple[Limit, ...]:
    window_tokens = request_window_tokens(geometry)
    # While a prompt is taken in, its chunk needs slots too, whoever else is decoding.
    free = max(0, slots - (load.in_flight_tokens if load.in_flight_tokens > 1 else 0))
    return (
        Limit(
            name="full tokens",
            requests=full_tokens / held,
            about=f"{full_tokens:,} full tokens, {held:,} a request",
        ),
        Limit(
            name="window slots",
            requests=free / window_tokens,
            about=f"{slots:,} window slots, {window_tokens:,} a request and "
            f"{load.in_flight_tokens:,} for the step in flight",
        ),
        Limit(
            name="max running requests",
            requests=float(rule.max_requests),
            about=f"the engine's limit of {rule.max_requests:,} requests",
        ),
    )


def _charges(
    geometry: CacheGeometry, rule: WindowSizing, load: Load, held: int
) -> tuple[Charge, ...]:
    window_pages = request_window_tokens(geometry) // geometry.window.page_tokens
    charges = []
    for pool in geometry.pools:
        if not pool.layers:
            continue
        pages = {
            "context": ceil_div(
                ceil_div(held, max(1, pool.page_tokens)), pool.ranks(load.context_parallel)
            ),
            "request": 1,
        }.get(pool.lives, window_pages)
        priced = _priced(pool, rule)
        charges.append(
            Charge(
                name=pool.name,
                units=pool.layers * pages,
                unit_bytes=round(priced.page_bytes * _draft_factor(geometry, load)),
                useful_bytes=pool.layers * pool.row_bytes * useful_rows(pool, load),
                grows=pool.lives == "context",
            )
        )
    return tuple(charges)
