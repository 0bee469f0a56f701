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
from simulator.prefix.hit import PrefixHit
from simulator.prefix.known_prefix import run_lists
from simulator.prefix.replay import children_of, goes_on, head_runs
from simulator.prefix.restore_time import RestorePlan, RestoreTimer, fastest
from simulator.prefix.tier import Tier
from simulator.prefix.tiered_cache import CacheRules, TieredCache
from simulator.serve.live_request import LiveRequest
from simulator.serve.prefix_source import Served
from workloads.traffic.trace import Trace

DEVICE = "hbm"
# Of the device's free memory; pages and windows have room of their own.
DEVICE_WINDOW_SHARE = 0.3


class TraceRuns:
    """Block ids of a trace's prompts, shared by all replicas: runs, and which prompt goes on."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.runs = list(run_lists(trace))
        self.children = children_of(trace)

    def with_reply(self, request: int) -> list[tuple[int, int]] | None:
        """Runs of a prompt and its reply, as the next prompt of the session has them, or None."""
        end = int(self.trace.input_tokens[request] + self.trace.output_tokens[request])
        for child in self.children.get(request, ()):
            if goes_on(self.trace, self.runs, request, child):
                return head_runs(self.runs[child], end // self.trace.block_tokens)
        return None


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
        self.runs = runs
        self.cache = cache
        self.timer = timer
        self._hits: dict[int, PrefixHit] = {}
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
        self.cache.expire(now_ns / 1e9)
        found = self.cache.look_up(self.runs.runs[request.index])
        hit, plan = self.cache.hit(found, request.input_tokens), None
        if any(load.tier != DEVICE for load in hit.loads):  # else there is nothing to load
            plan = self._fastest(hit, request, found)
            hit = plan.hit
        self.cache.use(found, hit, now_ns / 1e9)
        self._hits[request.index] = hit
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
        found = self.cache.look_up(self.runs.runs[request.index])
        return self._on_device(self.cache.hit(found, request.input_tokens, 1))

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
        self._store(request, now_ns, self.runs.runs[request.index], request.input_tokens)

    def store(self, request: LiveRequest, now_ns: int) -> None:
        """Keep the reply as well, where the trace shows its blocks."""
        runs = self.runs.with_reply(request.index)
        if runs is not None:
            end = request.input_tokens + request.output_tokens
            self._store(request, now_ns, runs, end)
        self._hits.pop(request.index, None)

    def _fastest(self, whole: PrefixHit, request: LiveRequest, found: object) -> RestorePlan:
        plans = [self.timer.plan(whole)]
        used = {load.tier for load in whole.loads}
        for depth, store in enumerate(self.cache.stores):
            if store.tier.name in used:
                hit = self.cache.hit(found, request.input_tokens, depth)  # type: ignore[arg-type]
                plans.append(self.timer.plan(hit))
        return fastest(plans)

    def _on_device(self, hit: PrefixHit) -> int:
        pages = [load for load in hit.loads if load.pool == "compressed"]
        own = sum(load.tokens for load in pages if load.tier == DEVICE)
        return min(own, hit.loaded_tokens)

    def _store(
        self, request: LiveRequest, now_ns: int, runs: Sequence[tuple[int, int]], end: int
    ) -> None:
        hit = self._hits.get(request.index)
        self.count_to(now_ns)
        if hit is not None:
            self.cache.store(runs, request.input_tokens, end, hit, now_ns / 1e9)


def tiered_prefixes(
    runs: TraceRuns, rules: CacheRules, lower: Sequence[Tier], timer: RestoreTimer, nbytes: float
) -> TieredPrefixes:
    """A prefix cache with `nbytes` of device memory above the other tiers."""
    tiers = [device_tier(nbytes), *lower]
    return TieredPrefixes(runs, TieredCache(tiers, rules, runs.trace.block_tokens), timer)
