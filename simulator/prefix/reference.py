"""Reference counting of hits: file order, inserted at once, no service time, whole prompts.

An independent replay that any simulator can be held against. Shares are of all input tokens, and a
prompt that is cached to its end counts whole; a served one still computes its last token, which is
counted beside (`served`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.basis.errors import InputError, unknown_name
from simulator.prefix.array_cache import cache_of
from simulator.prefix.belady import belady_hits, know_future
from simulator.prefix.block_pool import BLOCK_POLICIES, block_hits, parse_block_policy
from simulator.prefix.bounds import pfoo_hits
from simulator.prefix.cached_bytes import CachedBytes
from simulator.prefix.cached_prompts import CachedPrompts, TraceRuns
from simulator.prefix.eviction import EvictionPolicy, parse_eviction
from simulator.prefix.granularity import in_granules
from simulator.prefix.known_prefix import (
    Advance,
    Ints,
    KnownPrefixes,
    known_prefixes,
    mark_layer,
    run_lists,
)
from simulator.prefix.lru_distance import reuse_groups
from simulator.prefix.pool_bounds import (
    BlockBounds,
    PoolBounds,
    block_bounds,
    pool_bounds,
    pool_objects,
)
from simulator.prefix.prefix_index import PrefixIndex
from simulator.prefix.segment_pool import SegmentPool
from simulator.prefix.tier import unlimited_tier
from simulator.prefix.tiered_cache import CacheRules
from simulator.prefix.window_geometry import WindowGeometry
from simulator.prefix.window_parts import StoredSpan
from simulator.prefix.window_policy import WindowPolicy
from simulator.prefix.write_policy import find_write_policy
from workloads.traffic.trace import Trace
from workloads.traffic.transforms import order_text

BELADY = "belady"
PFOO = "pfoo"
Held = Callable[[int], tuple[Ints, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCount:
    """Hits of a window policy with unlimited capacity.

    `hit_tokens` counts whole prompts; `served_hit_tokens` leaves at least the last token of each to
    be computed. `window_lost_tokens`: known tokens that the window policy kept from being hits.
    `replayed_requests`: those that resumed by a replay. `windows`: checkpoints that are
    kept in the end, None where they were not counted; `row_tokens`: tokens whose window rows are
    kept instead, by a policy that keeps them all.
    """

    policy: str
    exact: bool
    hit_tokens: int
    served_hit_tokens: int
    window_lost_tokens: int
    replayed_requests: int
    windows: int | None
    row_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCount:
    """Hits of one shared pool of bounded size, windows left aside."""

    eviction: str
    capacity_tokens: int
    capacity_blocks: int
    hit_tokens: int
    served_hit_tokens: int
    hit_blocks: int
    peak_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCounts:
    """All counts of one trace; requests of a warm-up are in none.

    `order`: in which order and at which concurrency requests met the cache. `granule_tokens`: None
    where hits may end at any token. `bounds`: of every capacity, whatever leaves first;
    `window_bounds`: of pools that hold windows beside pages, by policy.
    """

    trace: str
    requests: int
    order: str
    granule_tokens: int | None
    block_tokens: int
    blocks: int
    distinct_blocks: int
    segments: int
    input_tokens: int
    known_blocks: int
    policies: tuple[PolicyCount, ...]
    capacities: tuple[CapacityCount, ...]
    bounds: tuple[BlockBounds, ...] = ()
    window_bounds: tuple[PoolBounds, ...] = ()


def reference_counts(
    trace: Trace,
    policies: Sequence[WindowPolicy],
    geometry: WindowGeometry,
    capacities_tokens: Sequence[int] = (),
    evictions: Sequence[str] = ("lru",),
    advance: Advance | None = None,
    count_windows: bool = False,
    granule_tokens: int | None = None,
    quotas: dict[str, float] | None = None,
    sizes: CachedBytes | None = None,
) -> ReferenceCounts:
    """Count hits of every policy at once, then of every eviction and capacity.

    `granule_tokens`: hits as of an engine that finds whole granules alone: served prompts, whose
    last token is computed, and pools of whole granules. `quotas`: parts of a pool by tenant,
    counted beside the pool that all share. `sizes`: bounds of every capacity are counted too, of
    pools of blocks and of those of pages and windows of these sizes.

    `count_windows`: count kept windows too, which takes longer than the hits. `advance` is called
    with the requests done, over all passes.

    Assumes: requests are looked up in file order and inserted at once; no service time.
    Assumes: replies are not in a trace's block ids, so that only ends of prompts are boundaries.
    """
    layers = [mark_layer(policy) for policy in policies]
    wanted = list(dict.fromkeys(layer for layer in layers if layer is not None))
    known = known_prefixes(trace, () if granule_tokens else wanted, advance)
    pooled = trace
    if capacities_tokens and granule_tokens:
        pooled = in_granules(trace, granule_tokens)
    counts = [
        count
        for number, eviction in enumerate(evictions if capacities_tokens else (), start=1)
        for count in capacity_counts(
            pooled, eviction, capacities_tokens, _shifted(advance, number * len(trace))
        )
    ]
    if quotas:
        for eviction in evictions if capacities_tokens else ():
            counts += quota_counts(pooled, eviction, capacities_tokens, quotas)
    counted = slice(trace.warm_up, None)
    return ReferenceCounts(
        trace=trace.name,
        requests=len(trace) - trace.warm_up,
        order=order_text(trace),
        granule_tokens=granule_tokens,
        block_tokens=trace.block_tokens,
        blocks=int(trace.run_count[trace.run_offsets[trace.warm_up] :].sum()),
        distinct_blocks=known.distinct_blocks,
        segments=known.segments,
        input_tokens=int(trace.input_tokens[counted].sum()),
        known_blocks=int(known.blocks[counted].sum()),
        policies=tuple(
            policy_count(trace, known, policy, geometry, count_windows, granule_tokens)
            for policy in policies
        ),
        capacities=tuple(counts),
        bounds=tuple(
            block_bounds(pooled, capacities_tokens) if sizes and capacities_tokens else ()
        ),
        window_bounds=tuple(
            bound
            for policy in policies
            if sizes and capacities_tokens
            for bound in _window_bounds(
                trace, known, policy, geometry, granule_tokens, capacities_tokens, sizes
            )
        ),
    )


def _window_bounds(
    trace: Trace,
    known: KnownPrefixes,
    policy: WindowPolicy,
    geometry: WindowGeometry,
    granule_tokens: int | None,
    capacities_tokens: Sequence[int],
    sizes: CachedBytes,
) -> list[PoolBounds]:
    """Of a pool of pages and a policy's windows."""
    hits, _ = _hits_of(trace, known, policy, geometry, granule_tokens)
    windows = list(_left_windows(trace, known, policy, hits))
    objects = pool_objects(trace, windows, hits, sizes, policy.everywhere)
    return pool_bounds(policy.name, objects, capacities_tokens, sizes, trace.warm_up)


