"""The rules that an allocator keeps after every operation, and which of them are broken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulator.cache.page_tables import PageTables

if TYPE_CHECKING:
    from simulator.cache.allocator import Allocator


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
