"""The page of a comparison of window policies: answer, tables, and four figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from reports.figure_style import axis, layout
from reports.palette import INK, MUTED
from reports.prefix_table import comparison_answer, hit_columns, tier_columns
from reports.report import Card, Figure, Report, Section
from reports.report_files import write_page_with_figures
from reports.report_tables import of_columns
from simulator.prefix.cached_bytes import CachedBytes
from simulator.prefix.comparison import PolicyRow
from simulator.prefix.reference import ReferenceCounts

_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b8a100", "#8d95a1")
_CAPTIONS = {
    "capacity": (
        "Hit by the size of the pool",
        "One shared pool, windows left aside: least recently used, and the most that any eviction "
        "could have (Belady's optimum).",
    ),
    "pareto": (
        "What windows cost and what they spare",
        "Unlimited capacity: bytes of windows kept against known tokens that are computed again. "
        "Towards the corner at the lower left is better.",
    ),
    "ttft": (
        "Time to the first token",
        "One request at a time: share of requests that have it by then.",
    ),
    "occupancy": (
        "Stored bytes by tier over time",
        "As shares of the tier's size, with the policy of the shortest mean time to the first "
        "token.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPage:
    """All that the page shows.

    `reference`: unlimited counts of a sweep of policies, and bounded pools (`lru` and `belady`).
    """

    title: str
    machine: str
    rows: Sequence[PolicyRow]
    reference: ReferenceCounts
    sizes: CachedBytes
    notes: Sequence[str]
    assumptions: Sequence[str]
    files: Mapping[str, Path]
    command: str
    data: Mapping[str, Any] = field(default_factory=dict)


def write_comparison_page(path: Path, page: ComparisonPage) -> list[Path]:
    """Write the page, and its figures as SVG, which are returned."""
    return write_page_with_figures(path, comparison_report(page), page.command)


def comparison_report(page: ComparisonPage) -> Report:
    """The report of a comparison of window policies."""
    figures = tuple(
        Figure(id=name, title=_CAPTIONS[name][0], note=_CAPTIONS[name][1], drawing=drawing)
        for name, drawing in comparison_figures(page).items()
    )
    best = min(page.rows, key=lambda row: row.ttft_mean_s)
    return Report(
        kind="prefix",
        title=f"Prefix cache: {page.title}",
        kicker=f"prefix cache · {page.machine}",
        answer=comparison_answer(page.rows, page.title),
        cards=(
            Card(label="shortest time to first token", value=best.totals.policy),
            Card(label=f"mean TTFT with {best.totals.policy}", value=f"{best.ttft_mean_s:.3f} s"),
        ),
        data=page.data,
        sections=(
            Section(
                id="hits",
                title="Hits and first tokens",
                parts=(of_columns("hits-table", "", hit_columns(page.rows)),),
            ),
            Section(id="charts", title="Figures", parts=figures, pair=True),
            Section(
                id="storage",
                title="Storage",
                parts=(of_columns("storage-table", "", tier_columns(page.rows)),),
            ),
        ),
        notes=tuple(page.notes),
        assumptions=tuple(page.assumptions),
        units="1 GB = 10⁹ bytes.",
        files={label: file.name for label, file in page.files.items()},
    )


def comparison_figures(page: ComparisonPage) -> dict[str, dict[str, Any]]:
    """Figures by name."""
    return {
        "capacity": _capacity(page.reference),
        "pareto": _pareto(page.reference, page.sizes),
        "ttft": _ttft(page.rows),
        "occupancy": _occupancy(min(page.rows, key=lambda row: row.ttft_mean_s)),
    }


def _capacity(counts: ReferenceCounts) -> dict[str, Any]:
    total = max(1, counts.input_tokens)
    names = {"lru": ("least recently used", INK), "belady": ("Belady's optimum", _COLORS[0])}
    data = []
    for eviction, (name, color) in names.items():
        found = [one for one in counts.capacities if one.eviction == eviction]
        data.append(
            _line(
                name,
                [one.capacity_tokens for one in found],
                [one.hit_tokens / total for one in found],
                color,
                f"{name}, %{{x:.3s}} tokens: <b>%{{y:.2%}}</b>",
                mode="lines+markers",
            )
        )
    x = axis("size of the pool, tokens", type="log")
    y = axis("hit, share of input tokens", rangemode="tozero", tickformat=".0%")
    return {"data": data, "layout": layout(height=340, x=x, y=y)}


def _pareto(counts: ReferenceCounts, sizes: CachedBytes) -> dict[str, Any]:
    """On a logarithmic axis; what keeps nothing stands left of all others."""
    points: dict[str, list[tuple[str, float, float]]] = {}
    sized = [
        (one, (one.windows or 0) * sizes.checkpoint_bytes + one.row_tokens * sizes.row_bytes)
        for one in counts.policies
    ]
    nothing = min((kept for _, kept in sized if kept), default=10**9) / 2
    for one, stored in sized:
        kept = stored or nothing
        kind = "sums with boundaries" if "+" in one.policy else one.policy.partition(":")[0]
        lost = one.window_lost_tokens / max(1, counts.input_tokens)
        points.setdefault(kind, []).append((one.policy, kept / 1e9, lost))
    data = [
        {
            **_line(
                kind,
                [kept for _, kept, _ in found],
                [lost for _, _, lost in found],
                color,
                "%{text}: %{x:,.4g} GB, <b>%{y:.2%}</b> computed again",
                mode="lines+markers+text" if len(found) > 1 else "markers+text",
            ),
            "text": [_short(name) for name, _, _ in found],
            "textposition": "top right",
            "textfont": {"size": 10, "color": MUTED},
        }
        for (kind, found), color in zip(points.items(), _COLORS, strict=False)
    ]
    x = axis("windows kept, GB (zero and bounded keep none)", type="log", tickformat=",")
    y = axis("known tokens computed again, share of input", rangemode="tozero", tickformat=".0%")
    return {"data": data, "layout": layout(height=420, x=x, y=y)}


def _short(policy: str) -> str:
    """A label that leaves room for its neighbours."""
    return policy.replace("periodic:", "p ").replace("+boundary", " + b")


def _ttft(rows: Sequence[PolicyRow]) -> dict[str, Any]:
    shares = np.linspace(0, 1, 201)
    series = [("no prefix cache", rows[0].totals.uncached_ns)]
    series += [(row.totals.policy, row.totals.ttft_ns) for row in rows]
    data = [
        _line(
            name,
            [float(f"{value:.4g}") for value in np.quantile(times, shares) / 1e9],
            [round(float(share), 3) for share in shares],
            color,
            f"{escape(name)}: <b>%{{y:.1%}}</b> by %{{x:.3s}}s",
        )
        for (name, times), color in zip(series, (MUTED, *_COLORS), strict=False)
    ]
    x = axis("time to the first token", type="log", ticksuffix="s")
    y = axis("share of requests", range=[0, 1.01], tickformat=".0%")
    return {"data": data, "layout": layout(height=360, x=x, y=y)}


def _occupancy(row: PolicyRow) -> dict[str, Any]:
    times = [round(at / 60, 2) for at, _ in row.totals.occupancy]
    data = [
        _line(
            f"{tier.name} of {tier.capacity_bytes / 1e9:,.0f} GB",
            times,
            [round(used[place] / tier.capacity_bytes, 4) for _, used in row.totals.occupancy],
            color,
            f"{escape(tier.name)} after %{{x:.1f}} min: <b>%{{y:.1%}}</b>",
        )
        for (place, tier), color in zip(enumerate(row.totals.tiers), _COLORS, strict=False)
    ]
    x = axis("minutes since the first arrival")
    y = axis(f"share of the tier, {row.totals.policy}", range=[0, 1.02], tickformat=".0%")
    return {"data": data, "layout": layout(height=320, x=x, y=y)}


def _line(
    name: str,
    x: Sequence[float],
    y: Sequence[float],
    color: str,
    hover: str,
    mode: str = "lines",
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": color, "width": 2},
        "marker": {"color": color, "size": 7},
        "hovertemplate": f"{hover}<extra></extra>",
    }
