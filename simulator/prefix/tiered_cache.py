"""A prefix cache over tiers: pages and windows move between them as the policies say.

Pages and windows have pools of their own in every tier. With a policy that keeps window rows of
every token, rows live and leave with the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import lcm

from simulator.basis.errors import InputError, unknown_name
from simulator.basis.whole import ceil_div
from simulator.prefix.cached_bytes import CachedBytes
from simulator.prefix.eviction import Usage, parse_eviction
from simulator.prefix.granularity import known_tokens, whole_granules
from simulator.prefix.hit import Boundaries, Extent, HitRule, LiveRows, PrefixHit, Residency
from simulator.prefix.prefix_index import Match, PrefixIndex, Runs
from simulator.prefix.segment import Segment
from simulator.prefix.segment_pool import SegmentPool
from simulator.prefix.shared_room import SharedRoom
from simulator.prefix.tier import Tier
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_parts import StoredSpan
from simulator.prefix.window_policy import WindowPolicy
from simulator.prefix.window_pool import Checkpoint, WindowPool
from simulator.prefix.write_policy import WritePolicy
from simulator.prefix.write_queue import WriteQueue

WINDOWS, STATES = "windows", "states"


@dataclass(slots=True)
class TierStore:
    """A tier with its pools, and the bytes that went in and out.

    `states`: the compressors' overlap rows, where they do not go with the windows.
    `checkpoint_bytes` are then those of a window alone, `state_bytes` the rest.
    """

    tier: Tier
    pages: SegmentPool
    windows: WindowPool
    block_bytes: int
    checkpoint_bytes: int
    writes: WriteQueue
    written_bytes: int = 0
    read_bytes: int = 0
    peak_bytes: int = 0
    room: SharedRoom | None = None
    states: WindowPool | None = None
    state_bytes: int = 0

    def kept(self, kind: str) -> WindowPool:
        """The pool of windows or of states."""
        return self.windows if self.states is None or kind == WINDOWS else self.states

    def count_pages(self, blocks: int, sizes: CachedBytes, now_s: float) -> None:
        """Blocks of the trace were written, in objects of the engine's pages."""
        if blocks:
            nbytes = blocks * self.block_bytes
            self.written_bytes += nbytes
            pages = ceil_div(blocks * self.pages.index.block_tokens, sizes.page_tokens)
            self.writes.add(nbytes, pages * sizes.page_objects, now_s)

    def count_window(self, sizes: CachedBytes, now_s: float, kind: str) -> None:
        """A checkpoint was written, or its part of one kind."""
        nbytes, objects = self.checkpoint_bytes, sizes.checkpoint_objects
        if self.states is not None:
            nbytes = nbytes if kind == WINDOWS else self.state_bytes
            objects = 1 if kind == WINDOWS else max(1, objects - 1)
        self.written_bytes += nbytes
        self.writes.add(nbytes, objects, now_s)

    @property
    def used_bytes(self) -> int:
        """What is stored now."""
        states = 0 if self.states is None else self.states.used * self.state_bytes
        windows = self.windows.used * self.checkpoint_bytes
        return self.pages.used_blocks * self.block_bytes + windows + states


@dataclass(frozen=True, slots=True)
class RowsWithPages:
    """Window rows of every token, in the tiers that the pages are in."""

    extents: Sequence[Extent]
    granule: int

    def last(self, limit: int) -> tuple[int, str] | None:
        """Any whole granule of the pages."""
        end = max((extent.end for extent in self.extents), default=0)
        at = whole_granules(min(limit, end), self.granule)
        return (at, next(e.tier for e in self.extents if e.end >= at)) if at else None


@dataclass(frozen=True, slots=True)
class TierCheckpoints:
    """Checkpoints along a path in some tiers, fastest first."""

    stores: Sequence[TierStore]
    path: Sequence[Segment]
    kind: str = "windows"

    def last(self, limit: int) -> tuple[int, str] | None:
        """Largest in any tier; of equal ones that of the fastest."""
        found = [
            (store.kept(self.kind).last(self.path, limit), store.tier.name) for store in self.stores
        ]
        best = max(found, key=lambda one: one[0], default=(0, ""))
        return best if best[0] else None