def _hits_of(
    trace: Trace,
    known: KnownPrefixes,
    policy: WindowPolicy,
    geometry: WindowGeometry,
    granule_tokens: int | None,
) -> tuple[Ints, Ints]:
    """`policy_hits`, or of whole granules."""
    if granule_tokens is None:
        return policy_hits(trace, known, policy, geometry)
    return granule_hits(trace, policy, geometry, granule_tokens)


def policy_hits(
    trace: Trace, known: KnownPrefixes, policy: WindowPolicy, geometry: WindowGeometry
) -> tuple[Ints, Ints]:
    """Tokens of each prompt that are hit [N], and whether a replay was needed for it [N]."""
    granule = policy.granule_tokens or 1
    run = known.tokens // granule * granule
    boundary = _boundaries(policy, run)
    layer = mark_layer(policy)
    if layer is not None:
        boundary = np.maximum(boundary, known.marks[layer])
    distance = run - boundary
    longest = policy.replay(1 << 40, geometry)
    if longest is None:
        return boundary, np.zeros(len(run), dtype=np.int64)
    recomputed = np.minimum(distance, longest.tokens)
    return run - recomputed, (recomputed < distance).astype(np.int64)


def policy_count(
    trace: Trace,
    known: KnownPrefixes,
    policy: WindowPolicy,
    geometry: WindowGeometry,
    count_windows: bool = False,
    granule_tokens: int | None = None,
) -> PolicyCount:
    """Sums of a policy's hits."""
    hits, replayed = _hits_of(trace, known, policy, geometry, granule_tokens)
    counted = slice(trace.warm_up, None)
    inputs, tokens = trace.input_tokens[counted], known.tokens[counted]
    return PolicyCount(
        policy=policy.name,
        exact=policy.exact,
        hit_tokens=int(hits[counted].sum()),
        served_hit_tokens=_served(hits[counted], inputs),
        window_lost_tokens=int((tokens - hits[counted]).sum()),
        replayed_requests=int(replayed[counted].sum()),
        windows=_windows(trace, known, policy, hits) if count_windows else None,
        row_tokens=int((trace.input_tokens - known.tokens).sum()) if policy.everywhere else 0,
    )


