"""Replay of a trace against a tiered prefix cache on a clock: hits, bytes and first tokens.

Every request is served alone (no queue), but the cache sees all of them in order of time: a prompt
is stored when its first token is out, its reply when the last one is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.prefix.cached_prompts import CachedPrompts, TraceRuns
from simulator.prefix.hit import PrefixHit
from simulator.prefix.restore_time import RestorePlan, RestoreTimer
from simulator.prefix.tiered_cache import TieredCache
from workloads.traffic.trace import NO_TIME, Trace
from workloads.traffic.transforms import order_text

Ints = NDArray[np.int64]
_SUMS = (
    "loaded",
    "recomputed",
    "computed",
    "rounding",
    "replays",
    "computing_ns",
    "loading_ns",
    "link_wait_ns",
)
OCCUPANCY_POINTS = 300
_ARRIVE, _FIRST_TOKEN, _DONE = 2, 0, 1  # at one instant, what is done is stored before others ask


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRules:
    """`choose`: use a slower tier only where that is faster than computing.

    `share_link`: loads of requests wait for each other on the one link to the lower tiers.
    `share_writes`: a load from a tier waits for what is being written to it.
    `token_ns(context)`: time of one reply token, for requests that follow a reply.
    """

    choose: bool = False
    share_link: bool = False
    share_writes: bool = False
    token_ns: Callable[[int], int] = lambda context: 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTotals:
    """One tier over a run. `loaded_tokens`: compressed tokens of hits that came from it.

    `write_busy_s`: time that writes take at the tier's bandwidth and latency; `write_behind_s`: the
    longest that one was done after it was asked for; both 0 for the device itself.
    """

    name: str
    capacity_bytes: int
    peak_bytes: int
    end_bytes: int
    written_bytes: int
    read_bytes: int
    loaded_tokens: int
    device_years: float | None
    write_busy_s: float
    write_behind_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTotals:
    """Sums of a run, and per counted request [N]: first token with the cache and without, in ns.

    `vetoed_tokens` by pool. `declined`: requests that left a slower tier's hit unused.
    `occupancy`: seconds since the first arrival, and bytes stored by tier, now and then.
    `computing_ns`: of all prompts, beside loads. `span_s`: first arrival to last token.
    `order`: in which order and at which concurrency requests met the cache; those of a warm-up
    are in no figure but those of storage and loads.
    `loading_ns`: of all loads; `link_wait_ns`: what loads waited for each other, if they share.
    """

    policy: str
    exact: bool
    requests: int
    input_tokens: int
    loaded_tokens: int
    recomputed_tokens: int
    computed_tokens: int
    vetoed_tokens: dict[str, int]
    rounding_tokens: int
    replays: int
    declined: int
    tiers: tuple[TierTotals, ...]
    ttft_ns: Ints
    uncached_ns: Ints
    order: str
    computing_ns: int
    loading_ns: int
    link_wait_ns: int
    span_s: float
    occupancy: tuple[tuple[float, tuple[int, ...]], ...]


class Replay:
    """One run; `run` may be called once. `runs`: of the trace, where they are read already.

    Assumes: requests do not wait for each other, unless their loads share the link; writes take no
    time of a request, unless its loads wait for those of a tier; what is written can be read once
    the tier is free.
    Assumes: a reply is in the cache as it stands in the next prompt of its session, where that goes
    on from this prompt; other replies cannot be told from the trace and are not stored.
    """

    def __init__(
        self,
        trace: Trace,
        cache: TieredCache,
        timer: RestoreTimer,
        rules: ReplayRules,
        runs: TraceRuns | None = None,
    ) -> None:
        self.trace = trace
        self.cache = cache
        self.timer = timer
        self.rules = rules
        self.prompts = CachedPrompts(runs or TraceRuns(trace), cache, timer, choose=rules.choose)
        self._served: list[int] = []
        self._ttft = np.zeros(len(trace), dtype=np.int64)
        self._uncached = np.zeros(len(trace), dtype=np.int64)
        self._events: list[tuple[int, int, int]] = []
        self._declined = 0
        self._first_ns = 0
        self._link_free_ns = 0
        self._stores = 0
        self._occupancy: list[tuple[float, tuple[int, ...]]] = []
        self._sums = dict.fromkeys(_SUMS, 0)
        self._vetoed: dict[str, int] = {}
        self._by_tier = {store.tier.name: 0 for store in cache.stores}

    def run(self, advance: Callable[[int], None] | None = None) -> ReplayTotals:
        """Serve all requests; `advance` is called with how many have been."""
        first, last, served = None, 0, 0
        for request, arrival in enumerate(self.trace.arrival_ns.tolist()):
            if arrival != NO_TIME:
                heapq.heappush(self._events, (arrival, _ARRIVE, request))
        while self._events:
            now_ns, kind, request = heapq.heappop(self._events)
            if first is None:
                first = self._first_ns = now_ns
            last = max(last, now_ns)
            if kind == _ARRIVE:
                self._arrive(request, now_ns)
                served += 1
                if advance is not None:
                    advance(served)
            elif kind == _FIRST_TOKEN:
                self._kept(self.prompts.answered(request, now_ns / 1e9), now_ns)
            else:
                self._finish(request, now_ns)
        return self._totals((last - (first or 0)) / 1e9)

    def _arrive(self, request: int, now_ns: int) -> None:
        prompt = self.prompts.prompt_tokens(request)
        found = self.prompts.find(request, now_ns / 1e9)
        plan = found.plan
        assert plan is not None
        self._served.append(request)
        if len(self._served) > self.trace.warm_up:
            self._declined += found.declined
            self._count(plan.hit)
            self._sums["computing_ns"] += plan.compute_ns
        ttft = plan.ttft_ns + self._wait(plan, now_ns)
        self._ttft[request] = ttft
        self._uncached[request] = self.timer.prefill_ns(prompt, 0)
        first = now_ns + ttft
        reply = max(0, int(self.trace.output_tokens[request]) - 1) * self.rules.token_ns(prompt)
        heapq.heappush(self._events, (first, _FIRST_TOKEN, request))
        heapq.heappush(self._events, (first + reply, _DONE, request))

    def _wait(self, plan: RestorePlan, now_ns: int) -> int:
        """Time until the link and the tiers are free for the loads of a plan."""
        self._sums["loading_ns"] += plan.loading_ns
        if not plan.loading_ns:
            return 0
        begin = now_ns
        if self.rules.share_writes:
            used = {name for name, _ in plan.load_ns}
            free = (s.writes.free_s for s in self.cache.stores if s.tier.name in used)
            begin = max(begin, *(round(at * 1e9) for at in free))
        if self.rules.share_link:
            begin = max(begin, self._link_free_ns)
            self._link_free_ns = begin + plan.loading_ns
        self._sums["link_wait_ns"] += begin - now_ns
        return begin - now_ns

    def _finish(self, request: int, now_ns: int) -> None:
        self._kept(self.prompts.finished(request, now_ns / 1e9), now_ns)
        for child in self.prompts.runs.children.get(request, ()):
            if self.trace.arrival_ns[child] == NO_TIME:
                arrival = now_ns + int(self.trace.delay_ns[child])
                heapq.heappush(self._events, (arrival, _ARRIVE, child))

    def _kept(self, stored: bool, now_ns: int) -> None:
        """Note now and then what the tiers hold."""
        if not stored:
            return
        if self._stores % max(1, len(self.trace) // OCCUPANCY_POINTS) == 0:
            used = tuple(store.used_bytes for store in self.cache.stores)
            self._occupancy.append(((now_ns - self._first_ns) / 1e9, used))
        self._stores += 1

    def _count(self, hit: PrefixHit) -> None:
        sums = self._sums
        sums["loaded"] += hit.loaded_tokens
        sums["recomputed"] += hit.recomputed_tokens
        sums["computed"] += hit.computed_tokens
        sums["rounding"] += hit.rounding_tokens
        sums["replays"] += hit.replay is not None
        for veto in hit.vetoes:
            self._vetoed[veto.pool] = self._vetoed.get(veto.pool, 0) + veto.tokens
        left = hit.loaded_tokens
        for load in hit.loads:
            if load.pool == "compressed":
                used = min(left, load.tokens)
                self._by_tier[load.tier] += used
                left -= used

    def _totals(self, span_s: float) -> ReplayTotals:
        policy, sums = self.cache.rules.policy, self._sums
        served = np.array(self._served, dtype=np.int64)
        counted = np.sort(served[self.trace.warm_up :])
        return ReplayTotals(
            policy=policy.name,
            exact=policy.exact,
            requests=len(counted),
            input_tokens=int(self.trace.input_tokens[counted].sum()),
            loaded_tokens=sums["loaded"],
            recomputed_tokens=sums["recomputed"],
            computed_tokens=sums["computed"],
            vetoed_tokens=self._vetoed,
            rounding_tokens=sums["rounding"],
            replays=sums["replays"],
            declined=self._declined,
            tiers=tuple(
                TierTotals(
                    name=store.tier.name,
                    capacity_bytes=store.tier.capacity_bytes,
                    peak_bytes=store.peak_bytes,
                    end_bytes=store.used_bytes,
                    written_bytes=store.written_bytes,
                    read_bytes=store.read_bytes,
                    loaded_tokens=self._by_tier[store.tier.name],
                    device_years=store.tier.device_years(store.written_bytes, max(span_s, 1e-9)),
                    write_busy_s=store.writes.busy_s,
                    write_behind_s=store.writes.behind_s,
                )
                for store in self.cache.stores
            ),
            ttft_ns=self._ttft[counted],
            uncached_ns=self._uncached[counted],
            order=order_text(self.trace, served),
            computing_ns=sums["computing_ns"],
            loading_ns=sums["loading_ns"],
            link_wait_ns=sums["link_wait_ns"],
            span_s=span_s,
            occupancy=tuple(self._occupancy),
        )
