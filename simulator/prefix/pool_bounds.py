"""Bounds of what pools hit, whatever leaves first: pools of blocks, and of pages with windows.

Pages of a run and the windows of a policy are objects of several sizes that share one pool; a
window needs the pages up to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from simulator.prefix.belady import KnownFuture, belady_hits, know_future
from simulator.prefix.bounds import farthest_bytes, pfoo_hits, upper_bytes
from simulator.prefix.cached_bytes import CachedBytes
from simulator.prefix.known_prefix import Ints, run_lists
from workloads.traffic.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockBounds:
    """Tokens of whole prompts that the best eviction of a pool of blocks hits, and at most."""

    capacity_tokens: int
    lower_hit_tokens: int
    upper_hit_tokens: int
    gap_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBounds:
    """Bytes of pages and windows that the best eviction of one pool finds, at least and at most.

    `used_bytes`: the whole, of all objects that requests use or leave.
    """

    policy: str
    capacity_tokens: int
    capacity_bytes: int
    used_bytes: int
    lower_bytes: int
    upper_bytes: int
    gap_bytes: int


@dataclass(frozen=True, slots=True)
class PoolObjects:
    """`paths`: objects of each request, from the root; `sizes` in bytes, `parents` -1 for none."""

    paths: list[list[int]]
    sizes: list[int]
    parents: list[int]


def block_bounds(trace: Trace, capacities_tokens: Sequence[int]) -> list[BlockBounds]:
    """Belady's optimum and the relaxation, of pools of whole trace blocks."""
    future = know_future(list(run_lists(trace)))
    inputs = trace.input_tokens[trace.warm_up :]

    def tokens(blocks: Ints) -> int:
        hit = blocks[trace.warm_up :] * trace.block_tokens
        return int(np.minimum(hit, inputs).sum())

    again = tokens(pfoo_hits(future, sum(future.counts)))
    found = []
    for capacity in capacities_tokens:
        room = capacity // trace.block_tokens
        lower = tokens(belady_hits(future, room)[0])
        # Cut to what is ever seen again, and not prompt by prompt: the relaxation may give to one
        # what another hits.
        blocks = int(pfoo_hits(future, room, trace.warm_up)[trace.warm_up :].sum())
        upper = min(blocks * trace.block_tokens, again)
        found.append(
            BlockBounds(
                capacity_tokens=capacity,
                lower_hit_tokens=lower,
                upper_hit_tokens=upper,
                gap_tokens=upper - lower,
            )
        )
    return found


def pool_objects(
    trace: Trace, windows: Sequence[Sequence[int]], hits: Ints, sizes: CachedBytes, rows: bool
) -> PoolObjects:
    """Pages of whole runs, and windows that requests leave (`windows`, tokens) or resume from.

    `hits`: tokens of each prompt that are hit with unlimited room. `rows`: pages hold window rows
    of every token as well.

    Assumes: in the bounds of pages and windows, a request uses the windows that it would use with
    unlimited room, and pages of a run that prompts share come and go together.
    """
    future = know_future(list(run_lists(trace)))
    block = trace.block_tokens
    block_bytes = sizes.pages_bytes(block) + (sizes.row_bytes * block if rows else 0)
    found = PoolObjects([], [count * block_bytes for count in future.counts], _parents(future))
    left: dict[int, dict[int, int]] = {}  # windows of a run: their tokens, and their numbers
    for request in range(len(trace)):
        runs = future.segments[future.offsets[request] : future.offsets[request + 1]].tolist()
        path = list(runs)
        resumed = _last_window(left, runs, int(hits[request]))
        if resumed is not None:
            path.append(resumed)
        for at in windows[request]:
            run = next((n for n in reversed(runs) if future.starts[n] * block < at), None)
            if run is None:
                continue
            own = left.setdefault(run, {})
            if at not in own:
                own[at] = len(found.sizes)
                found.sizes.append(sizes.checkpoint_bytes)
                found.parents.append(run)
            if own[at] not in path:
                path.append(own[at])
        found.paths.append(path)
    return found


def _parents(future: KnownFuture) -> list[int]:
    """The run that each one follows."""
    parents = [-1] * len(future.counts)
    for begin, end in pairwise(future.offsets.tolist()):
        path = future.segments[begin:end].tolist()
        for above, one in pairwise(path):
            parents[one] = above
    return parents


def _last_window(left: dict[int, dict[int, int]], runs: list[int], hit: int) -> int | None:
    """Number of the last window up to the hit's end, None without one."""
    for run in reversed(runs):
        at = max((at for at in left.get(run, ()) if at <= hit), default=None)
        if at is not None:
            return left[run][at]
    return None


def pool_bounds(
    policy: str,
    objects: PoolObjects,
    capacities_tokens: Sequence[int],
    sizes: CachedBytes,
    first: int = 0,
) -> list[PoolBounds]:
    """Both bounds of every capacity, which is room for the pages of so many tokens."""
    used = sum(objects.sizes[one] for path in objects.paths[first:] for one in path)
    found = []
    for tokens in capacities_tokens:
        capacity = tokens * sizes.page_bytes // sizes.page_tokens
        lower = farthest_bytes(objects.paths, objects.sizes, capacity, objects.parents, first)
        upper = upper_bytes(objects.paths, objects.sizes, capacity, first)
        found.append(
            PoolBounds(
                policy=policy,
                capacity_tokens=tokens,
                capacity_bytes=capacity,
                used_bytes=used,
                lower_bytes=lower,
                upper_bytes=upper,
                gap_bytes=upper - lower,
            )
        )
    return found
