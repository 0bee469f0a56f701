"""Request-pool rows, the request-to-token map and the pages behind it, as an engine keeps them.

A live request owns one row. `request_to_token[row, position]` is the token slot of a position: page
times page size plus the offset in the page. Slots of compressed pools follow from token slots by
division (a page of m-fold compressed entries holds page_tokens / m of them).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError

PAGE_MULTIPLE = 128


class RequestTable:
    """Rows, token map and free pages. `page_order` is the order in which pages are handed out."""

    def __init__(
        self,
        rows: int,
        max_tokens: int,
        *,
        page_tokens: int = 256,
        pages: int | None = None,
        page_order: Sequence[int] | None = None,
    ) -> None:
        if page_tokens < 1 or page_tokens % PAGE_MULTIPLE:
            raise InputError(
                f"page size must be a multiple of {PAGE_MULTIPLE} tokens (the least common "
                f"multiple of the compression ratios), but got {page_tokens}; try "
                f"{max(1, round(page_tokens / PAGE_MULTIPLE)) * PAGE_MULTIPLE}"
            )
        self.page_tokens = page_tokens
        self.pages_per_row = -(-max_tokens // page_tokens)
        self.pages = rows * self.pages_per_row if pages is None else pages
        order = range(self.pages) if page_order is None else page_order
        if sorted(order) != list(range(self.pages)):
            raise InputError(f"page order must name each of the {self.pages} pages once")
        self._free = list(order)[::-1]
        self._live: set[int] = set()
        self.rows = rows
        self.lengths = np.zeros(rows, dtype=np.int64)
        width = self.pages_per_row * page_tokens
        self.request_to_token: NDArray[np.int64] = np.full((rows, width), -1, dtype=np.int64)

    @property
    def token_slots(self) -> int:
        """Token slots of all pages."""
        return self.pages * self.page_tokens

    @property
    def free_pages(self) -> int:
        """Pages that no request owns."""
        return len(self._free)

    def admit(self, row: int | None = None) -> int:
        """Take a row (the lowest free one by default) for a new request."""
        free = [r for r in range(self.rows) if r not in self._live]
        if row is None:
            if not free:
                raise InputError(f"all {self.rows} request rows are taken; release one first")
            row = free[0]
        if row not in free:
            raise InputError(f"request row {row} is not free; free rows are {free}")
        self._live.add(row)
        return row

    def extend(self, row: int, tokens: int) -> None:
        """Grow a request, taking pages as its length needs them."""
        self._require_live(row)
        start, stop = int(self.lengths[row]), int(self.lengths[row]) + tokens
        if stop > self.request_to_token.shape[1]:
            raise InputError(
                f"row {row} would hold {stop} tokens, the map has {self.request_to_token.shape[1]} "
                f"({stop - self.request_to_token.shape[1]} short)"
            )
        needed = -(-stop // self.page_tokens) - -(-start // self.page_tokens)
        if needed > len(self._free):
            raise InputError(
                f"row {row} needs {needed} more pages of {self.page_tokens} tokens, only "
                f"{len(self._free)} of {self.pages} are free; release a request or add pages"
            )
        for index in range(-(-start // self.page_tokens), -(-stop // self.page_tokens)):
            first = index * self.page_tokens
            slots = self._free.pop() * self.page_tokens + np.arange(self.page_tokens)
            self.request_to_token[row, first : first + self.page_tokens] = slots
        self.lengths[row] = stop

    def release(self, row: int) -> None:
        """Return the row and its pages."""
        self._require_live(row)
        self._free += [int(page) for page in self.page_table(row)[::-1]]
        self.request_to_token[row] = -1
        self.lengths[row] = 0
        self._live.remove(row)

    def page_table(self, row: int) -> NDArray[np.int64]:
        """Pages of a request, in logical order."""
        count = -(-int(self.lengths[row]) // self.page_tokens)
        firsts = self.request_to_token[row, : count * self.page_tokens : self.page_tokens]
        return firsts // self.page_tokens

    def _require_live(self, row: int) -> None:
        if row not in self._live:
            raise InputError(f"request row {row} is not live; live rows are {sorted(self._live)}")
