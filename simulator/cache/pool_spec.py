"""Which compressed pools there are, and whether each has pages of its own.

A pool without a page size of its own follows the token pages ("virtual pages", as SGLang has
them): its slot is the token slot divided by the ratio. A pool with one keeps its own pages and page
table (a sidecar, as Ascend has for C128).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.basis.errors import InputError, unknown_name
from workloads.state_layout import Every, StateLayout

TOKEN = "token"
"""The pool of token pages, which every request has; it holds no bytes of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """A pool with one entry every `ratio` tokens.

    `page_tokens` are the tokens that a page of its own stands for (None: follows the token pages);
    `pages` how many there are (None: enough for every row at its longest), `page_order` the order
    in which they are handed out (None: ascending).
    """

    name: str
    ratio: int
    page_tokens: int | None = None
    pages: int | None = None
    page_order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.name == TOKEN:
            raise InputError(f"a compressed pool cannot be named {TOKEN!r}: token pages are")
        if self.page_tokens is not None:
            check_page(self.name, self.ratio, self.page_tokens)
        elif self.pages is not None:
            raise InputError(
                f"pool {self.name} follows the token pages, so it cannot have {self.pages} pages "
                "of its own; give page_tokens too, or leave its pages out"
            )


V4_POOLS = (
    PoolSpec(name="c4", ratio=4),
    PoolSpec(name="c4_index", ratio=4),
    PoolSpec(name="c128", ratio=128),
)


def page_multiple(pools: Iterable[PoolSpec]) -> int:
    """Tokens of the smallest page that ends no pool's entry in the middle."""
    return math.lcm(*(pool.ratio for pool in pools))


def check_page(pool: str, ratio: int, page_tokens: int) -> None:
    """Refuse a page that does not hold a whole number of entries, one or more."""
    if page_tokens < ratio:
        raise InputError(
            f"a page of pool {pool} stands for {page_tokens} tokens, but one entry for {ratio} "
            f"({ratio - page_tokens} short): it cannot hold one entry; give {ratio} or a multiple"
        )
    if page_tokens % ratio:
        below = page_tokens // ratio * ratio
        raise InputError(
            f"a page of pool {pool} stands for {page_tokens} tokens, which is "
            f"{page_tokens / ratio:g} entries of {ratio} tokens; give {below} or {below + ratio}"
        )


def pools_of(
    layout: StateLayout,
    page_tokens: Mapping[str, int] | None = None,
    pages: Mapping[str, int] | None = None,
) -> tuple[PoolSpec, ...]:
    """Compressed pools of a model; `page_tokens` and `pages` by pool where they are its own."""
    found = {
        region.pool: PoolSpec(name=region.pool, ratio=region.growth.tokens)
        for region in layout.regions
        if isinstance(region.growth, Every)
    }
    return with_pages(tuple(found.values()), page_tokens or {}, pages or {})


def with_pages(
    pools: Sequence[PoolSpec], page_tokens: Mapping[str, int], pages: Mapping[str, int]
) -> tuple[PoolSpec, ...]:
    """The pools, those that are named with pages of their own."""
    names = [pool.name for pool in pools]
    for name in (*page_tokens, *pages):
        if name not in names:
            raise InputError(unknown_name("compressed pool", name, names))
    return tuple(
        replace(pool, page_tokens=page_tokens.get(pool.name), pages=pages.get(pool.name))
        for pool in pools
    )
