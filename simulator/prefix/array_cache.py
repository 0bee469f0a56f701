"""The tiered cache on whole-number arrays, compiled: least recently used, written through.

What `TieredCache` does for any policy, this does for the usual one, in a small part of the time and
to the same figures. `cache_of` takes it wherever it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from simulator.prefix import array_tree as tree
from simulator.prefix.granularity import known_tokens
from simulator.prefix.hit import Boundaries, Extent, PrefixHit, Residency
from simulator.prefix.prefix_index import Match, Runs
from simulator.prefix.tier import Tier
from simulator.prefix.tiered_cache import WINDOWS, CacheRules, RowsWithPages, TieredCache, TierStore

_SEGMENTS, _WINDOWS = 1 << 12, 1 << 12
_EXTENTS = 64


def cache_of(tiers: Sequence[Tier], rules: CacheRules, block_tokens: int) -> TieredCache:
    """The fastest cache that follows the rules."""
    kind = ArrayCache if ArrayCache.follows(rules) else TieredCache
    return kind(tiers, rules, block_tokens)


@dataclass(slots=True)
class ArrayStore(TierStore):
    """A tier whose pages and windows are in arrays; its pools say what may be held."""

    used: int = 0

    @property
    def used_bytes(self) -> int:
        """What is stored now."""
        return self.used


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows of the prompt that was matched last, in the fastest `tiers` tiers."""

    state: tree.State
    names: Sequence[str]
    tiers: int

    def last(self, limit: int) -> tuple[int, str] | None:
        """Largest up to `limit` in any tier; of equal ones that of the fastest."""
        at, place = tree.last_window(self.state, limit, self.tiers)
        return (at, self.names[place]) if at else None


class ArrayCache(TieredCache):
    """Finds hits and stores prompts; a match holds until the next prompt is looked up.

    Assumes: of a prompt whose pages have left every tier while a window stays, the compiled cache
    knows all blocks up to where it was last cut; how many of them count as known moves the tokens
    that compressed pages vetoed, and no hit.
    """

    def __init__(self, tiers: Sequence[Tier], rules: CacheRules, block_tokens: int) -> None:
        super().__init__(tiers, rules, block_tokens)
        names = [one.name for one in fields(TierStore)]
        self._stores = [
            ArrayStore(**{name: getattr(store, name) for name in names}) for store in self.stores
        ]
        self.stores = list(self._stores)
        self._names = [tier.name for tier in tiers]
        self._state = _empty(self._stores, block_tokens)
        self._ends = np.empty(_EXTENTS, dtype=np.int64)
        self._places = np.empty(_EXTENTS, dtype=np.int64)

    @staticmethod
    def follows(rules: CacheRules) -> bool:
        """Whether it does what the rules say."""
        alike = rules.page_eviction == rules.window_eviction == "lru"
        plain = rules.state_eviction is None and not rules.policy.by_tier
        return alike and plain and rules.write.name == "through"

    def look_up(self, runs: Runs) -> Match:
        """Where a prompt is; the path stays in the arrays."""
        first, count = _columns(runs)
        return Match((), tree.match(self._state, first, count), 0, 0)

    def expire(self, now_s: float) -> None:
        """Nothing outlives this policy."""

    def hit(self, found: Match, prompt_tokens: int, tiers: int | None = None) -> PrefixHit:
        """The hit of the prompt that was looked up last, from the fastest `tiers` tiers."""
        count = len(self.stores) if tiers is None else tiers
        extents = self._held(found.blocks, prompt_tokens, count)
        windows: Boundaries = _Windows(self._state, self._names, count)
        if self.rules.policy.everywhere:
            windows = RowsWithPages(extents, self.rules.granule_tokens)
        return self.rule.find(
            prompt_tokens,
            Residency(
                known_tokens=known_tokens(found.blocks, self.block_tokens, prompt_tokens),
                compressed=extents,
                windows=windows,
                overlaps=windows if self.rules.sizes.overlap_bytes else None,
            ),
        )

    def use(self, found: Match, hit: PrefixHit, now_s: float) -> None:
        """Account for what a hit loads and uses."""
        self._now_s = now_s
        loaded = 0
        for load in hit.loads:
            store = self.stores[self._names.index(load.tier)]
            store.read_bytes += self.load_bytes(load.pool, load.tokens)
            loaded += load.tokens if load.pool == "compressed" else 0
        self._grow(1, 1)
        windows = np.zeros(len(self.stores), dtype=np.int64)
        token = 0 if self.rules.policy.everywhere else hit.restored_at or 0
        tree.use(self._state, -(-loaded // self.block_tokens), token, windows)
        self._account(None, windows)

    def store(
        self, runs: Runs, prompt_tokens: int, end_tokens: int, hit: PrefixHit, now_s: float
    ) -> None:
        """Keep a prompt (and its reply up to `end_tokens`, as far as `runs` tell it)."""
        self._now_s = now_s
        if not runs:
            return
        first, count = _columns(runs)
        kept: list[int] = []
        if not self.rules.policy.everywhere:
            span = self._span(int(count.sum()), prompt_tokens, end_tokens, hit)
            kept = self.rules.policy.kept(span, self.rules.granule_tokens)
        tokens = np.array(kept, dtype=np.int64)
        self._grow(len(runs) + 2, len(kept) + 1)
        blocks = np.zeros(len(self.stores), dtype=np.int64)
        windows = np.zeros(len(self.stores), dtype=np.int64)
        tree.store(self._state, first, count, tokens, blocks, windows)
        self._account(blocks.tolist(), windows)

    def resize(self, place: int, capacity_bytes: int) -> None:
        """Sizes of these tiers do not change."""
        raise NotImplementedError("the compiled cache keeps the sizes of its tiers")

    def _held(self, blocks: int, prompt_tokens: int, tiers: int) -> list[Extent]:
        """What tiers hold of the matched prompt."""
        while (found := tree.extents(self._state, tiers, self._ends, self._places)) < 0:
            self._ends = np.empty(2 * len(self._ends), dtype=np.int64)
            self._places = np.empty_like(self._ends)
        ends, places = self._ends[:found].tolist(), self._places[:found].tolist()
        return [
            Extent(known_tokens(min(end, blocks), self.block_tokens, prompt_tokens), names)
            for end, names in zip(ends, (self._names[place] for place in places), strict=True)
        ]

    def _account(self, blocks: list[int] | None, windows: tree.Ints) -> None:
        """Writes of every tier on the clock, pages first, and what it holds now."""
        held = self._state.tiers.tolist()
        news = windows.tolist()
        for place, store in enumerate(self._stores):
            if blocks is not None and blocks[place]:
                store.count_pages(blocks[place], self.rules.sizes, self._now_s)
            for _ in range(news[place]):
                store.count_window(self.rules.sizes, self._now_s, WINDOWS)
            pages, kept = held[place][tree.USED_BLOCKS], held[place][tree.USED_WINDOWS]
            store.used = pages * store.block_bytes + kept * store.checkpoint_bytes
            store.peak_bytes = max(store.peak_bytes, store.used) if blocks else store.peak_bytes

    def _grow(self, segments: int, windows: int) -> None:
        """Room in the arrays for so many new segments and windows."""
        state = self._state
        size, kept = len(state.segments), len(state.windows)
        if state.totals[tree.USED_SEGMENTS] + segments >= size:
            self._state = state = _more_segments(state, 2 * size + segments)
        if state.totals[tree.USED_KEPT] + windows >= kept:
            self._state = _more_windows(state, 2 * kept + windows)


def _columns(runs: Runs) -> tuple[tree.Ints, tree.Ints]:
    table = np.array(runs, dtype=np.int64).reshape(-1, 2)
    return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])


