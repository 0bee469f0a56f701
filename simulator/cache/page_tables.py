"""Page tables of one pool: which pages hold each request's entries, in logical order.

A page stands for `page_tokens` tokens, that is `page_tokens` / `ratio` entries; a request takes it
with the first of those tokens, as engines do, though an entry is written with the last of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.cache.block_pool import BlockPool

Ints = NDArray[np.int64]


class Span(NamedTuple):
    """Tokens `start` up to `stop` that a request adds; a tuple, as a step makes one a request."""

    row: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Pages that a span wants: `copied` is the place of a shared page that it writes into."""

    row: int
    copied: int | None
    filled: int
    added: int

    @property
    def pages(self) -> int:
        """Pages to be taken."""
        return self.added + (self.copied is not None)


@dataclass(frozen=True, slots=True)
class PageCopy:
    """The first `entries` entries of a page copied to another, on write."""

    pool: str
    source: int
    target: int
    entries: int


class PageTables:
    """One pool's pages and every row's list of them."""

    def __init__(self, blocks: BlockPool, rows: int, ratio: int, page_tokens: int) -> None:
        self.name = blocks.name
        self.blocks = blocks
        self.ratio = ratio
        self.page_tokens = page_tokens
        self.rows: list[list[int]] = [[] for _ in range(rows)]

    @property
    def page_entries(self) -> int:
        """Entries of a page."""
        return self.page_tokens // self.ratio

    @property
    def slots(self) -> int:
        """Slots of all pages."""
        return self.blocks.pages * self.page_entries

    def pages_for(self, tokens: int) -> int:
        """Pages of a request of that length."""
        return -(-tokens // self.page_tokens)

    def filled(self, tokens: int, place: int) -> int:
        """Entries of the page at a place of the table that a request of that length has written."""
        return min(max(tokens // self.ratio - place * self.page_entries, 0), self.page_entries)

    def entry_slots(self, row: int, entries: Ints) -> Ints:
        """Slots of logical entries."""
        pages = np.array(self.rows[row], dtype=np.int64)
        return pages[entries // self.page_entries] * self.page_entries + entries % self.page_entries

    def claims(self, spans: Sequence[Span]) -> list[Claim]:
        """What spans need, in order; nothing changes. The last holder copies nothing."""
        parted: Counter[int] = Counter()
        claims = (self._claim(span, parted) for span in spans)
        return [claim for claim in claims if claim is not None]

    def _claim(self, span: Span, parted: Counter[int]) -> Claim | None:
        table = self.rows[span.row]
        added = -(-span.stop // self.page_tokens) - len(table)
        first = span.start // self.ratio
        place = first // self.page_entries
        if span.stop // self.ratio > first and place < len(table):
            page = table[place]
            if self.blocks.references[page] - parted[page] > 1:
                parted[page] += 1
                return Claim(span.row, place, self.filled(span.start, place), added)
        return Claim(span.row, None, 0, added) if added else None

    def commit(self, claim: Claim) -> PageCopy | None:
        """Take the pages of a claim; the copy that it makes necessary."""
        table, copy = self.rows[claim.row], None
        if claim.copied is not None:
            shared = table[claim.copied]
            table[claim.copied] = own = self.blocks.writable(shared)
            copy = PageCopy(self.name, shared, own, claim.filled)
        table += self.blocks.take(claim.added)
        return copy

    def share(self, row: int, child: int) -> None:
        """Let another row list all pages of this one."""
        self.blocks.share(self.rows[row])
        self.rows[child] = list(self.rows[row])

    def cut_shared(self, row: int, length: int, tokens: int) -> int | None:
        """A shared page that shortening would cut into, None when there is none."""
        kept = self.pages_for(tokens)
        if not kept:
            return None
        page, place = self.rows[row][kept - 1], kept - 1
        cut = self.filled(tokens, place) < self.filled(length, place)
        return page if cut and self.blocks.is_shared(page) else None

    def shorten(self, row: int, tokens: int) -> list[int]:
        """Return what lies beyond that many tokens; the pages that are free now."""
        table = self.rows[row]
        kept = self.pages_for(tokens)
        dropped = table[kept:]
        del table[kept:]
        return self.blocks.drop(dropped)
