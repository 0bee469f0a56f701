"""The prefix cache of a replica: pages and windows over its tiers, on the serving clock.

The first tier is the device memory that running requests leave free; it shrinks and grows with
them. Loads from lower tiers queue on the replica's one link to its host.

Assumes: pages of a prefix may leave the cache while a request that hit them is running; the room
    that this frees is counted once more.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.basis.sourced import Sourced
from simulator.prefix.cached_bytes import CachedBytes
from simulator.prefix.cached_prompts import CachedPrompts, TraceRuns
from simulator.prefix.hit import PrefixHit
from simulator.prefix.restore_time import RestoreTimer
from simulator.prefix.tier import Tier
from simulator.prefix.tiered_cache import CacheRules, TieredCache
from simulator.serve.live_request import LiveRequest
from simulator.serve.prefix_source import Served

DEVICE = "hbm"
# Of the device's free memory; pages and windows have room of their own.
DEVICE_WINDOW_SHARE = 0.3


def device_tier(capacity_bytes: float) -> Tier:
    """Device memory as a tier."""
    size = Sourced(
        value=max(1, int(capacity_bytes)),
        unit="B",
        kind="derived",
        source="cache memory of a replica",
    )
    return Tier(name=DEVICE, capacity=size, window_share=DEVICE_WINDOW_SHARE)


class TieredPrefixes:
    """`PrefixSource` over a `TieredCache` whose first tier is device memory."""

    def __init__(self, runs: TraceRuns, cache: TieredCache, timer: RestoreTimer) -> None:
        self.prompts = CachedPrompts(runs, cache, timer, choose=True, loads_only=True)
        self.cache = cache
        self._link_free_ns = 0
        self.loaded_tokens = dict.fromkeys((store.tier.name for store in cache.stores), 0)
        self.byte_ns = dict.fromkeys(self.loaded_tokens, 0)
        self._counted_ns = 0

    @property
    def sizes(self) -> CachedBytes:
        """Bytes of pages and windows."""
        return self.cache.rules.sizes

    def find(self, request: LiveRequest, now_ns: int) -> Served:
        """The fastest of the hits that the tiers allow, and when it is in place."""
        self.count_to(now_ns)
        found = self.prompts.find(request.index, now_ns / 1e9)
        hit, plan = found.hit, found.plan
        for load in hit.loads:
            if load.pool == "compressed":
                self.loaded_tokens[load.tier] += min(load.tokens, hit.loaded_tokens)
        wait = 0
        if plan is not None and plan.loading_ns:
            begin = max(now_ns, self._link_free_ns)
            self._link_free_ns = begin + plan.loading_ns
            wait = begin - now_ns + plan.ttft_ns - plan.compute_ns
        return Served(hit.loaded_tokens, wait, self._on_device(hit))

    def peek(self, request: LiveRequest) -> int:
        """Tokens on the device that a request would find."""
        return self._on_device(self.prompts.peek(request.index, 1))

    def make_room(self, free_tokens: float) -> None:
        """Let the device tier be as large as requests leave it."""
        per_token = self.sizes.page_bytes / self.sizes.page_tokens
        self.cache.resize(0, int(free_tokens * per_token))

    def count_to(self, now_ns: int) -> None:
        """Add up what every tier holds over time, up to now."""
        passed, self._counted_ns = now_ns - self._counted_ns, now_ns
        for store in self.cache.stores:
            self.byte_ns[store.tier.name] += passed * store.used_bytes

    def answered(self, request: LiveRequest, now_ns: int) -> None:
        """Keep a prompt."""
        self.count_to(now_ns)
        self.prompts.answered(request.index, now_ns / 1e9)

    def store(self, request: LiveRequest, now_ns: int) -> None:
        """Keep the reply as well, where the trace shows its blocks."""
        self.count_to(now_ns)
        self.prompts.finished(request.index, now_ns / 1e9)

    def _on_device(self, hit: PrefixHit) -> int:
        pages = [load for load in hit.loads if load.pool == "compressed"]
        own = sum(load.tokens for load in pages if load.tier == DEVICE)
        return min(own, hit.loaded_tokens)


def tiered_prefixes(
    runs: TraceRuns, rules: CacheRules, lower: Sequence[Tier], timer: RestoreTimer, nbytes: float
) -> TieredPrefixes:
    """A prefix cache with `nbytes` of device memory above the other tiers."""
    tiers = [device_tier(nbytes), *lower]
    return TieredPrefixes(runs, TieredCache(tiers, rules, runs.trace.block_tokens), timer)
