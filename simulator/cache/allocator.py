"""Who holds which pages and slots: admit, extend, fork, shorten, preempt and release requests.

One allocator serves all layers of a rank (they advance together). A live request owns a row: its
state slot, and a table of pages in every pool. Forks share pages and copy on write; their state is
copied at once. Storage is optional: the evaluator attaches its arrays, a scheduler nothing. What
cannot be served raises and changes nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError
from simulator.cache.block_pool import BlockPool, OutOfPagesError
from simulator.cache.page_tables import Claim, Ints, PageCopy, PageTables, Span
from simulator.cache.pool_spec import TOKEN, V4_POOLS, PoolSpec, check_page


class StateSlots:
    """`count` slots, numbered from 0; the lowest free one is handed out first.

    A live request owns one, its row of the request pool, for what it keeps whatever its length:
    window rings and compressor tails. A slot is taken and freed whole.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise InputError(f"there must be 1 request row or more, but got {count}")
        self.count = count
        self._live: set[int] = set()
        self._heap = list(range(count))  # free slots, and some that were taken by number

    @property
    def live(self) -> frozenset[int]:
        """Slots in use."""
        return frozenset(self._live)

    @property
    def free(self) -> int:
        """Slots that nobody owns."""
        return self.count - len(self._live)

    @property
    def ready(self) -> frozenset[int]:
        """Free slots, as the list of those that can be handed out has them."""
        return frozenset(self._heap) - self._live

    def take(self, slot: int | None = None) -> int:
        """The lowest free slot, or a certain one."""
        if slot is None:
            if not self.free:
                raise InputError(f"all {self.count} request rows are taken; release one first")
            slot = heapq.heappop(self._heap)
            while slot in self._live:
                slot = heapq.heappop(self._heap)
        elif not 0 <= slot < self.count or slot in self._live:
            free = [s for s in range(self.count) if s not in self._live]
            raise InputError(f"request row {slot} is not free; free rows are {free}")
        self._live.add(slot)
        return slot

    def release(self, slot: int) -> None:
        """Return a slot."""
        self.require_live(slot)
        self._live.remove(slot)
        heapq.heappush(self._heap, slot)

    def require_live(self, slot: int) -> None:
        """Raise unless the slot is in use."""
        if slot not in self._live:
            raise InputError(f"request row {slot} is not live; live rows are {sorted(self._live)}")


class Storage(Protocol):
    """Arrays behind the slots of an allocator."""

    def copy_page(self, pool: str, source: int, target: int, entries: int) -> None:
        """Copy the first `entries` slots of a compressed pool's page to those of another."""
        ...

    def copy_state(self, source: int, target: int) -> None:
        """Copy a row's rings and tails to another row."""
        ...

    def forget_page(self, pool: str, page: int) -> None:
        """A page has become free."""
        ...

    def forget_state(self, slot: int) -> None:
        """A state slot has become free."""
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """What extending took: pages by pool, and the copies on write among them."""

    pages: dict[str, int]
    copies: tuple[PageCopy, ...]


