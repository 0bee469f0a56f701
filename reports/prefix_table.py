"""Window policies on a trace as a table for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from reports.text_table import TextColumn
from simulator.prefix.comparison import PolicyRow
from simulator.prefix.replay import TierTotals
from simulator.prefix.window_shares import SharedRow, share_text

DASH = "–"


def comparison_answer(rows: Sequence[PolicyRow], name: str) -> str:
    """The fastest policy and what it is worth, in a sentence."""
    best = min(rows, key=lambda row: row.ttft_mean_s)
    saved = 1 - best.ttft_mean_s / best.uncached_mean_s if best.uncached_mean_s else 0.0
    return (
        f"{name}: {best.totals.order}; "
        f"of {len(rows)} window policies {best.totals.policy} has the shortest mean time "
        f"to the first token, {best.ttft_mean_s:.3f} s against {best.uncached_mean_s:.3f} s "
        f"without a prefix cache ({100 * saved:.1f} % less), at a hit of "
        f"{100 * best.hit_fraction:.2f} % of {best.totals.input_tokens:,} input tokens. "
        "One request at a time: no queue."
    )


def hit_columns(rows: Sequence[PolicyRow]) -> list[TextColumn]:
    """Hits by tier, what vetoed the rest, first tokens and money."""
    tiers = [tier.name for tier in rows[0].totals.tiers]
    price = [row.usd_per_m_input for row in rows]
    both = [row.total_usd_per_m_input for row in rows]
    return [
        _policy(rows),
        _column("hit %", [f"{100 * row.hit_fraction:.2f}" for row in rows]),
        *(
            _column(name, [f"{100 * row.hit_fraction_by_tier[name]:.2f}" for row in rows], 2)
            for name in tiers
        ),
        *(
            _column(
                f"{pool}\nvetoed %",
                [f"{100 * row.vetoed_fraction_by_pool.get(pool, 0):.2f}" for row in rows],
                3,
            )
            for pool in ("window", "compressed", *_rare_vetoes(rows))
        ),
        _column("TTFT\nmean s", [f"{row.ttft_mean_s:.3f}" for row in rows]),
        _column("p99 s", [f"{row.ttft_p99_s:.3f}" for row in rows]),
        _column("slower than\nno cache", [f"{row.slower_requests:,}" for row in rows], 4),
        _column("chip-s\nsaved", [f"{row.chip_s_saved:,.0f}" for row in rows], 1),
        _column("$ per M in\nchips", [DASH if p is None else f"{p:.4f}" for p in price], 1),
        _column("and\nstorage", [DASH if p is None else f"{p:.4f}" for p in both], 1),
    ]


def share_columns(swept: Sequence[SharedRow]) -> list[TextColumn]:
    """A line a policy, a column a division of the room; the best one last."""
    if not swept:
        return []
    names = [share_text(share) for share in swept[0].shares]
    return [
        TextColumn(heading="policy", cells=[one.policy for one in swept], left=True),
        *(
            _column(name, [f"{one.rows[place].ttft_mean_s:.3f}" for one in swept])
            for place, name in enumerate(names)
        ),
        _column("best", [share_text(one.shares[one.best]) for one in swept]),
        _column("hit %\nthere", [f"{100 * one.best_row.hit_fraction:.2f}" for one in swept]),
        _column("8 of 10\ndraws, s", [f"{one.p10_s:.3f}–{one.p90_s:.3f}" for one in swept], 1),
    ]


def _rare_vetoes(rows: Sequence[PolicyRow]) -> list[str]:
    """Pools and rules beside the two usual ones that kept back something."""
    found = {pool for row in rows for pool, share in row.vetoed_fraction_by_pool.items() if share}
    return sorted(found - {"window", "compressed"})


def tier_columns(rows: Sequence[PolicyRow]) -> list[TextColumn]:
    """A line a policy and tier: stored, written, read, wear."""
    pairs = [(row, tier) for row in rows for tier in row.totals.tiers]
    names = [
        row.totals.policy if place == 0 else ""
        for row in rows
        for place in range(len(row.totals.tiers))
    ]
    day = [row.written_bytes_per_day[tier.name] / 1e12 for row, tier in pairs]
    wear = [DASH if t.device_years is None else f"{t.device_years:,.2f}" for _, t in pairs]
    return [
        TextColumn(heading="policy", cells=names, left=True),
        TextColumn(heading="tier", cells=[tier.name for _, tier in pairs], left=True),
        _column("stored\npeak GB", [f"{tier.peak_bytes / 1e9:,.1f}" for _, tier in pairs]),
        _column("of GB", [f"{tier.capacity_bytes / 1e9:,.0f}" for _, tier in pairs], 2),
        _column("written\nGB", [f"{tier.written_bytes / 1e9:,.1f}" for _, tier in pairs]),
        _column("TB a day", [f"{value:,.2f}" for value in day], 1),
        _column(
            "write GB/s\nmean", [f"{row.written_bytes_per_s[t.name] / 1e9:.3f}" for row, t in pairs]
        ),
        _column("time\nwriting %", [_share(row, t) for row, t in pairs], 1),
        _column("behind\ns", [_behind(t) for _, t in pairs], 2),
        _column("read GB", [f"{tier.read_bytes / 1e9:,.1f}" for _, tier in pairs]),
        _column("years until\nworn out", wear, 1),
    ]


def _share(row: PolicyRow, tier: TierTotals) -> str:
    share = row.write_share[tier.name]
    return f"{100 * share:,.2f}" if tier.write_busy_s else DASH


def _behind(tier: TierTotals) -> str:
    return f"{tier.write_behind_s:,.3f}" if tier.write_busy_s else DASH


def comparison_json(rows: Sequence[PolicyRow]) -> list[dict[str, Any]]:
    """Every figure of every row; units in names."""
    out = []
    for row in rows:
        data = asdict(row)
        totals = data.pop("totals")
        for name in ("ttft_ns", "uncached_ns"):
            totals[name] = [int(value) for value in totals[name]]
        out.append({**data, **totals})
    return out


def _policy(rows: Sequence[PolicyRow]) -> TextColumn:
    cells = [row.totals.policy + ("" if row.totals.exact else " ~") for row in rows]
    return TextColumn(heading="policy", cells=cells, left=True)


def _column(heading: str, cells: Sequence[str], rank: int = 0) -> TextColumn:
    return TextColumn(heading=heading, cells=list(cells), rank=rank)
