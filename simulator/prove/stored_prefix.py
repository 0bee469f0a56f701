"""What a window policy keeps of a prompt on a disk, and what is found of a prefix again.

Objects, each named by a digest of all tokens up to its end, so that another prefix never finds it:

- `compressed`: entries and index keys of one page of tokens, whatever the policy;
- `checkpoint`: window rows of the last n_win tokens before a boundary of the policy, and overlap
  rows of its last 4 tokens;
- `rows`: window rows of every token of a page, and overlap rows of its last 4 (policy `full`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.cache.block_store import BlockStore
from simulator.prefix.window_parts import StoredSpan
from simulator.prefix.window_policy import WindowPolicy
from simulator.prove.cached_state import CachedState, Kind, Rows
from simulator.prove.replay_count import OVERLAP_ROWS

PAGE_TOKENS = 128
"""Tokens of a stored page: entries of every ratio are whole at its end."""

Tokens = NDArray[np.int64]


@dataclass(slots=True)
class StoredBytes:
    """Bytes of rows by kind; headers of files are not counted."""

    by_kind: dict[Kind, int] = field(
        default_factory=lambda: {"window": 0, "overlap": 0, "compressed": 0}
    )

    def add(self, kind: Kind, rows: Rows) -> None:
        """Count rows."""
        self.by_kind[kind] += sum(part.nbytes for part in rows.values())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Window and overlap rows found before a boundary: [first, boundary), and the last 4."""

    boundary: int
    first: int
    window: Rows
    overlap: Rows


@dataclass(frozen=True, slots=True)
class FoundPages:
    """Compressed entries of the first `tokens` tokens, by region."""

    tokens: int
    pages: tuple[Rows, ...]


class StoredPrefix:
    """One policy's objects of one prompt and its reply, `tokens` in all."""

    def __init__(
        self,
        policy: WindowPolicy,
        store: BlockStore,
        state: CachedState,
        tokens: Tokens,
        prompt_tokens: int,
    ) -> None:
        self.policy = policy
        self.store = store
        self.state = state
        self.tokens = tokens
        self.window = state.evaluator.config.sliding_window
        self.granule = max(PAGE_TOKENS, policy.granule_tokens or 0)
        span = StoredSpan(
            resumed=0,
            known=0,
            resend=prompt_tokens - 1,
            prompt=prompt_tokens,
            end=len(tokens),
        )
        self.kept = [at for at in policy.kept(span, self.granule) if at <= len(tokens)]
        self.written = StoredBytes()
        self.read = StoredBytes()
        self._open: dict[str, list[NDArray[Any]]] = {}

    def stops(self) -> set[int]:
        """Positions at which the prefill must pause, because rings forget what comes before."""
        stops = set(self.kept)
        if self.policy.everywhere:
            stops |= set(range(0, len(self.tokens), min(self.window, PAGE_TOKENS)))
            stops |= set(range(0, len(self.tokens), PAGE_TOKENS))
        return stops

    def visit(self, row: int, before: int, at: int) -> None:
        """Store what the policy keeps of a request that has just come from `before` to `at`."""
        if self.policy.everywhere:
            self._gather_rows(row, before, at)
        if at in self.kept:
            self._put_window("checkpoint", row, at, self._window_rows(row, at))

    def finish(self, row: int) -> None:
        """Store the compressed entries of all whole pages."""
        for at in range(PAGE_TOKENS, len(self.tokens) + 1, PAGE_TOKENS):
            rows = self.state.read("compressed", row, at - PAGE_TOKENS, at)
            self.written.add("compressed", rows)
            self.store.put(self._key("compressed", self.tokens, at), rows)

    def pages(self, tokens: Tokens) -> FoundPages:
        """Pages of a prefix up to the last granule of which every page is whole on the disk."""
        found: list[Rows] = []
        for at in range(PAGE_TOKENS, len(tokens) + 1, PAGE_TOKENS):
            rows = self._get("compressed", tokens, at)
            if rows is None:
                break
            found.append(rows)
        count = len(found) * PAGE_TOKENS // self.granule * self.granule
        used = found[: count // PAGE_TOKENS]
        for rows in used:
            self.read.add("compressed", rows)
        return FoundPages(count, tuple(used))

    def checkpoint(self, tokens: Tokens, limit: int) -> Checkpoint | None:
        """The last window that ends at or before `limit`; None where there is none."""
        found = self._from_rows(tokens, limit) if self.policy.everywhere else None
        for at in sorted((at for at in self.kept if at <= limit), reverse=True):
            if found is not None and found.boundary >= at:
                break
            rows = self._get("checkpoint", tokens, at)
            if rows is not None:
                first = max(0, at - self.window)
                found = Checkpoint(at, first, *_parted(rows))
                break
        if found is not None:
            self.read.add("window", found.window)
            self.read.add("overlap", found.overlap)
        return found

    def _window_rows(self, row: int, at: int) -> Rows:
        return self.state.read("window", row, max(0, at - self.window), at)

    def _put_window(self, what: str, row: int, at: int, window: Rows) -> None:
        overlap = self.state.read("overlap", row, max(0, at - OVERLAP_ROWS), at)
        self.written.add("window", window)
        self.written.add("overlap", overlap)
        parts = {f"window:{name}": rows for name, rows in window.items()}
        parts |= {f"overlap:{name}": rows for name, rows in overlap.items()}
        self.store.put(self._key(what, self.tokens, at), parts)

    def _gather_rows(self, row: int, before: int, at: int) -> None:
        """Collect rows of every token; a page is put when it is whole."""
        for name, rows in self.state.read("window", row, before, at).items():
            self._open.setdefault(name, []).append(rows)
        if at % PAGE_TOKENS == 0:
            page = {name: np.concatenate(rows) for name, rows in self._open.items()}
            self._open = {}
            self._put_window("rows", row, at, page)

    def _from_rows(self, tokens: Tokens, limit: int) -> Checkpoint | None:
        """The window before the last page end, out of as many pages as it spans."""
        at = limit // PAGE_TOKENS * PAGE_TOKENS
        first = max(0, at - self.window)
        parts: list[Rows] = []
        overlap: Rows = {}
        for end in range(first // PAGE_TOKENS * PAGE_TOKENS + PAGE_TOKENS, at + 1, PAGE_TOKENS):
            rows = self._get("rows", tokens, end)
            if rows is None:
                return None
            window, overlap = _parted(rows)
            parts.append(window)
        if not parts:
            return None
        skipped = first % PAGE_TOKENS
        joined = {name: np.concatenate([p[name] for p in parts])[skipped:] for name in parts[0]}
        return Checkpoint(at, first, joined, overlap)

    def _get(self, what: str, tokens: Tokens, at: int) -> Rows | None:
        found = self.store.get(self._key(what, tokens, at))
        return None if found is None else {k: np.asarray(rows) for k, rows in found.items()}

    def _key(self, what: str, tokens: Tokens, at: int) -> str:
        digest = hashlib.blake2b(tokens[:at].tobytes(), digest_size=16).hexdigest()
        return f"{self.policy.name}/{what}/{at}/{digest}"


def _parted(rows: Rows) -> tuple[Rows, Rows]:
    window = {k.partition(":")[2]: r for k, r in rows.items() if k.startswith("window:")}
    overlap = {k.partition(":")[2]: r for k, r in rows.items() if k.startswith("overlap:")}
    return window, overlap
