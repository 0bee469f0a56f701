"""Request-pool rows and the request-to-token map, as an engine keeps them, over the allocator.

A live request owns one row. `request_to_token[row, position]` is the token slot of a position: page
times page size plus the offset in the page; -1 where the request holds no page. Slots of compressed
pools follow from token slots by division, or from a page table of the pool's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from simulator.cache.allocator import Allocator
from simulator.cache.pool_spec import TOKEN, V4_POOLS, PoolSpec, page_multiple, with_pages


class RequestTable:
    """Rows, token map and pages. `page_order` is the order in which token pages are handed out.

    `pool_page_tokens` gives compressed pools pages of their own, by name; the others follow the
    token pages. `debug` checks the allocator's invariants after every operation.
    """

    def __init__(
        self,
        rows: int,
        max_tokens: int,
        *,
        page_tokens: int = 256,
        pages: int | None = None,
        page_order: Sequence[int] | None = None,
        pools: Sequence[PoolSpec] = V4_POOLS,
        pool_page_tokens: Mapping[str, int] | None = None,
        debug: bool = False,
    ) -> None:
        least = page_multiple(pools)
        if page_tokens < 1 or page_tokens % least:
            raise InputError(
                f"page size must be a multiple of {least} tokens (the least common "
                f"multiple of the compression ratios), but got {page_tokens}; try "
                f"{max(1, round(page_tokens / least)) * least}"
            )
        self.page_tokens = page_tokens
        self.pages_per_row = -(-max_tokens // page_tokens)
        self.allocator = Allocator(
            rows,
            max_tokens,
            page_tokens=page_tokens,
            pages=pages,
            page_order=page_order,
            pools=with_pages(pools, pool_page_tokens or {}, {}) if pool_page_tokens else pools,
            debug=debug,
        )
        width = self.pages_per_row * page_tokens
        self.request_to_token: NDArray[np.int64] = np.full((rows, width), -1, dtype=np.int64)

    @property
    def rows(self) -> int:
        """Requests that can be live at once."""
        return self.allocator.rows

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of every row's request [rows]."""
        return self.allocator.lengths

    @property
    def pages(self) -> int:
        """Token pages, free and held."""
        return self.token_slots // self.page_tokens

    @property
    def token_slots(self) -> int:
        """Token slots of all pages."""
        return self.allocator.pool_slots(TOKEN)

    @property
    def free_pages(self) -> int:
        """Token pages that no request holds."""
        return self.allocator.free_pages()

    def admit(self, row: int | None = None) -> int:
        """Take a row (the lowest free one by default) for a new request."""
        return self.allocator.admit(row)

    def extend(self, row: int, tokens: int) -> None:
        """Grow a request, taking pages as its length needs them."""
        self.extend_all([(row, tokens)])

    def extend_all(self, additions: Sequence[tuple[int, int]]) -> None:
        """Grow requests by (row, tokens), all of them or none."""
        starts = {row: int(self.lengths[row]) for row, _ in additions if 0 <= row < self.rows}
        self.allocator.extend_all(additions)
        for row, start in starts.items():
            self._map_pages(row, start // self.page_tokens)

    def fork(self, row: int, child: int | None = None) -> int:
        """A row (the lowest free one by default) that goes on from where this one stands."""
        child = self.allocator.fork(row, child)
        self.request_to_token[child] = self.request_to_token[row]
        return child

    def shorten(self, row: int, tokens: int) -> None:
        """Return what lies beyond that many tokens, as after refused draft tokens."""
        self.allocator.shorten(row, tokens)
        self.request_to_token[row, len(self.page_table(row)) * self.page_tokens :] = -1

    def preempt(self, row: int) -> int:
        """Return all that a request holds; the tokens to run again once it is admitted again."""
        tokens = self.allocator.preempt(row)
        self.request_to_token[row] = -1
        return tokens

    def release(self, row: int) -> None:
        """Return the row and its pages."""
        self.allocator.release(row)
        self.request_to_token[row] = -1

    def page_table(self, row: int, pool: str = TOKEN) -> NDArray[np.int64]:
        """Pages of a request, in logical order."""
        return self.allocator.pages_of(row, pool)

    def _map_pages(self, row: int, first: int) -> None:
        """Write the map from a place of the page table on: the page written into may be a copy."""
        pages = self.page_table(row)[first:]
        slots = pages[:, None] * self.page_tokens + np.arange(self.page_tokens)
        start = first * self.page_tokens
        self.request_to_token[row, start : start + slots.size] = slots.ravel()
