"""What an allocator tells the arrays behind its slots, where there are any."""

from __future__ import annotations

from typing import Protocol


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
