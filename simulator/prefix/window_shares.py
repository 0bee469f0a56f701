"""Policies at their best: how a tier divides its room between windows and pages, swept.

A share of None is one room for both, in which whatever was used longest ago leaves first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.basis.errors import InputError
from simulator.prefix.comparison import CacheDeployment, PolicyRow, compare_policies
from simulator.prefix.window_policy import WindowPolicy
from workloads.traffic.trace import Trace

Share = float | None
SHARED = "shared"
DEFAULT_SHARES: tuple[Share, ...] = (None, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8)
_DRAWS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRow:
    """One policy at every share, `rows` in their order; `best` has the earliest first tokens.

    `p10_s`, `p90_s`: of the mean first token at its best, from sessions drawn anew.
    """

    policy: str
    shares: tuple[Share, ...]
    rows: tuple[PolicyRow, ...]
    best: int
    p10_s: float
    p90_s: float

    @property
    def best_row(self) -> PolicyRow:
        """The run at the best share."""
        return self.rows[self.best]


def parse_shares(text: str) -> tuple[Share, ...]:
    """Shares of a list with commas: `shared`, or a part of the room above 0 and below 1."""
    found: list[Share] = []
    for word in (piece.strip().lower() for piece in text.split(",")):
        if word == "best":
            found += DEFAULT_SHARES
            continue
        try:
            share = None if word == SHARED else float(word)
        except ValueError:
            share = -1.0
        if share is not None and not 0 < share < 1:
            raise InputError(
                f"window share {word!r}: write shared (one room), a part of it above 0 and below "
                "1, several with commas, or best (a sweep)"
            )
        found.append(share)
    return tuple(dict.fromkeys(found))


def share_text(share: Share) -> str:
    """As a user writes it."""
    return SHARED if share is None else f"{share:g}"


def at_shares(
    trace: Trace,
    policies: Sequence[WindowPolicy],
    deployment: CacheDeployment,
    shares: Sequence[Share],
    advance: Callable[[int], None] | None = None,
) -> list[SharedRow]:
    """Every policy at every share, each replayed on the whole trace."""
    runs = []
    for number, share in enumerate(shares):
        tiers = tuple(t.model_copy(update={"window_share": share}) for t in deployment.tiers)
        before = number * len(policies) * len(trace)
        runs.append(
            compare_policies(
                trace,
                policies,
                replace(deployment, tiers=tiers),
                None if advance is None else lambda done, before=before: advance(before + done),  # type: ignore[misc]
            )
        )
    return [
        _row(trace, policy.name, tuple(shares), tuple(rows[place] for rows in runs))
        for place, policy in enumerate(policies)
    ]


def _row(
    trace: Trace, policy: str, shares: tuple[Share, ...], rows: tuple[PolicyRow, ...]
) -> SharedRow:
    best = min(range(len(rows)), key=lambda place: rows[place].ttft_mean_s)
    low, high = mean_interval_s(trace, rows[best].totals.ttft_ns)
    return SharedRow(policy=policy, shares=shares, rows=rows, best=best, p10_s=low, p90_s=high)


def mean_interval_s(trace: Trace, ttft_ns: np.ndarray) -> tuple[float, float]:
    """10 % and 90 % of the mean first token over sessions drawn anew, with replacement, seeded.

    Assumes: sessions of a trace are draws from one kind of traffic, so that drawing them anew says
    how far a mean would be another on another day. A cache that they share is not run anew.
    """
    whole = len(ttft_ns) == len(trace)  # else a warm-up was cut: requests are taken one by one
    session = trace.session if whole else np.arange(len(ttft_ns))
    sums = np.bincount(session, weights=ttft_ns)
    counts = np.bincount(session)
    draw = np.random.default_rng(0).integers(0, len(sums), size=(_DRAWS, len(sums)))
    means = sums[draw].sum(axis=1) / np.maximum(1, counts[draw].sum(axis=1)) / 1e9
    return float(np.percentile(means, 10)), float(np.percentile(means, 90))


def ranking_text(rows: Sequence[SharedRow]) -> str:
    """Which policy is first, and whether the division of the room decides that, in a sentence."""
    order = [row.policy for row in sorted(rows, key=lambda row: row.best_row.ttft_mean_s)]
    firsts = {}
    for place, share in enumerate(rows[0].shares):
        fastest = min(rows, key=lambda row: row.rows[place].ttft_mean_s)
        firsts[share_text(share)] = fastest.policy
    best = min(rows, key=lambda row: row.best_row.ttft_mean_s)
    near = [
        row.policy for row in rows if row is not best and row.best_row.ttft_mean_s <= best.p90_s
    ]
    text = (
        f"each at its best share, {best.policy} has the earliest first tokens (mean "
        f"{best.best_row.ttft_mean_s:.3f} s at {share_text(best.shares[best.best])}, 8 of 10 draws "
        f"of sessions {best.p10_s:.3f} to {best.p90_s:.3f} s), in order: {', '.join(order)}"
    )
    if near:
        text += f"; within that interval: {', '.join(near)}"
    if len(set(firsts.values())) > 1:
        listed = ", ".join(f"{policy} at {share}" for share, policy in firsts.items())
        return f"{text}. The division of the room decides who is first: {listed}."
    if all(run.ttft_mean_s == row.rows[0].ttft_mean_s for row in rows for run in row.rows):
        return f"{text}. No share changes a first token: the room is never short for this trace."
    return f"{text}. The same policy is first at every share."


def pareto_front(rows: Sequence[PolicyRow]) -> list[PolicyRow]:
    """Rows that no other beats in first tokens, bytes stored and money at once."""

    def costs(row: PolicyRow) -> tuple[float, float, float]:
        stored = sum(tier.peak_bytes for tier in row.totals.tiers)
        return row.ttft_mean_s, float(stored), row.total_usd_per_m_input or 0.0

    def beaten(row: PolicyRow) -> bool:
        own = costs(row)
        return any(
            all(a <= b for a, b in zip(costs(other), own, strict=True)) and costs(other) != own
            for other in rows
        )

    return [row for row in rows if not beaten(row)]