@dataclass(frozen=True, slots=True)
class RowsOrCheckpoints:
    """Rows of pages in some tiers, checkpoints in the others."""

    rows: LiveRows
    checkpoints: TierCheckpoints

    def last(self, limit: int) -> tuple[int, str] | None:
        """The larger boundary; of equal ones that of the rows, which are in the upper tier."""
        found = [one for one in (self.rows.last(limit), self.checkpoints.last(limit)) if one]
        return max(found, key=lambda one: one[0], default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """All that decides what is kept, where and for how long.

    `state_eviction`: of the compressors' overlap rows, in a pool of their own; None: they come and
    go with the windows. `draft_granules`: of a hit, which an engine that drafts computes again.
    """

    policy: WindowPolicy
    geometry: WindowGeometry
    sizes: CachedBytes
    write: WritePolicy
    page_eviction: str = "lru"
    window_eviction: str = "lru"
    state_eviction: str | None = None
    draft_granules: int = 0

    @property
    def granule_tokens(self) -> int:
        """Hits are multiples of it: of the engine's page and of the policy's granule."""
        return lcm(self.sizes.page_tokens, self.policy.granule_tokens or 1)

    @property
    def hit_rule(self) -> HitRule:
        """How hits of served prompts are found."""
        return HitRule(
            policy=self.policy,
            geometry=self.geometry,
            granule_tokens=self.granule_tokens,
            clipped=True,
            draft_granules=self.draft_granules,
        )

    def check(self) -> None:
        """Raise InputError where the policy does not go with the granules of a hit."""
        self.policy.check(self.granule_tokens)


class TieredCache:
    """Finds hits and stores prompts; time is the caller's (`now_s`), sizes and places are kept.

    Assumes: a prompt that ends within a trace block keeps a window at the block's start too, for
    prompts that go on from it, since a trace cannot tell whether they share more; both are counted.
    """

    def __init__(self, tiers: Sequence[Tier], rules: CacheRules, block_tokens: int) -> None:
        rules.check()
        self.rules = rules
        self.block_tokens = block_tokens
        self.index = PrefixIndex(block_tokens, joins=True)
        self.rule = rules.hit_rule
        self._now_s = 0.0
        split = rules.state_eviction is not None and rules.sizes.overlap_bytes > 0
        self._kinds = (WINDOWS, STATES) if split else (WINDOWS,)
        self._own = [rules.policy.of(tier.name) for tier in tiers]
        self._check_tiers([tier.name for tier in tiers])
        self.stores = [self._open(place, tier) for place, tier in enumerate(tiers)]

    def look_up(self, runs: Runs) -> Match:
        """Where a prompt is in the index."""
        return self.index.match(runs)

    def expire(self, now_s: float) -> None:
        """Let go in every tier what has outlived its policy."""
        for store in self.stores:
            store.pages.expire(now_s)
            for kind in self._kinds:
                store.kept(kind).expire(now_s)
        self.index.tidy()

    def hit(self, found: Match, prompt_tokens: int, tiers: int | None = None) -> PrefixHit:
        """The hit of a prompt, from the fastest `tiers` tiers (default: all)."""
        stores = self.stores[:tiers]
        extents = self._extents(found, prompt_tokens, stores)
        if self.rules.policy.everywhere:
            windows: Boundaries = RowsWithPages(extents, self.rules.granule_tokens)
        else:
            windows = TierCheckpoints(stores, found.path)
            if any(own.everywhere for own in self._own):
                rows = self._live_rows(found, prompt_tokens, stores)
                windows = RowsOrCheckpoints(rows, windows)
        return self.rule.find(
            prompt_tokens,
            Residency(
                known_tokens=known_tokens(found.blocks, self.block_tokens, prompt_tokens),
                compressed=extents,
                windows=windows,
                overlaps=self._overlaps(found, stores, windows),
            ),
        )

    def use(self, found: Match, hit: PrefixHit, now_s: float) -> None:
        """Account for what a hit loads and uses."""
        self._now_s = now_s
        for load in hit.loads:
            store = next(s for s in self.stores if s.tier.name == load.tier)
            store.read_bytes += self.load_bytes(load.pool, load.tokens)
        pages = self._head(found.path, hit)
        self._guard(pages)  # room that windows take is not that of the pages in use
        for upper, store in enumerate(self.stores):
            store.pages.touch(pages, now_s)
            if hit.restored_at and not self.rules.policy.everywhere:
                segment, at = self.index.holder_of(pages, hit.restored_at), hit.restored_at
                for kind in self._kinds:
                    usage = store.kept(kind).touch(segment, at, now_s)
                    if usage is not None:
                        self._write_window(upper, segment, at, usage.uses, now_s, kind)
        if hit.restored_at and not self.rules.policy.everywhere:
            segment = self.index.holder_of(pages, hit.restored_at)
            for kind in self._kinds:
                self._promote(segment, hit.restored_at, now_s, kind)
        self._settle()

    def store(
        self, runs: Runs, prompt_tokens: int, end_tokens: int, hit: PrefixHit, now_s: float
    ) -> None:
        """Keep a prompt (and its reply up to `end_tokens`, as far as `runs` tell it)."""
        self._now_s = now_s
        path = self.index.insert(runs)
        if not path:
            return
        for segment in path:
            segment.pins += 1
        whole = self._store_pages(path, runs, now_s, hit)
        self._guard(whole)
        if self.rules.policy.by_tier:
            span = self._span(path[-1].end, prompt_tokens, end_tokens, hit)
            for store, own in zip(self.stores, self._own, strict=True):
                for token in own.kept(span, self.rules.granule_tokens):
                    for kind in self._kinds:
                        holder = self.index.holder_of(whole, token)
                        self._count_window(store, holder, token, now_s, kind)
        elif not self.rules.policy.everywhere:
            span = self._span(path[-1].end, prompt_tokens, end_tokens, hit)
            for token in self.rules.policy.kept(span, self.rules.granule_tokens):
                for kind in self._kinds:
                    self._store_window(self.index.holder_of(whole, token), token, now_s, kind)
        self._settle()
        for segment in path:
            segment.pins -= 1
        for segment in reversed(path):
            self.index.prune(segment)
            self.index.note(segment)
        self.index.tidy()
        for store in self.stores:
            store.peak_bytes = max(store.peak_bytes, store.used_bytes)

    def _guard(self, segments: Sequence[Segment]) -> None:
        for store in self.stores:
            if store.room is not None:
                store.room.guard(segments)

    def _settle(self) -> None:
        """What left for others in a tier goes down, tier by tier."""
        for store in self.stores:
            if store.room is not None:
                store.room.settle()

    def load_bytes(self, pool: str, tokens: int) -> int:
        """Bytes to load: pages by tokens, a window or its overlap rows whole."""
        sizes = self.rules.sizes
        if pool == "compressed":
            return sizes.pages_bytes(tokens)
        return sizes.window_bytes if pool == "window" else sizes.overlap_bytes

    def resize(self, place: int, capacity_bytes: int) -> None:
        """Change the size of a tier; what no longer fits leaves it."""
        store = self.stores[place]
        if store.room is not None:
            store.room.capacity_bytes = capacity_bytes
            store.room.make(0)
            self._settle()
            self.index.tidy()
            return
        for_windows = self._for_windows(store.tier, capacity_bytes)
        store.pages.resize((capacity_bytes - for_windows) // store.block_bytes)
        store.windows.resize(self._part(for_windows, WINDOWS) // store.checkpoint_bytes)
        if store.states is not None:
            store.states.resize(self._part(for_windows, STATES) // store.state_bytes)
        self.index.tidy()

    def _for_windows(self, tier: Tier, capacity_bytes: int) -> int:
        """Part of a tier that windows have for themselves."""
        if tier.window_share is None or not self.rules.policy.of(tier.name).stores_windows:
            return 0
        return int(capacity_bytes * tier.window_share)

    def _overlaps(
        self, found: Match, stores: Sequence[TierStore], windows: Boundaries
    ) -> Boundaries | None:
        """Where overlap rows are: with the windows, or in pools of their own."""
        if not self.rules.sizes.overlap_bytes:
            return None
        split = self.rules.state_eviction is not None and not self.rules.policy.everywhere
        return TierCheckpoints(stores, found.path, STATES) if split else windows

    def _part(self, nbytes: int, kind: str) -> int:
        """Of the room of checkpoints what windows or states have, by what a checkpoint takes."""
        sizes = self.rules.sizes
        if len(self._kinds) == 1:
            return nbytes
        windows = nbytes * sizes.window_bytes // sizes.checkpoint_bytes
        return windows if kind == WINDOWS else nbytes - windows

    def _open(self, place: int, tier: Tier) -> TierStore:
        sizes, rules = self.rules.sizes, self.rules
        per_token = sizes.page_bytes / sizes.page_tokens
        if self._own[place].everywhere:
            per_token += sizes.row_bytes
        block_bytes = -(-round(per_token * 1e6) * self.block_tokens // 10**6)
        for_windows = self._for_windows(tier, tier.capacity_bytes)
        shares = tier.window_share is None and self._own[place].stores_windows
        room = SharedRoom(tier.capacity_bytes) if shares else None
        pages = SegmentPool(
            self.index,
            (tier.capacity_bytes - for_windows) // block_bytes,
            parse_eviction(rules.page_eviction),
            block_bytes=block_bytes,
            on_evict=partial(self._page_left, place),
            room=room,
        )
        split = len(self._kinds) > 1

        def pool(kind: str, nbytes: int, eviction: str) -> WindowPool:
            return WindowPool(
                self.index,
                None if shares else self._part(for_windows, kind) // nbytes,
                parse_eviction(eviction),
                checkpoint_bytes=nbytes,
                on_evict=partial(self._window_left, place, kind),
                room=room,
            )

        each = sizes.window_bytes if split else sizes.checkpoint_bytes
        states = pool(STATES, sizes.overlap_bytes, rules.state_eviction or "lru") if split else None
        return TierStore(
            tier, pages, pool(WINDOWS, each, rules.window_eviction), block_bytes, each,
            WriteQueue(tier), room=room, states=states, state_bytes=sizes.overlap_bytes,
        )  # fmt: skip

    def _extents(
        self, found: Match, prompt_tokens: int, stores: Sequence[TierStore]
    ) -> list[Extent]:
        extents: list[Extent] = []
        for segment in found.path:
            tier = next((s.tier.name for s in stores if segment in s.pages), None)
            if tier is None:
                break
            blocks = min(segment.end, found.blocks)
            end = known_tokens(blocks, self.block_tokens, prompt_tokens)
            if extents and extents[-1].tier == tier:
                extents.pop()
            extents.append(Extent(end, tier))
        return extents

    def _live_rows(self, found: Match, prompt_tokens: int, stores: Sequence[TierStore]) -> LiveRows:
        """Spans of a path whose pages lie in a tier that keeps rows, and were computed there.

        Assumes: where only some tiers keep rows with their pages, pages that come back from others
        have none, though room is taken for them.
        """
        spans: list[tuple[int, int, str]] = []
        for store, own in zip(stores, self._own, strict=False):
            start = -1
            for segment in found.path if own.everywhere else ():
                live = segment in store.pages and store.pages.usage(segment).rows
                if not live:
                    start = -1
                    continue
                begin = segment.start * self.block_tokens if start < 0 else start
                blocks = min(segment.end, found.blocks)
                end = known_tokens(blocks, self.block_tokens, prompt_tokens)
                if start >= 0:
                    spans.pop()
                spans.append((begin, end, store.tier.name))
                start = begin
        return LiveRows(spans, self.rules.geometry.n_win, self.rules.granule_tokens)

    def _head(self, path: Sequence[Segment], hit: PrefixHit) -> list[Segment]:
        """Segments of the blocks that a hit loads; what follows them in one is split off."""
        loaded = sum(load.tokens for load in hit.loads if load.pool == "compressed")
        blocks = -(-loaded // self.block_tokens)
        head = [segment for segment in path if segment.start < blocks]
        if head and head[-1].end > blocks:
            head[-1] = self.index.split(head[-1], blocks - head[-1].start)
        return head

    def _check_tiers(self, names: list[str]) -> None:
        """Raise InputError where tiers of their own are none of these, or are not written through.

        Assumes: where tiers keep windows of their own, each is written when its prompt is stored;
        a window that leaves a tier is not written to the one below.
        """
        named = [tier for tier, _ in self.rules.policy.by_tier]
        unknown = [tier for tier in named if tier not in names]
        if unknown:
            raise InputError(unknown_name("tier of a window policy", unknown[0], names))
        if named and self.rules.write.name != "through":
            raise InputError(
                f"window policy {self.rules.policy.name!r} says what every tier keeps, which is "
                f"written through; --write {self.rules.write.name} is for one policy of all tiers"
            )

    def _span(self, blocks: int, prompt: int, end: int, hit: PrefixHit) -> StoredSpan:
        """Where windows can be left: what was computed exactly, in whole trace blocks.

        A prompt may end within a block. Its id is that of equal prompts alone, which find what is
        kept within it; for prompts that go on from it, a window is kept before it as well.
        """
        known = hit.loaded_tokens + hit.recomputed_tokens
        resumed = hit.loaded_tokens
        if hit.replay is not None:
            # Rows of a replay are exact from its boundary on, where a window may be kept again.
            resumed = known - hit.rounding_tokens - hit.drafted_tokens - 1
        block = self.block_tokens
        covered = blocks * block
        whole = whole_granules(min(prompt, covered), block)
        # The reply is told by the ids of the next prompt, which has the whole blocks of this one.
        own = covered if end <= prompt else whole
        return StoredSpan(
            resumed=resumed,
            known=min(known, own),
            resend=self._resent(min(prompt - 1, own)),
            prompt=whole,
            end=whole_granules(min(end, covered), block),
        )

    def _resent(self, tokens: int) -> int:
        """Where an equal prompt resumes: an engine that drafts takes granules off its hit."""
        if not self.rules.draft_granules:
            return tokens
        granule = self.rules.granule_tokens
        return max(0, whole_granules(tokens, granule) - self.rules.draft_granules * granule)

    def _store_pages(
        self, path: Sequence[Segment], runs: Runs, now_s: float, hit: PrefixHit
    ) -> Sequence[Segment]:
        """Pages of a path to the tiers that take them; returns the path as it is afterwards."""
        top, splits = self.stores[0], self.index.splits
        for store in self.stores:
            if store is top:
                loaded = 0 if self.rules.policy.everywhere else hit.loaded_tokens
                without = ceil_div(loaded, self.block_tokens)
                self._count_pages(top, top.pages.store(path, now_s, without))
            elif self.rules.write.exclusive:
                for segment in path:
                    if segment in store.pages and segment in top.pages:
                        store.pages.drop(segment)
            else:
                chosen = path if self.rules.write.on_store() else self._used_before(path, store)
                self._count_pages(store, store.pages.store(chosen, now_s))
            if self.index.splits != splits:  # making room may have split segments of the path
                path, splits = self.index.match(runs).path, self.index.splits
        return path

    def _used_before(self, path: Sequence[Segment], lower: TierStore) -> list[Segment]:
        """Segments that a lower tier holds already, or takes for how often they were used."""
        top = self.stores[0].pages
        chosen = []
        for segment in path:
            uses = top.usage(segment).uses if segment in top else 0
            if segment in lower.pages or self.rules.write.on_hit(uses, lower_copy=False):
                chosen.append(segment)
        return chosen

    def _store_window(self, segment: Segment, token: int, now_s: float, kind: str) -> None:
        top = self.stores[0]
        # What finds no room at all on the device is still written through it.
        if self._count_window(top, segment, token, now_s, kind) or top.kept(kind).capacity == 0:
            self._write_window(0, segment, token, 0, now_s, kind)

    def _write_window(
        self, upper: int, segment: Segment, token: int, uses: int, now_s: float, kind: str
    ) -> None:
        """Copy a window to the next tier if it is time."""
        if upper + 1 == len(self.stores) or self.rules.policy.by_tier:
            return
        lower = self.stores[upper + 1]
        copy = lower.kept(kind).holds(segment, token)
        if self.rules.write.on_hit(uses, lower_copy=copy):
            self._count_window(lower, segment, token, now_s, kind)
            self._write_window(upper + 1, segment, token, uses, now_s, kind)

    def _promote(self, segment: Segment, token: int, now_s: float, kind: str) -> None:
        """A window that was loaded is in the fastest tier from now on."""
        top = self.stores[0]
        if not top.kept(kind).holds(segment, token) and self._own[0].stores_windows:
            segment.pins += 1
            if self.rules.write.exclusive:
                for lower in self.stores[1:]:
                    lower.kept(kind).drop(segment, token)
            self._count_window(top, segment, token, now_s, kind)
            segment.pins -= 1

    def _page_left(self, place: int, segment: Segment, usage: Usage) -> None:
        if place + 1 < len(self.stores):
            lower = self.stores[place + 1]
            if self.rules.write.on_evict(lower_copy=segment in lower.pages):
                self._count_pages(lower, lower.pages.store([segment], usage.used_s))

    def _window_left(self, place: int, kind: str, found: Checkpoint) -> None:
        if place + 1 < len(self.stores):
            lower = self.stores[place + 1]
            copy = lower.kept(kind).holds(found.segment, found.token)
            if self.rules.write.on_evict(lower_copy=copy):
                self._count_window(lower, found.segment, found.token, found.usage.used_s, kind)

    def _count_pages(self, store: TierStore, blocks: int) -> None:
        store.count_pages(blocks, self.rules.sizes, self._now_s)

    def _count_window(
        self, store: TierStore, segment: Segment, token: int, used_s: float, kind: str
    ) -> bool:
        new = store.kept(kind).store(segment, token, used_s)
        if new:
            store.count_window(self.rules.sizes, self._now_s, kind)
        return new