def _empty(stores: Sequence[ArrayStore], block_tokens: int) -> tree.State:
    """Arrays that hold the root alone."""
    tiers = np.zeros((len(stores), tree.TIER_COLUMNS), dtype=np.int64)
    for row, store in zip(tiers, stores, strict=True):
        row[:4] = tree.NONE
        row[tree.MOST_BLOCKS] = store.pages.capacity_blocks or 0
        row[tree.MOST_WINDOWS] = store.windows.capacity or 0
        row[tree.ROOM_BYTES] = -1 if store.room is None else store.room.capacity_bytes
        row[tree.BLOCK_BYTES] = store.block_bytes
        row[tree.WINDOW_BYTES] = store.checkpoint_bytes
    totals = np.zeros(tree.TOTALS, dtype=np.int64)
    totals[tree.BLOCK_TOKENS] = block_tokens
    count = len(stores)
    none = np.zeros((0, count, 4), dtype=np.int64)
    state = tree.State(
        segments=np.zeros((1, 8), dtype=np.int64),
        pages=np.zeros((1, count, 4), dtype=np.int64),
        windows=np.zeros((0, 4), dtype=np.int64),
        kept=none[:, :, :3].copy(),
        tiers=tiers,
        children=np.zeros((2, 3), dtype=np.int64),
        path=np.zeros(1, dtype=np.int64),
        totals=totals,
    )
    state.segments[0, tree.FIRST_WINDOW] = tree.NONE
    totals[tree.FREE_SEGMENT] = totals[tree.FREE_WINDOW] = tree.NONE
    totals[tree.USED_SEGMENTS] = 1
    return _more_windows(_more_segments(state, _SEGMENTS), _WINDOWS)


def _longer(array: tree.Ints, length: int) -> tree.Ints:
    longer = np.zeros((length, *array.shape[1:]), dtype=np.int64)
    longer[: len(array)] = array
    return longer


def _more_segments(state: tree.State, length: int) -> tree.State:
    before = len(state.segments)
    segments = _longer(state.segments, length)
    # Free ones are a chain through their parents.
    segments[before:, tree.PARENT] = np.arange(before + 1, length + 1)
    segments[-1, tree.PARENT] = state.totals[tree.FREE_SEGMENT]
    state.totals[tree.FREE_SEGMENT] = before
    slots = 1 << (2 * length - 1).bit_length()
    grown = state._replace(
        segments=segments,
        pages=_longer(state.pages, length),
        path=_longer(state.path, length),
        children=np.zeros((slots, 3), dtype=np.int64),
    )
    tree.refill(grown, state.children)
    return grown


def _more_windows(state: tree.State, length: int) -> tree.State:
    before = len(state.windows)
    windows = _longer(state.windows, length)
    windows[before:, tree.NEXT_WINDOW] = np.arange(before + 1, length + 1)
    windows[-1, tree.NEXT_WINDOW] = state.totals[tree.FREE_WINDOW]
    state.totals[tree.FREE_WINDOW] = before
    return state._replace(windows=windows, kept=_longer(state.kept, length))
