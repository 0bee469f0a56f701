"""Measured serving rows beside ours, for the terminal and as plain records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from reports.quantity import number_text
from reports.text_table import TextColumn
from simulator.claims.measured import UNITS, Measured
from simulator.claims.scores import choices_of, held_share, order_of, scores_of

WORDS = {"tpot": "time per token", "ttft": "TTFT", "rate": "throughput"}


def measured_columns(found: Sequence[Measured]) -> list[TextColumn]:
    """One line a row that was served; the run's name stands in its first."""
    cells = []
    last = ""
    for one in found:
        if one.ours is None:
            continue
        name = one.run.name
        cells.append(
            (
                name if name != last else "",
                f"{one.figure}, {UNITS[one.figure]}",
                number_text(one.row.value),
                number_text(one.ours),
                "" if one.beside is None else number_text(one.beside),
                "" if one.band is None else f"{one.band.low:.3g} to {one.band.high:.3g}",
                "" if one.band is None else "yes" if one.band.holds(one.row.value) else "no",
                f"{100 * (one.difference or 0.0):+.0f} %",
                "counted" if one.counted else "",
            )
        )
        last = name
    headings = (
        "run",
        "figure",
        "measured",
        "ours",
        "our mean",
        "p10 to p90",
        "inside",
        "off by",
        "",
    )
    columns = zip(*cells, strict=True) if cells else ((),) * len(headings)
    return [
        TextColumn(heading=heading, cells=list(column), left=place < 2)
        for place, (heading, column) in enumerate(zip(headings, columns, strict=True))
    ]


def scenario_lines(found: Sequence[Measured]) -> list[str]:
    """The scenario that every run became, or why there is none."""
    lines: dict[str, None] = {}
    for one in found:
        scenario = one.run.scenario
        if scenario is None:
            lines[f"{one.run.name}: not mapped: {one.reason} ({one.row.config})"] = None
            continue
        data = scenario.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        text = yaml.safe_dump(data, default_flow_style=True, sort_keys=False, width=1 << 20)
        why = f"; {one.run.note}" if one.run.note else ""
        why += f"; not served: {one.reason}" if one.ours is None else ""
        lines[f"{one.run.name}: {text.strip()}{why}"] = None
    return list(lines)


def effect_line(name: str, found: Sequence[Measured]) -> str:
    """Medians and biases of all counted rows, in one line."""
    parts = []
    for figure, words in WORDS.items():
        for score in scores_of(found, figure)[:1]:
            parts.append(f"{words} {100 * score.off:.1f} % ({100 * score.bias:+.1f} %)")
    return f"{name}: {', '.join(parts)}"


def score_lines(found: Sequence[Measured]) -> list[str]:
    """Medians by class, order of pairs, choices."""
    lines = []
    for figure, words in WORDS.items():
        for score in scores_of(found, figure):
            lines.append(
                f"{words}, {score.concurrency} at once: {score.rows} rows, off by "
                f"{100 * score.off:.1f} % in the median, biased by {100 * score.bias:+.1f} %"
            )
    for figure, words in WORDS.items():
        held, of = held_share(found, figure)
        if of:
            lines.append(f"{words}: {held} of {of} rows in p10 to p90 ({100 * held / of:.0f} %)")
    for figure, words in WORDS.items():
        for order in order_of(found, figure):
            if not order.pairs:
                continue
            what = "settings" if order.what == "all" else "chips"
            lines.append(
                f"order of {words} between {what}: {order.right} of {order.pairs} pairs right "
                f"({100 * order.share:.0f} %)"
            )
    for choice in choices_of(found):
        lines.append(
            f"most tokens/s on {choice.name}: {choice.ours:,} at once by ours, {choice.best:,} "
            f"measured: {100 * choice.lost:.1f} % lost"
        )
    return lines


def measured_records(found: Sequence[Measured]) -> list[dict[str, Any]]:
    """Plain values, nothing rounded."""
    return [
        {
            "line": one.row.line,
            "run": one.run.name,
            "figure": one.figure or one.row.metric,
            "unit": one.row.unit,
            "measured": one.row.value,
            "ours": one.ours,
            "our_mean": one.beside,
            "low": one.band.low if one.band else None,
            "high": one.band.high if one.band else None,
            "difference": one.difference,
            "counted": one.counted,
            "source": one.row.source,
            "reason": one.reason or None,
            "scenario": None
            if one.run.scenario is None
            else one.run.scenario.model_dump(mode="json", exclude_none=True),
        }
        for one in found
    ]