def granule_hits(
    trace: Trace, policy: WindowPolicy, geometry: WindowGeometry, granule_tokens: int
) -> tuple[Ints, Ints]:
    """Tokens of each served prompt that are hit [N], and whether by a replay [N].

    The cache of the replay and of serving, with one tier without end and no clock: every prompt is
    kept before the next one comes.
    """
    sizes = CachedBytes(
        page_tokens=granule_tokens, page_bytes=1, page_objects=1, window_bytes=1, overlap_bytes=0,
        checkpoint_objects=1, row_bytes=1,
    )  # fmt: skip
    rules = CacheRules(
        policy=policy, geometry=geometry, sizes=sizes, write=find_write_policy("through")
    )
    prompts = CachedPrompts(
        TraceRuns(trace), cache_of([unlimited_tier()], rules, trace.block_tokens)
    )
    hits = np.zeros(len(trace), dtype=np.int64)
    replayed = np.zeros(len(trace), dtype=np.int64)
    for request in range(len(trace)):
        hit = prompts.find(request, 0.0).hit
        prompts.answered(request, 0.0)
        hits[request], replayed[request] = hit.loaded_tokens, hit.replay is not None
    return hits, replayed


def eviction_name(text: str) -> str:
    """An eviction policy's name as written, known to be one; `InputError` for a typo."""
    name = text.strip().lower()
    if name not in (BELADY, PFOO) and parse_block_policy(name) is None:
        try:
            parse_eviction(name)
        except InputError as error:
            others = ", ".join((*BLOCK_POLICIES, BELADY, PFOO))
            raise InputError(f"{error.message}, {others}") from None
    return name


def _windows(trace: Trace, known: KnownPrefixes, policy: WindowPolicy, hits: Ints) -> int:
    """Windows that all requests leave behind, in whole trace blocks; none is kept twice."""
    return sum(map(len, _left_windows(trace, known, policy, hits)))


def _left_windows(
    trace: Trace, known: KnownPrefixes, policy: WindowPolicy, hits: Ints
) -> Iterator[list[int]]:
    """Boundaries at which each request leaves a window."""
    block = trace.block_tokens
    for hit, run, prompt in zip(
        hits.tolist(), known.tokens.tolist(), trace.input_tokens.tolist(), strict=True
    ):
        end = prompt // block * block
        # What was known holds its windows already, but where a prompt parted from it.
        resumed = max(hit, run) if not policy.marks else hit
        # Equal prompts count whole here: their window is the one at the end.
        span = StoredSpan(
            resumed=resumed, known=run // block * block, resend=end, prompt=end, end=end
        )
        yield [] if policy.everywhere else policy.kept(span, policy.granule_tokens or 1)


def capacity_counts(
    trace: Trace, eviction: str, capacities_tokens: Sequence[int], advance: Advance | None = None
) -> list[CapacityCount]:
    """Hits with pools of whole trace blocks; `eviction` is a policy's name or `belady`."""
    sizes = [_whole_blocks(tokens, trace.block_tokens) for tokens in capacities_tokens]
    name, held = _held_by(trace, eviction, advance)
    counts = []
    for tokens, capacity_blocks in zip(capacities_tokens, sizes, strict=True):
        hit_blocks, peak = held(capacity_blocks)
        hit_blocks, inputs = hit_blocks[trace.warm_up :], trace.input_tokens[trace.warm_up :]
        hits = np.minimum(hit_blocks * trace.block_tokens, inputs)
        counts.append(
            CapacityCount(
                eviction=name,
                capacity_tokens=tokens,
                capacity_blocks=capacity_blocks,
                hit_tokens=int(hits.sum()),
                served_hit_tokens=_served(hits, inputs),
                hit_blocks=int(hit_blocks.sum()),
                peak_blocks=peak,
            )
        )
    return counts


def parse_quotas(text: str) -> dict[str, float]:
    """Parts of a pool by tenant, as `a=0.5,b=0.25`; raises InputError for more than all of it."""
    found: dict[str, float] = {}
    for word in text.split(","):
        name, _, part = (piece.strip() for piece in word.partition("="))
        try:
            share = float(part)
        except ValueError:
            share = 0.0
        if not name or not 0 < share <= 1 or name in found:
            raise InputError(
                f"quota {word.strip()!r}: write TENANT=PART once for each, above 0 and at most 1"
            )
        found[name] = share
    if sum(found.values()) > 1 + 1e-9:
        raise InputError(f"quotas add up to {sum(found.values()):g} of the pool, more than 1")
    return found


