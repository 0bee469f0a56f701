"""Prompts of a trace against one cache: found, kept once computed, kept again with the reply.

Counting, the replay of a trace and serving are this one use of the cache; they differ in the tiers
(one without end, or those of a node) and in who owns the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.prefix.hit import PrefixHit
from simulator.prefix.known_prefix import run_lists
from simulator.prefix.prefix_index import Match
from simulator.prefix.restore_time import RestorePlan, RestoreTimer, fastest
from simulator.prefix.tiered_cache import TieredCache
from workloads.traffic.trace import NO_REQUEST, Trace


class TraceRuns:
    """Block ids of a trace's prompts, shared by all replicas: runs, and which prompt goes on."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.runs = list(run_lists(trace))
        self.children = children_of(trace)
        self._replies: dict[int, list[tuple[int, int]] | None] = {}

    def with_reply(self, request: int) -> list[tuple[int, int]] | None:
        """Runs of a prompt and its reply, as the next prompt of the session has them, or None."""
        if request not in self._replies:
            self._replies[request] = self._with_reply(request)
        return self._replies[request]

    def _with_reply(self, request: int) -> list[tuple[int, int]] | None:
        end = int(self.trace.input_tokens[request] + self.trace.output_tokens[request])
        for child in self.children.get(request, ()):
            if goes_on(self.trace, self.runs, request, child):
                return head_runs(self.runs[child], end // self.trace.block_tokens)
        return None


@dataclass(frozen=True, slots=True)
class Found:
    """How a prompt is served: its hit, and the times of it; `declined` a longer, slower one."""

    hit: PrefixHit
    plan: RestorePlan | None
    declined: bool = False


class CachedPrompts:
    """Requests of a trace, told by their number, and the cache that serves them.

    `timer` prices hits; without one nothing is timed. `choose`: a slower tier is used only where
    that is faster than computing; it needs a timer. `loads_only`: hits that nothing has to be
    loaded for are taken as they are, untimed.
    """

    def __init__(
        self,
        runs: TraceRuns,
        cache: TieredCache,
        timer: RestoreTimer | None = None,
        *,
        choose: bool = False,
        loads_only: bool = False,
    ) -> None:
        self.runs = runs
        self.cache = cache
        self.timer = timer
        self._choose = choose and timer is not None
        self._loads_only = loads_only
        self._hits: dict[int, PrefixHit] = {}

    def find(self, request: int, now_s: float) -> Found:
        """The hit of a request that arrives now, which counts as a use."""
        self.cache.expire(now_s)
        match = self.cache.look_up(self.runs.runs[request])
        found = self._best(match, self.prompt_tokens(request))
        self.cache.use(match, found.hit, now_s)
        self._hits[request] = found.hit
        return found

    def peek(self, request: int, tiers: int | None = None) -> PrefixHit:
        """What would be found in the fastest `tiers` tiers, without counting as a use."""
        match = self.cache.look_up(self.runs.runs[request])
        return self.cache.hit(match, self.prompt_tokens(request), tiers)

    def answered(self, request: int, now_s: float) -> bool:
        """Keep a prompt that has been computed; whether it was found before and is kept."""
        return self._store(request, now_s, self.runs.runs[request], self.prompt_tokens(request))

    def finished(self, request: int, now_s: float) -> bool:
        """Keep the reply too, where the trace shows its blocks; the request is over."""
        runs = self.runs.with_reply(request)
        end = self.prompt_tokens(request) + int(self.runs.trace.output_tokens[request])
        kept = runs is not None and self._store(request, now_s, runs, end)
        self._hits.pop(request, None)
        return kept

    def prompt_tokens(self, request: int) -> int:
        """Length of a prompt."""
        return int(self.runs.trace.input_tokens[request])

    def _best(self, match: Match, prompt: int) -> Found:
        """The whole hit, or where `choose` allows it the fastest without the slowest tiers."""
        whole = self.cache.hit(match, prompt)
        own = self.cache.stores[0].tier.name
        if self.timer is None or (
            self._loads_only and all(load.tier == own for load in whole.loads)
        ):
            return Found(whole, None)
        plans = [self.timer.plan(whole)]
        if self._choose:
            used = {load.tier for load in whole.loads}
            # Other plans leave out the slowest tier in use, and so on up.
            for depth, store in enumerate(self.cache.stores):
                if store.tier.name in used:
                    plans.append(self.timer.plan(self.cache.hit(match, prompt, depth)))
        plan = fastest(plans)
        return Found(plan.hit, plan, plan.hit.loaded_tokens < whole.loaded_tokens)

    def _store(self, request: int, now_s: float, runs: Sequence[tuple[int, int]], end: int) -> bool:
        hit = self._hits.get(request)
        if hit is not None:
            self.cache.store(runs, self.prompt_tokens(request), end, hit, now_s)
        return hit is not None


def children_of(trace: Trace) -> dict[int, list[int]]:
    """Requests that follow a request's reply, in order."""
    found: dict[int, list[int]] = {}
    for request, parent in enumerate(trace.parent.tolist()):
        if parent != NO_REQUEST:
            found.setdefault(parent, []).append(request)
    return found


def goes_on(trace: Trace, runs: Sequence[list[tuple[int, int]]], request: int, child: int) -> bool:
    """Whether a prompt (`child`) holds another one's whole blocks and its reply."""
    block, inputs = trace.block_tokens, trace.input_tokens
    end = int(inputs[request] + trace.output_tokens[request])
    whole = int(inputs[request]) // block
    mine, theirs = runs[request], runs[child]
    return int(inputs[child]) >= end and head_runs(mine, whole) == head_runs(theirs, whole)


def head_runs(runs: list[tuple[int, int]], blocks: int) -> list[tuple[int, int]]:
    """Runs of the first blocks; neighbours that go on are joined, so that equal ids compare."""
    out: list[tuple[int, int]] = []
    for first, count in runs:
        count = min(count, blocks)
        if not count:
            break
        blocks -= count
        if out and out[-1][0] + out[-1][1] == first:
            out[-1] = (out[-1][0], out[-1][1] + count)
        else:
            out.append((first, count))
    return out
