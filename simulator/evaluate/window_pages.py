"""Pages of the sliding window with a table of their own, one for all layers of a request.

A page is returned at the start of the first step whose tokens cannot see any of its rows, and is
handed out again behind all free ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from workloads.op import Array

NO_PAGE = -1


class WindowPages:
    """Page tables of all request rows. `order` is the order in which pages are handed out.

    `reach` tokens up to and with a query are seen by it. `pages` default to as many as rows of
    `max_tokens` need.
    """

    def __init__(
        self,
        rows: int,
        max_tokens: int,
        reach: int,
        page_tokens: int,
        *,
        pages: int | None = None,
        order: Sequence[int] | None = None,
    ) -> None:
        if page_tokens < 1:
            raise InputError(
                f"window pages of {page_tokens} tokens are asked for, expected 1 or more"
            )
        count = rows * -(-max_tokens // page_tokens) if pages is None else pages
        if order is not None and sorted(order) != list(range(count)):
            raise InputError(
                f"the order of window pages names {len(order)} pages, expected each of {count} "
                "pages once"
            )
        self.page_tokens, self.reach, self.pages = page_tokens, reach, count
        self.free = deque(range(count) if order is None else order)
        self.tables: dict[int, list[int]] = {}

    @property
    def slots(self) -> int:
        """Rows of all pages."""
        return self.pages * self.page_tokens

    def first_page(self, past: int) -> int:
        """Place of the first page that a query behind `past` tokens may look at."""
        return max(0, past - self.reach + 1) // self.page_tokens

    def grow(self, row: int, past: int, tokens: int) -> list[int]:
        """Hold pages for all tokens that a step needs; returns those that were given back."""
        held, gone = self.tables.setdefault(row, []), []
        for place in range(min(self.first_page(past), len(held))):
            if held[place] != NO_PAGE:
                gone.append(held[place])
                held[place] = NO_PAGE
        while len(held) * self.page_tokens < tokens:
            if not self.free:
                raise InputError(
                    f"row {row} needs a window page for token {len(held) * self.page_tokens:,}, "
                    f"but all {self.pages:,} are taken; shorten the step or give more pages"
                )
            held.append(self.free.popleft())
        self.free.extend(gone)
        return gone

    def shorten(self, row: int, tokens: int) -> list[int]:
        """Give back pages that hold nothing of the first `tokens` tokens."""
        held, keep = self.tables.get(row, []), -(-tokens // self.page_tokens)
        gone = [page for page in held[keep:] if page != NO_PAGE]
        del held[keep:]
        self.free.extend(gone)
        return gone

    def release(self, row: int) -> list[int]:
        """Give back all pages of a row."""
        return self.shorten(row, 0)

    def slots_of(self, row: int, positions: Array) -> NDArray[np.int64]:
        """Slots of positions; one without a page is a fault of the caller."""
        table = np.array(self.tables.get(row, []), dtype=np.int64)
        places = np.asarray(positions) // self.page_tokens
        if len(places) and (places.max() >= len(table) or (table[places] == NO_PAGE).any()):
            raise IndexError(f"row {row} has no window page at some of {positions}")
        return table[places] * self.page_tokens + np.asarray(positions) % self.page_tokens

    def check(self) -> None:
        """Raise AssertionError where two places name one page, or a free page is held."""
        held = [page for table in self.tables.values() for page in table if page != NO_PAGE]
        assert len(set(held)) == len(held), f"a window page is held twice: {sorted(held)}"
        assert not set(held) & set(self.free), "a window page is held and free"
