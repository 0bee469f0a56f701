"""Restoring a prefix from one tier against computing it: both times, and where they cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulator.prefix.granularity import whole_granules
from simulator.prefix.hit import NOWHERE, Checkpoints, Extent, LiveRows, PrefixHit, Residency
from simulator.prefix.restore_time import RestorePlan, RestoreTimer
from simulator.prefix.tier import Tier
from simulator.prefix.tiered_cache import CacheRules
from simulator.prefix.window_parts import StoredSpan

# Halvings between powers of two at which a crossover is looked for.
_STEPS_AN_OCTAVE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """One prefix: all of it in `tier`, `plan` to restore it, and ns to compute it instead."""

    policy: str
    tier: str
    prefix_tokens: int
    plan: RestorePlan
    recompute_ns: int

    @property
    def restore_wins(self) -> bool:
        """Whether the first token comes earlier with the cache."""
        return self.plan.ttft_ns < self.recompute_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Duels of one policy and tier, shortest prefix first.

    `wins_from`: shortest tried prefix from which on restoring wins up to the longest, or None.
    """

    policy: str
    tier: str
    duels: tuple[Duel, ...]
    wins_from: int | None


def crossover(
    timer: RestoreTimer,
    rules: CacheRules,
    tier: Tier,
    prefixes: Sequence[int],
    new_tokens: int,
) -> Crossover:
    """Duels of a policy on one tier, and the crossover among prefixes eight an octave.

    Assumes: the prompt before was the prefix alone, all that it left is in the one tier, and
    `new_tokens` follow it.
    """
    timer = replace(timer, rows_with_pages=rules.policy.everywhere)
    tried = _lengths(rules.granule_tokens, max(prefixes))
    wins_from: int | None = None
    for prefix in tried:
        if _duel(timer, rules, tier, prefix, new_tokens).restore_wins:
            wins_from = prefix if wins_from is None else wins_from
        else:
            wins_from = None
    duels = tuple(_duel(timer, rules, tier, prefix, new_tokens) for prefix in sorted(prefixes))
    return Crossover(policy=rules.policy.name, tier=tier.name, duels=duels, wins_from=wins_from)


def _duel(timer: RestoreTimer, rules: CacheRules, tier: Tier, prefix: int, new: int) -> Duel:
    return Duel(
        policy=rules.policy.name,
        tier=tier.name,
        prefix_tokens=prefix,
        plan=timer.plan(_hit(rules, tier, prefix, new)),
        recompute_ns=timer.prefill_ns(prefix + new, 0),
    )


def _hit(rules: CacheRules, tier: Tier, prefix: int, new: int) -> PrefixHit:
    granule = rules.granule_tokens
    span = StoredSpan(resumed=0, known=0, resend=prefix - 1, prompt=prefix, end=prefix)
    kept = dict.fromkeys(rules.policy.kept(span, granule), tier.name)
    windows: LiveRows | Checkpoints = Checkpoints(kept) if kept else NOWHERE
    if rules.policy.everywhere:
        windows = LiveRows([(0, prefix, tier.name)], rules.geometry.n_win, granule)
    return rules.hit_rule.find(
        prefix + new,
        Residency(
            known_tokens=prefix,
            compressed=[Extent(prefix, tier.name)],
            windows=windows,
            overlaps=windows if rules.sizes.overlap_bytes else None,
        ),
    )


def _lengths(granule: int, longest: int) -> list[int]:
    """Whole granules up to the longest, eight an octave."""
    out, length = [], float(granule)
    while length <= longest:
        out.append(whole_granules(round(length), granule))
        length *= 2 ** (1 / _STEPS_AN_OCTAVE)
    return sorted(set(out))