def quota_counts(
    trace: Trace, eviction: str, capacities_tokens: Sequence[int], quotas: dict[str, float]
) -> list[CapacityCount]:
    """As `capacity_counts`, each tenant within its part of the pool; those without have no room."""
    if trace.tenant is None:
        raise InputError(f"quotas are of tenants, and {trace.name} has none: name their column")
    unknown = [name for name in quotas if name not in trace.tenants]
    if unknown:
        raise InputError(unknown_name("tenant", unknown[0], trace.tenants))
    counts = []
    for tokens in capacities_tokens:
        hits = np.zeros(len(trace), dtype=np.int64)
        blocks = peak = 0
        for name, share in quotas.items():
            own = int(tokens * share) // trace.block_tokens
            rows = np.flatnonzero(trace.tenant == trace.tenants.index(name))
            if own:
                part = trace.take(rows)
                hits[rows], used = _held_by(part, eviction, None)[1](own)
                blocks, peak = blocks + own, peak + used
        counted = slice(trace.warm_up, None)
        inputs = trace.input_tokens[counted]
        found = np.minimum(hits[counted] * trace.block_tokens, inputs)
        counts.append(
            CapacityCount(
                eviction=f"{eviction}, quotas",
                capacity_tokens=tokens,
                capacity_blocks=blocks,
                hit_tokens=int(found.sum()),
                served_hit_tokens=_served(found, inputs),
                hit_blocks=int(hits[counted].sum()),
                peak_blocks=peak,
            )
        )
    return counts


def _held_by(trace: Trace, eviction: str, advance: Advance | None) -> tuple[str, Held]:
    """Name of a policy, and what a pool of any size holds of every prompt under it."""
    if eviction == BELADY:
        future = know_future(list(run_lists(trace)))
        return BELADY, lambda blocks: belady_hits(future, blocks)
    if eviction == PFOO:
        future = know_future(list(run_lists(trace)))
        return PFOO, lambda blocks: (pfoo_hits(future, blocks, trace.warm_up), blocks)
    make = parse_block_policy(eviction)
    if make is not None:
        return eviction, lambda blocks: block_hits(trace, make, blocks, advance)
    policy = parse_eviction(eviction)
    if policy.name == "lru":
        groups = reuse_groups(run_lists(trace), len(trace), advance)
        return policy.name, lambda blocks: (groups.hit_blocks(blocks), groups.peak_blocks(blocks))
    return policy.name, lambda blocks: pool_hits(trace, policy, blocks, advance)


def _whole_blocks(capacity_tokens: int, block_tokens: int) -> int:
    blocks = capacity_tokens // max(1, block_tokens)
    if blocks < 1:
        raise InputError(
            f"capacity of {capacity_tokens:,} tokens holds no block of {block_tokens:,} tokens: "
            f"give at least {block_tokens:,}"
        )
    return blocks


def pool_hits(
    trace: Trace, eviction: EvictionPolicy, capacity_blocks: int, advance: Advance | None = None
) -> tuple[Ints, int]:
    """Leading blocks of each prompt that a pool holds when it arrives, and the pool's peak."""
    index = PrefixIndex(trace.block_tokens)
    pool = SegmentPool(index, capacity_blocks, eviction)
    arrivals_s = (np.maximum(trace.arrival_ns, 0) / 1e9).tolist()
    now_s, peak, hits = 0.0, 0, []
    for request, runs in enumerate(run_lists(trace)):
        now_s = max(now_s, arrivals_s[request])
        pool.expire(now_s)
        found = index.match(runs)
        hits.append(pool.leading_blocks(found.path, found.blocks))
        path = index.insert(runs, found=found)
        pool.store(path, now_s)
        if path:
            index.prune(path[-1])
        peak = max(peak, pool.used_blocks)
        if advance is not None:
            advance(request)
    return np.array(hits, dtype=np.int64), peak


def _boundaries(policy: WindowPolicy, run: Ints) -> Ints:
    """`policy.boundary` of every run; equal runs are asked once."""
    values, places = np.unique(run, return_inverse=True)
    return np.array([policy.boundary(int(v)) for v in values], dtype=np.int64)[places]


def _served(hits: Ints, input_tokens: Ints) -> int:
    """Sum of hits when the last token of every prompt is computed."""
    return int(np.minimum(hits, np.maximum(0, input_tokens - 1)).sum())


def _shifted(advance: Advance | None, done: int) -> Advance | None:
    return None if advance is None else lambda request: advance(done + request)
