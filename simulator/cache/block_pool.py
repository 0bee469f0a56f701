"""Pages of one pool: a reference count each, and the free ones in the order they are handed out.

A page may be listed by several requests; who wants to write to a shared one gets a page of its own
first (copy on write). The pool knows no bytes: whoever stores something copies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simulator.basis.errors import InputError


class OutOfPagesError(InputError):
    """A pool has fewer free pages than are wanted; nothing was changed."""

    def __init__(self, message: str, *, pool: str, needed_pages: int, free_pages: int) -> None:
        super().__init__(message)
        self.pool = pool
        self.needed_pages = needed_pages
        self.free_pages = free_pages

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.message, self.pool, self.needed_pages, self.free_pages))


def _rebuild(message: str, pool: str, needed_pages: int, free_pages: int) -> OutOfPagesError:
    return OutOfPagesError(message, pool=pool, needed_pages=needed_pages, free_pages=free_pages)


class BlockPool:
    """`pages` pages, numbered from 0; `order` is the order in which they are handed out first."""

    def __init__(self, pages: int, *, name: str = "pages", order: Sequence[int] | None = None):
        if pages < 0:
            raise InputError(f"a pool has 0 pages or more, but got {pages}")
        given = range(pages) if order is None else order
        if sorted(given) != list(range(pages)):
            raise InputError(f"page order must name each of the {pages} pages once")
        self.name = name
        self.pages = pages
        self.references = [0] * pages
        self._free = list(given)[::-1]

    @property
    def free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    @property
    def free_list(self) -> tuple[int, ...]:
        """Free pages; the last is handed out next."""
        return tuple(self._free)

    def take(self, count: int) -> list[int]:
        """Free pages, held once each from now on."""
        if count > self.free:
            raise OutOfPagesError(
                f"{count} more {self.name} are needed, only {self.free} of {self.pages} are free; "
                f"release {count - self.free} or make the pool larger",
                pool=self.name,
                needed_pages=count,
                free_pages=self.free,
            )
        taken = [self._free.pop() for _ in range(count)]
        for page in taken:
            self.references[page] = 1
        return taken

    def share(self, pages: Iterable[int]) -> None:
        """One more holder of each page."""
        for page in pages:
            assert self.references[page] > 0, f"page {page} of {self.name} is free"
            self.references[page] += 1

    def drop(self, pages: Sequence[int]) -> list[int]:
        """One holder less of each page; returns those that are free now.

        The first of the freed pages is the next to be handed out.
        """
        freed = []
        for page in pages:
            assert self.references[page] > 0, f"page {page} of {self.name} is free already"
            self.references[page] -= 1
            if not self.references[page]:
                freed.append(page)
        self._free += freed[::-1]
        return freed

    def is_shared(self, page: int) -> bool:
        """Held more than once."""
        return self.references[page] > 1

    def writable(self, page: int) -> int:
        """Copy on write: the page itself for its only holder, else a page taken in its stead."""
        if not self.is_shared(page):
            return page
        (own,) = self.take(1)
        self.drop([page])
        return own
