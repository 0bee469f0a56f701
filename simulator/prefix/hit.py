"""A hit of the heterogeneous cache: what all pools agree on, and which of them vetoed the rest.

A prompt resumes at a boundary where the compressed pages before it, a live window tail of n_win
tokens ending at it, and the compressor's overlap rows are all resident; or, where the policy
replays, behind compressed pages alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from simulator.basis.whole import round_up
from simulator.prefix.granularity import whole_granules
from simulator.prefix.window_geometry import ReplayWork, WindowGeometry
from simulator.prefix.window_policy import FINEST_GRANULE_TOKENS, WindowPolicy

Pool = Literal["compressed", "window", "overlap", "drafts"]
# Two 4-token groups make one entry of a ratio-4 layer: at a boundary the last 4 rows are needed.
OVERLAP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Extent:
    """Tokens up to `end` (from the extent before, or 0) that a tier holds."""

    end: int
    tier: str


class Boundaries(Protocol):
    """Where a pool could resume, and from which tier."""

    def last(self, limit: int) -> tuple[int, str] | None:
        """Largest boundary up to `limit` and the fastest tier that holds it; None if none."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Single boundaries and their tiers."""

    tiers: Mapping[int, str]

    def last(self, limit: int) -> tuple[int, str] | None:
        """Largest checkpoint up to `limit`."""
        at = max((boundary for boundary in self.tiers if 0 < boundary <= limit), default=None)
        return None if at is None else (at, self.tiers[at])


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Rows of every token in spans (start, end, tier): any whole granule in them may resume.

    The last `tail` tokens before a boundary must lie within one span, or reach back to token 0.
    """

    spans: Sequence[tuple[int, int, str]]
    tail: int
    granule: int

    def last(self, limit: int) -> tuple[int, str] | None:
        """Largest boundary up to `limit` whose tail is live."""
        best: tuple[int, str] | None = None
        for start, end, tier in self.spans:
            at = whole_granules(min(end, limit), self.granule)
            if at > 0 and max(0, at - self.tail) >= start and (best is None or at > best[0]):
                best = (at, tier)
        return best


NOWHERE = Checkpoints({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """What the tiers hold of a prompt.

    `known_tokens`: of the prompt's prefix, seen before, resident or not. `compressed`: leading
    pages in order. `windows`, `overlaps`: boundaries; overlaps are None where no layer needs them.
    """

    known_tokens: int
    compressed: Sequence[Extent]
    windows: Boundaries = NOWHERE
    overlaps: Boundaries | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """Tokens of a pool to load from a tier; `objects` are window or overlap checkpoints."""

    pool: Pool
    tier: str
    tokens: int
    objects: int = 0


@dataclass(frozen=True, slots=True)
class Veto:
    """Known tokens that a pool kept from being a hit."""

    pool: Pool
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixHit:
    """How a prompt is served; loaded + recomputed + computed = prompt tokens.

    `loaded_tokens` (the hit) are not computed at all. `recomputed_tokens` have resident compressed
    pages and run again for the sake of the windows or of rounding; `computed_tokens` are new or
    gone. `replay`: work of a replay, None where a window was restored or nothing was.
    `vetoes`: by pool, those with tokens; `rounding_tokens`: lost to granules.
    """

    prompt_tokens: int
    loaded_tokens: int
    recomputed_tokens: int
    computed_tokens: int
    loads: tuple[Load, ...] = ()
    vetoes: tuple[Veto, ...] = ()
    rounding_tokens: int = 0
    replay: ReplayWork | None = None
    restored_at: int | None = field(default=None)

    @property
    def drafted_tokens(self) -> int:
        """Tokens that are computed again for the sake of drafts."""
        return sum(veto.tokens for veto in self.vetoes if veto.pool == "drafts")

    @property
    def vetoed_by(self) -> Pool | None:
        """The pool that kept back most of the known tokens."""
        worst = max(self.vetoes, key=lambda veto: veto.tokens, default=None)
        return worst.pool if worst else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRule:
    """What a cache requires of a hit.

    `whole_prompt`: count a prompt that is all cached as all hit, as reference rates do; a served
    one computes at least its last token. `clipped`: a checkpoint further away than n_win x L tokens
    is left aside for a replay of so many, where the policy may. `draft_granules`: at the end of a
    hit, which an engine that drafts computes again; the veto is that of `drafts`.

    Assumes: where prompts are served, periodic windows are clipped: tokens computed again are
    min(distance to the checkpoint, n_win x L). Reference counting takes the whole distance.
    Assumes: a window off the end of a page needs that page as well: entries of its tokens cannot be
    made from half of them.
    """

    policy: WindowPolicy
    geometry: WindowGeometry
    granule_tokens: int = FINEST_GRANULE_TOKENS
    whole_prompt: bool = False
    clipped: bool = False
    draft_granules: int = 0

    def find(self, prompt_tokens: int, residency: Residency) -> PrefixHit:
        """The hit of a prompt given what is resident."""
        limit = prompt_tokens if self.whole_prompt else max(0, prompt_tokens - 1)
        known = min(residency.known_tokens, limit)
        resident = min(max((e.end for e in residency.compressed), default=0), known)
        whole = whole_granules(resident, self.granule_tokens)
        reach = max(0, whole - self.draft_granules * self.granule_tokens)
        window, found = _agreed(residency, reach)
        replay = self._replay(reach - found.at) if reach else None
        replays = replay is not None and replay.tokens < reach - found.at
        recomputed = replay.tokens if replay is not None and replays else reach - found.at
        loaded = reach - recomputed
        pages = reach if replays else round_up(loaded, self.granule_tokens)
        loads = _page_loads(residency.compressed, pages)
        if not replays:
            loads += found.loads(self.geometry.n_win)
        lost = {
            "compressed": known - resident,
            # What a window alone would allow is not the fault of the overlap rows.
            "window": reach - max(loaded, window),
            "overlap": max(loaded, window) - loaded,
            "drafts": whole - reach,
        }
        return PrefixHit(
            prompt_tokens=prompt_tokens,
            loaded_tokens=loaded,
            recomputed_tokens=recomputed + (resident - reach),
            computed_tokens=prompt_tokens - resident,
            loads=tuple(loads),
            vetoes=tuple(Veto(pool, lost[pool]) for pool in _POOLS if lost[pool]),
            rounding_tokens=resident - whole,
            replay=replay if replays else None,
            restored_at=found.at if found.at and not replays else None,
        )

    def _replay(self, distance: int) -> ReplayWork | None:
        replay = self.policy.replay(distance, self.geometry)
        return replay or (self.policy.clip(distance, self.geometry) if self.clipped else None)


_POOLS: tuple[Pool, ...] = ("compressed", "window", "overlap", "drafts")


@dataclass(frozen=True, slots=True)
class _Agreed:
    """A boundary that windows and overlap rows agree on, and their tiers."""

    at: int
    window_tier: str = ""
    overlap_tier: str | None = None

    def loads(self, n_win: int) -> list[Load]:
        """The window and the overlap rows at the boundary."""
        if not self.at:
            return []
        loads = [Load("window", self.window_tier, min(n_win, self.at), 1)]
        if self.overlap_tier is not None:
            loads.append(Load("overlap", self.overlap_tier, min(OVERLAP_TOKENS, self.at), 1))
        return loads


def _agreed(residency: Residency, reach: int) -> tuple[int, _Agreed]:
    """Largest boundary of a window alone, and the largest that every pool agrees on."""
    window = residency.windows.last(reach)
    first = window[0] if window else 0
    while window is not None:
        at, tier = window
        if residency.overlaps is None:
            return first, _Agreed(at, tier)
        overlap = residency.overlaps.last(at)
        if overlap is None:
            break
        if overlap[0] == at:
            return first, _Agreed(at, tier, overlap[1])
        window = residency.windows.last(overlap[0])
    return first, _Agreed(0)


def _page_loads(extents: Sequence[Extent], tokens: int) -> list[Load]:
    """Compressed tokens by tier, in order of first use."""
    by_tier: dict[str, int] = {}
    start = 0
    for extent in extents:
        end = min(extent.end, tokens)
        if end > start:
            by_tier[extent.tier] = by_tier.get(extent.tier, 0) + end - start
            start = end
    return [Load("compressed", tier, count) for tier, count in by_tier.items()]