class Allocator:
    """Rows, state slots and pages. `page_order` is the order in which token pages are handed out.

    `pages` None gives every row the token pages of `max_tokens`. With `debug`, every operation
    ends with `check_invariants` (time proportional to all pages).
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
        debug: bool = False,
    ) -> None:
        _check_sizes(max_tokens, page_tokens, pools)
        self.slots = StateSlots(rows)
        self.max_tokens = max_tokens
        self.page_tokens = page_tokens
        self.pools = {pool.name: pool for pool in pools}
        self.lengths: NDArray[np.int64] = np.zeros(rows, dtype=np.int64)
        self.tables: dict[str, PageTables] = {}
        self._debug = debug
        self._storages: list[Storage] = []
        self._add(TOKEN, 1, page_tokens, pages, page_order)
        for pool in pools:
            if pool.page_tokens is not None:
                self._add(pool.name, pool.ratio, pool.page_tokens, pool.pages, pool.page_order)

    def _add(
        self,
        name: str,
        ratio: int,
        page_tokens: int,
        pages: int | None,
        order: Sequence[int] | None,
    ) -> None:
        count = self.rows * -(-self.max_tokens // page_tokens) if pages is None else pages
        blocks = BlockPool(count, name=name, order=order)
        self.tables[name] = PageTables(blocks, self.rows, ratio, page_tokens)

    @property
    def rows(self) -> int:
        """Requests that can be live at once."""
        return self.slots.count

    def attach(self, storage: Storage) -> None:
        """Let copies and frees reach arrays, too."""
        self._storages.append(storage)

    def admit(self, row: int | None = None, tokens: int = 0) -> int:
        """Take a row (the lowest free one by default) and pages for its first tokens."""
        row = self.slots.take(row)
        if tokens:
            try:
                self.extend(row, tokens)
            except InputError:
                self.slots.release(row)
                raise
        self._checked()
        return row

    def extend(self, row: int, tokens: int) -> Taken:
        """Grow a request."""
        return self.extend_all([(row, tokens)])

    def extend_all(self, additions: Sequence[tuple[int, int]]) -> Taken:
        """Grow requests by (row, tokens), all of them or none. A row may appear once."""
        claims = self._claims(additions)
        for name, wanted in claims.items():
            self._refuse_shortage(name, wanted)
        for row, tokens in additions:
            self.lengths[row] += tokens
        taken = self._commit(claims)
        self._checked()
        return taken

    def shortage(self, additions: Sequence[tuple[int, int]]) -> dict[str, int]:
        """Pages that would be missing by pool; empty when `extend_all` can be served."""
        short = {
            name: sum(claim.pages for claim in wanted) - self.tables[name].blocks.free
            for name, wanted in self._claims(additions).items()
        }
        return {name: pages for name, pages in short.items() if pages > 0}

    def fork(self, row: int, child: int | None = None) -> int:
        """A row (the lowest free one by default) that shares all pages and has a copy of state."""
        self.slots.require_live(row)
        child = self.slots.take(child)
        for tables in self.tables.values():
            tables.share(row, child)
        self.lengths[child] = self.lengths[row]
        for storage in self._storages:
            storage.copy_state(row, child)
        self._checked()
        return child

    def shorten(self, row: int, tokens: int) -> None:
        """Return the pages beyond `tokens`, as after draft tokens that were refused.

        The state slot keeps what it holds: rings must be longer by the tokens taken back.
        """
        self.slots.require_live(row)
        length = int(self.lengths[row])
        if not 0 <= tokens <= length:
            raise InputError(f"row {row} holds {length} tokens, it cannot be cut to {tokens}")
        for name, tables in self.tables.items():
            page = tables.cut_shared(row, length, tokens)
            if page is not None:
                raise InputError(
                    f"row {row} cannot be cut from {length} to {tokens} tokens: its {name} page "
                    f"{page} is shared with a fork; cut before the fork"
                )
        self._return_pages(row, tokens)
        self._checked()

    def preempt(self, row: int) -> int:
        """Return all that a request holds; the tokens to run again once it is admitted again."""
        tokens = int(self.lengths[row])
        self.release(row)
        return tokens

    def release(self, row: int) -> None:
        """Return the row, its state slot and its pages."""
        self.slots.require_live(row)
        self._return_pages(row, 0)
        self.slots.release(row)
        for storage in self._storages:
            storage.forget_state(row)
        self._checked()

    def pages_of(self, row: int, pool: str = TOKEN) -> Ints:
        """Pages of a request in logical order; those of the token pages for a pool that follows."""
        return np.array(self._tables_of(pool).rows[row], dtype=np.int64)

    def free_pages(self, pool: str = TOKEN) -> int:
        """Pages that nobody holds."""
        return self._tables_of(pool).blocks.free

    def page_entries(self, pool: str) -> int:
        """Slots of a page of a compressed pool."""
        return self._tables_of(pool).page_tokens // self._ratio(pool)

    def pool_slots(self, pool: str) -> int:
        """Slots of all pages of a pool."""
        return self._tables_of(pool).blocks.pages * self.page_entries(pool)

    def entry_slots(self, pool: str, row: int, entries: Ints) -> Ints:
        """Slots of logical entries of a request (of positions, in the token pool)."""
        if pool in self.tables:
            return self.tables[pool].entry_slots(row, entries)
        ratio = self._ratio(pool)
        return self.tables[TOKEN].entry_slots(row, entries * ratio) // ratio

    def check_invariants(self) -> None:
        """Raise AssertionError with every rule that is broken."""
        found = violations(self)
        if found:
            raise AssertionError("; ".join(found))

    def _checked(self) -> None:
        if self._debug:
            self.check_invariants()

    def _tables_of(self, pool: str) -> PageTables:
        return self.tables.get(pool, self.tables[TOKEN])

    def _ratio(self, pool: str) -> int:
        return 1 if pool == TOKEN else self.pools[pool].ratio

    def _claims(self, additions: Sequence[tuple[int, int]]) -> dict[str, list[Claim]]:
        spans = []
        held = -(-self.max_tokens // self.page_tokens) * self.page_tokens
        for row, tokens in additions:
            self.slots.require_live(row)
            start = int(self.lengths[row])
            stop = start + tokens
            if tokens < 0:
                raise InputError(f"row {row} cannot grow by {tokens} tokens; give 0 or more")
            if stop > held:
                raise InputError(
                    f"row {row} would hold {stop} tokens, the map has {held} ({stop - held} short)"
                )
            spans.append(Span(row, start, stop))
        if len({span.row for span in spans}) != len(spans):
            rows = [span.row for span in spans]
            raise InputError(f"a request may appear once in a step, but rows {rows} were given")
        return {name: tables.claims(spans) for name, tables in self.tables.items()}

    def _refuse_shortage(self, name: str, claims: Sequence[Claim]) -> None:
        needed = sum(claim.pages for claim in claims)
        tables = self.tables[name]
        free = tables.blocks.free
        if needed <= free:
            return
        who = f"row {claims[0].row} needs" if len(claims) == 1 else f"{len(claims)} rows need"
        what = "pages" if name == TOKEN else f"{name} pages"
        raise OutOfPagesError(
            f"{who} {needed} more {what} of {tables.page_tokens} tokens, only {free} of "
            f"{tables.blocks.pages} are free; release a request or add pages",
            pool=name,
            needed_pages=needed,
            free_pages=free,
        )

    def _commit(self, claims: dict[str, list[Claim]]) -> Taken:
        copies = [
            copy
            for name, wanted in claims.items()
            for copy in map(self.tables[name].commit, wanted)
            if copy is not None
        ]
        made = tuple(one for copy in copies for one in self._stored_copies(copy))
        for copy in made:
            for storage in self._storages:
                storage.copy_page(copy.pool, copy.source, copy.target, copy.entries)
        return Taken({n: sum(c.pages for c in wanted) for n, wanted in claims.items()}, made)

    def _stored_copies(self, copy: PageCopy) -> list[PageCopy]:
        """A token page holds nothing itself: its copy is one in every pool that follows it."""
        if copy.pool != TOKEN:
            return [copy]
        return [
            PageCopy(name, copy.source, copy.target, copy.entries // self._ratio(name))
            for name in self._pools_on(TOKEN)
        ]

    def _return_pages(self, row: int, tokens: int) -> None:
        for name, tables in self.tables.items():
            freed = tables.shorten(row, tokens)
            for pool in self._pools_on(name):
                for storage in self._storages:
                    for page in freed:
                        storage.forget_page(pool, page)
        self.lengths[row] = tokens

    def _pools_on(self, name: str) -> list[str]:
        """Compressed pools that live on the pages of a pool."""
        return [p for p in self.pools if p not in self.tables] if name == TOKEN else [name]


def _check_sizes(max_tokens: int, page_tokens: int, pools: Sequence[PoolSpec]) -> None:
    if max_tokens < 1:
        raise InputError(f"a request must be allowed 1 token or more, but got {max_tokens}")
    if page_tokens < 1:
        raise InputError(f"a page stands for 1 token or more, but got {page_tokens}")
    names = [pool.name for pool in pools]
    if len(set(names)) != len(names):
        raise InputError(f"every pool needs a name of its own, but got {', '.join(names)}")
    for pool in pools:
        if pool.page_tokens is None:
            check_page(pool.name, pool.ratio, page_tokens)


def violations(allocator: Allocator) -> list[str]:
    """A sentence for every broken rule."""
    found = list(_rows(allocator))
    for tables in allocator.tables.values():
        found += _counts(tables)
        found += _coverage(allocator, tables)
        found += _owners(allocator, tables)
    return found


def _rows(allocator: Allocator) -> Iterator[str]:
    """A row that is not live holds nothing and can be taken."""
    slots = allocator.slots
    if not slots.live <= set(range(slots.count)):
        yield f"rows {sorted(slots.live)} are live, but there are only {slots.count}"
    if lost := set(range(slots.count)) - slots.live - slots.ready:
        yield f"rows {sorted(lost)} are neither live nor free"
    for row in range(slots.count):
        if row in slots.live:
            continue
        if allocator.lengths[row]:
            yield f"row {row} is free, but holds {allocator.lengths[row]} tokens"
        for name, tables in allocator.tables.items():
            if tables.rows[row]:
                yield f"row {row} is free, but holds {name} pages {tables.rows[row]}"


def _counts(tables: PageTables) -> Iterator[str]:
    """References are the tables that list a page; free pages are those that no table lists."""
    blocks = tables.blocks
    listed = [0] * blocks.pages
    for row, table in enumerate(tables.rows):
        if len(set(table)) != len(table):
            yield f"row {row} lists a {tables.name} page twice: {table}"
        for page in table:
            listed[page] += 1
    for page, count in enumerate(listed):
        if blocks.references[page] != count:
            yield (
                f"{tables.name} page {page} counts {blocks.references[page]} references, "
                f"but {count} tables list it"
            )
    free = sorted(blocks.free_list)
    unlisted = [page for page, count in enumerate(listed) if not count]
    if free != unlisted:
        yield f"free {tables.name} pages are {free}, but {unlisted} are in no table"


def _coverage(allocator: Allocator, tables: PageTables) -> Iterator[str]:
    """Every pool's table covers exactly the tokens of its request."""
    for row in sorted(allocator.slots.live & set(range(allocator.rows))):
        length = int(allocator.lengths[row])
        if len(tables.rows[row]) != tables.pages_for(length):
            yield (
                f"row {row} has {len(tables.rows[row])} {tables.name} pages for {length} tokens, "
                f"but they take {tables.pages_for(length)}"
            )


def _owners(allocator: Allocator, tables: PageTables) -> Iterator[str]:
    """Who shares a page has it at the same place, filled alike: nobody wrote since they parted."""
    seen: dict[int, tuple[int, int, int]] = {}
    for row, table in enumerate(tables.rows):
        for place, page in enumerate(table):
            filled = tables.filled(int(allocator.lengths[row]), place)
            other, *theirs = seen.setdefault(page, (row, place, filled))
            if theirs != [place, filled]:
                yield (
                    f"{tables.name} page {page} has two owners: row {other} at place {theirs[0]} "
                    f"with {theirs[1]} entries, row {row} at place {place} with {filled}"
                )
