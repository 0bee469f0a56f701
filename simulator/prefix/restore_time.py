"""Time to the first token with a hit: what is loaded, what is computed, and which way is faster.

Unloaded: one request at a time, nothing else on the links or the chip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulator.basis.whole import ceil_div
from simulator.prefix.cached_bytes import CachedBytes
from simulator.prefix.hit import PrefixHit
from simulator.prefix.tier import Tier

# Time in ns to compute new tokens of a prompt after past ones: (new, past).
PrefillTime = Callable[[int, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """One way to serve a prompt: `hit`, ns of its parts, and the first token after `ttft_ns`.

    `load_ns` by tier, in the order of loading: of `load_bytes` in `load_objects`, whose latency is
    `latency_ns` of it. `replay_ns` is part of `compute_ns`.
    """

    hit: PrefixHit
    load_ns: tuple[tuple[str, int], ...]
    compute_ns: int
    replay_ns: int
    ttft_ns: int
    load_bytes: int = 0
    load_objects: int = 0
    latency_ns: int = 0

    @property
    def loading_ns(self) -> int:
        """All loads."""
        return sum(ns for _, ns in self.load_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTimer:
    """Prices hits on tiers.

    `token_ns(context)`: time of one reply token. `layer_by_layer`: loads of later layers overlap
    with the computing of earlier ones.

    Assumes: loads from different tiers follow one another over the chip's one link to its host.
    Assumes: layers load and compute in equal parts where they overlap.
    """

    tiers: Sequence[Tier]
    sizes: CachedBytes
    layers: int
    prefill_ns: PrefillTime
    token_ns: Callable[[int], int] = lambda context: 20_000_000
    layer_by_layer: bool = True
    rows_with_pages: bool = False

    def plan(self, hit: PrefixHit) -> RestorePlan:
        """Times of a hit."""
        moved = [(tier, *self._load(tier, hit)) for tier in self.tiers]
        loads = [(tier.name, tier.read_ns(nbytes, count)) for tier, nbytes, count in moved]
        loading = sum(ns for _, ns in loads)
        compute, replay = self._compute_ns(hit)
        if self.layer_by_layer:
            first_load, first_compute = loading / self.layers, compute / self.layers
            ttft = round(max(loading + first_compute, first_load + compute))
        else:
            ttft = loading + compute
        return RestorePlan(
            hit=hit,
            load_ns=tuple((name, ns) for name, ns in loads if ns),
            compute_ns=compute,
            replay_ns=replay,
            ttft_ns=ttft,
            load_bytes=sum(nbytes for tier, nbytes, _ in moved if tier.read),
            load_objects=sum(count for tier, _, count in moved if tier.read),
            latency_ns=sum(tier.latency_ns(count) for tier, _, count in moved),
        )

    def _load(self, tier: Tier, hit: PrefixHit) -> tuple[int, int]:
        """Bytes and objects that a hit takes from a tier."""
        nbytes = objects = 0
        for load in hit.loads:
            if load.tier != tier.name:
                continue
            if load.pool == "compressed":
                nbytes += self.sizes.pages_bytes(load.tokens)
                pages = ceil_div(load.tokens, self.sizes.page_tokens)
                objects += pages * self.sizes.page_objects
            elif load.pool == "window":
                nbytes += self.sizes.window_bytes
                objects += 1 if self.rows_with_pages else self.sizes.checkpoint_objects
            else:
                nbytes += self.sizes.overlap_bytes
        return nbytes, objects

    def _compute_ns(self, hit: PrefixHit) -> tuple[int, int]:
        """All computing, and what a replay adds to it: replayed and new tokens run together.

        Tokens that a trimmed replay runs through some layers count by their share of layers.
        """
        left = hit.prompt_tokens - hit.loaded_tokens
        work = hit.replay
        whole = self.prefill_ns(left, hit.loaded_tokens)
        if work is None or not work.tokens:
            return whole, 0
        new = self.prefill_ns(left - work.tokens, hit.loaded_tokens + work.tokens)
        share = work.token_layers / (work.tokens * self.layers)
        replay = round(share * (whole - new))
        return new + replay, replay


def fastest(plans: Sequence[RestorePlan]) -> RestorePlan:
    """The plan with the earliest first token; of equal ones the one that loads least."""
    return min(plans, key=lambda plan: (plan.ttft_ns, plan.loading_ns))
