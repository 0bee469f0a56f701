"""Published serving figures beside ours, for the terminal and as plain records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from reports.quantity import number_text
from reports.text_table import TextColumn
from simulator.claims.serving import Compared


def serving_columns(found: Sequence[Compared]) -> list[TextColumn]:
    """One line a figure; a run's setting stands in its first line."""
    cells: list[tuple[str, str, str, str, str, str]] = []
    for _, group in groupby(found, key=lambda one: one.row.name):
        for place, one in enumerate(group):
            cells.append(
                (
                    one.row.name if not place else "",
                    ", ".join(filter(None, (one.measure.words, one.measure.unit))),
                    number_text(one.published),
                    number_text(one.ours),
                    difference_text(one),
                    one.verdict,
                )
            )
    headings = ("run", "figure", "published", "ours", "off by", "band")
    columns = zip(*cells, strict=True)
    return [
        TextColumn(heading=heading, cells=list(column), left=place < 2)
        for place, (heading, column) in enumerate(zip(headings, columns, strict=True))
    ]


def setting_lines(found: Sequence[Compared], sources: Mapping[str, str]) -> list[str]:
    """What every run is, and the reason where ours differs much."""
    lines = []
    for _, group in groupby(found, key=lambda one: one.row.name):
        compared = list(group)
        row = compared[0].row
        line = f"{row.name}: {row.setting} ({sources[row.source]})."
        if row.why and any(one.is_explained for one in compared):
            line += f" Why ours differs: {row.why}."
        lines.append(line)
    return lines


def difference_text(one: Compared) -> str:
    """Relative in per cent, of shares in points."""
    if one.measure.share:
        return f"{one.difference:+.1f} pt"
    return f"{100 * one.difference:+.0f} %"


def serving_records(found: Sequence[Compared], sources: Mapping[str, str]) -> list[dict[str, Any]]:
    """Plain values, nothing rounded; scenarios as `v4sim serve` takes them."""
    return [
        {
            "run": one.row.name,
            "setting": one.row.setting,
            "source": sources[one.row.source],
            "figure": one.name,
            "unit": one.measure.unit,
            "published": one.published,
            "ours": one.ours,
            "difference": one.difference,
            "difference_in": "points" if one.measure.share else "share",
            "band": one.band,
            "verdict": one.verdict or None,
            "why": one.row.why,
            "scenarios": [
                scenario.model_dump(mode="json", exclude_none=True)
                for scenario in (one.row.scenario, one.row.other)
                if scenario is not None
            ],
        }
        for one in found
    ]
