"""What requests take of a replica's cache memory: pools as countable resources.

A resource has a capacity in units (bytes, blocks, tokens, slots). A request takes a fixed number of
units and, for every page of its context that it has begun, some more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.capacity.block_fit import block_bytes, request_blocks
from simulator.capacity.fit import Fit
from simulator.capacity.request_pages import Load
from simulator.capacity.sizing import fit_requests
from simulator.capacity.window_fit import request_window_tokens
from simulator.engine.physical_layout import CacheGeometry
from simulator.engine.sizing_rules import BlockSizing, WindowSizing

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """`pages`: (tokens of a page, units of a page) of each pool that grows with the context."""

    name: str
    capacity: float
    fixed: float
    pages: tuple[tuple[int, float], ...] = ()

    def units(self, context_tokens: int) -> float:
        """Units of one request."""
        if not self.pages:
            return self.fixed
        return self.fixed + sum(u * -(-context_tokens // tokens) for tokens, u in self.pages)

    def units_of_all(self, contexts: Floats) -> float:
        """Units of many requests."""
        if not self.pages or not len(contexts):
            return self.fixed * len(contexts)
        grown = sum(float(np.ceil(contexts / tokens).sum()) * u for tokens, u in self.pages)
        return self.fixed * len(contexts) + grown

    @property
    def units_per_token(self) -> float:
        """Units of a further token, pages full."""
        return sum(units / tokens for tokens, units in self.pages)

    @property
    def most_fixed(self) -> float:
        """Units of a request beside those of its full pages: one more page of every pool."""
        return self.fixed + sum(units for _, units in self.pages)


def resources_of(
    geometry: CacheGeometry, budget_bytes: int, load: Load, max_requests: int
) -> tuple[Resource, ...]:
    """Resources of one rank: its pools under the layout's rule, and its number of requests.

    `load` gives the draft tokens and the tokens in flight; its context does not matter.
    """
    fit = fit_requests(geometry, budget_bytes, load)
    rule = geometry.layout.sizing
    pools: tuple[Resource, ...]
    if isinstance(rule, BlockSizing):
        pools = (_blocks(geometry, rule, budget_bytes, load),)
    elif isinstance(rule, WindowSizing):
        pools = _slots(geometry, fit)
    else:
        pools = (_bytes(geometry, fit, budget_bytes, load),)
    slots = Resource(name="requests", capacity=float(max_requests), fixed=1.0)
    return (*pools, slots)


def _blocks(geometry: CacheGeometry, rule: BlockSizing, budget_bytes: int, load: Load) -> Resource:
    decoding = Load(context_tokens=1 << 40, in_flight_tokens=1 + load.draft_tokens)
    full = [
        g
        for g in rule.groups
        if any(pool.lives == "context" for pool in geometry.of_kinds(*g.pools))
    ]
    blocks = request_blocks(geometry, rule, decoding)
    growing = {group.name for group in full}
    fixed = sum(count for name, count in blocks.items() if name not in growing)
    pages = tuple(
        (min(pool.page_tokens for pool in geometry.of_kinds(*group.pools)), 1.0)
        for group in full
        if group.name in blocks
    )
    # One prompt at a time is taken in; until its step is over, its tokens hold pages of all pools.
    taking = Load(context_tokens=1 << 40, in_flight_tokens=load.in_flight_tokens)
    in_flight = request_blocks(geometry, rule, taking)
    extra = sum(max(0, in_flight[name] - count) for name, count in blocks.items())
    capacity = budget_bytes // block_bytes(geometry, rule) - extra
    return Resource(name="blocks", capacity=float(capacity), fixed=float(fixed), pages=pages)


def _slots(geometry: CacheGeometry, fit: Fit) -> tuple[Resource, ...]:
    page = geometry.layout.page_tokens
    window = next(limit for limit in fit.limits if limit.name == "window slots")
    own = request_window_tokens(geometry)
    tokens = Resource(
        name="full tokens", capacity=float(fit.tokens), fixed=0.0, pages=((page, float(page)),)
    )
    slots = Resource(name="window slots", capacity=window.requests * own, fixed=float(own))
    return tokens, slots


def _bytes(geometry: CacheGeometry, fit: Fit, budget_bytes: int, load: Load) -> Resource:
    pages = tuple(
        (pool.page_tokens, pool.layers * pool.page_bytes / pool.ranks(load.context_parallel))
        for pool in geometry.pools
        if pool.lives == "context" and pool.layers
    )
    return Resource(
        name="cache bytes",
        capacity=float(budget_bytes - fit.reserved_bytes),
        fixed=float(fit.fixed_bytes),
        pages=pages,
    )


class Ledger:
    """Units in use. Requests are entered with what they take; decoding ones are counted apart."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self.resources = tuple(resources)
        self.held = [0.0] * len(self.resources)
        # (units of a token, most other units of a request, capacity) of each; a hair of slack
        # covers the rounding of sums.
        self._bounds = [
            (r.units_per_token, r.most_fixed, r.capacity * (1 - 1e-9)) for r in self.resources
        ]

    def fits(self, context_tokens: int, decoding: Floats) -> str | None:
        """None where one more request of a context fits beside all others, else what is short."""
        for i, resource in enumerate(self.resources):
            used = self.held[i] + resource.units_of_all(decoding)
            if used + resource.units(context_tokens) > resource.capacity:
                return resource.name
        return None

    def hold(self, context_tokens: int, sign: int = 1) -> None:
        """Enter (or with -1 strike out) a request that does not decode."""
        for i, resource in enumerate(self.resources):
            self.held[i] += sign * resource.units(context_tokens)

    def steps_that_fit(self, decoding: Floats, tokens_per_step: float, most: int) -> int:
        """Decode steps, up to `most`, after which all decoding requests still fit."""
        if self._surely_fit_after(decoding, tokens_per_step * most):
            return most
        if self._fit_after(decoding, tokens_per_step * most):
            return most
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self._fit_after(decoding, tokens_per_step * middle):
                low = middle
            else:
                high = middle - 1
        return low

    def _surely_fit_after(self, decoding: Floats, tokens: float) -> bool:
        """Whether requests fit even with a page more of each pool than their contexts fill."""
        count = len(decoding)
        context = float(decoding.sum()) + count * tokens
        return all(
            held + context * of_token + count * most_fixed <= capacity
            for held, (of_token, most_fixed, capacity) in zip(self.held, self._bounds, strict=True)
        )

    def _fit_after(self, decoding: Floats, tokens: float) -> bool:
        return all(
            self.held[i] + resource.units_of_all(decoding + tokens) <= resource.capacity
            for i, resource in enumerate(self.resources)
        )

    def shares(self, decoding: Floats) -> dict[str, float]:
        """Share of every resource in use."""
        return {
            resource.name: (self.held[i] + resource.units_of_all(decoding)) / resource.capacity
            for i, resource in enumerate(self.resources)
            if resource.capacity
        }
