"""A sweep in words and in a table for terminals: which point is best, and the figures of all."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.text_table import TextColumn
from simulator.kernels.constants_file import chips_warning
from simulator.sweep.grid import Axis, text_of
from simulator.sweep.row import Value

Row = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure that is shown: the row's name and the heading."""

    name: str
    heading: str


_CHIP_RATE = _Figure("output_tokens_per_s_chip", "output\ntokens/s\na chip")
_USD = _Figure("usd_per_million_output_bearing_all", "USD per\nmillion\noutput")
# In the order in which they are kept where there is little room.
_FIGURES = (
    _USD,
    _CHIP_RATE,
    _Figure("ttft_s_p99", "TTFT\np99 s"),
    _Figure("tpot_ms_p99", "TPOT\np99 ms"),
    _Figure("levels_met", "levels\nmet"),
    _Figure("is_saturated", "saturated"),
    _Figure("ttft_s_p50", "TTFT\np50 s"),
    _Figure("tpot_ms_p50", "TPOT\np50 ms"),
    _Figure("goodput_share", "goodput\nshare"),
    _Figure("busy_share", "busy\nshare"),
    _Figure("hit_tokens", "hit\ntokens"),
    _Figure("preemptions", "preempted"),
    _Figure("refused", "requests\nrefused"),
    _Figure("joules_per_output_token", "J per\noutput\ntoken"),
)
_HEAD_WIDTH = 12


def sweep_answer(axes: Sequence[Axis], rows: Sequence[Row]) -> str:
    """A sentence: the cheapest point that carries its load within its levels, or that none does."""
    good = [row for row in rows if is_good(row)]
    asked = any(row.get("levels_met") is not None for row in rows)
    what = "carry their load within the service levels" if asked else "carry their load"
    if not good:
        return f"None of the {len(rows):,} points is one of those that {what}."
    priced = all(row[_USD.name] is not None for row in good)
    best = (
        min(good, key=lambda row: _number(row[_USD.name]))
        if priced
        else max(good, key=lambda row: _number(row[_CHIP_RATE.name]))
    )
    place = ", ".join(f"{name}={text_of(best[name])}" for name in varied(axes))
    rate = f"{cell(best[_CHIP_RATE.name])} output tokens/s a chip"
    usd = f"{cell(best[_USD.name])} USD per million output tokens, " if priced else ""
    kind = "Cheapest" if priced else "Fastest a chip"
    return (
        f"{kind} of the {len(good):,} (of {len(rows):,}) points that {what}: {place}; {usd}{rate}."
    )


def sweep_columns(axes: Sequence[Axis], rows: Sequence[Row]) -> list[TextColumn]:
    """Fields that vary, and the figures that some point has."""
    plain = all(row["status"] == "done" for row in rows)
    names = varied(axes)
    heads = [
        TextColumn(heading=_head(n), cells=_cells(rows, n), left=_left(rows, n)) for n in names
    ]
    if not plain:
        heads.append(TextColumn(heading="status", cells=_cells(rows, "status"), left=True))
    shown = [f for f in _FIGURES if any(row.get(f.name) is not None for row in rows)]
    return heads + [
        TextColumn(heading=figure.heading, cells=_cells(rows, figure.name), rank=rank)
        for rank, figure in enumerate(shown, 1)
        if figure.name not in names
    ]


def sweep_notes(axes: Sequence[Axis], rows: Sequence[Row]) -> list[str]:
    """Fields of one value, points that could not be by their reasons, and laws that are broken."""
    fixed = [f"{a.name}={text_of(a.values[0])}" for a in axes if len(a.values) == 1]
    reasons = Counter(f"{row['status']}: {row['error']}" for row in rows if row["status"] != "done")
    laws = Counter(str(row["broken_laws"]) for row in rows if row.get("broken_laws"))
    chips = [str(value) for axis in axes if axis.name == "chip" for value in axis.values]
    warning = chips_warning(chips) if len(chips) > 1 else ""
    return [
        *([f"{warning}."] if warning else []),
        *([f"All with {' '.join(fixed)}."] if fixed and len(fixed) < len(axes) else []),
        *(f"{count:,} {points_word(count)} {reason}" for reason, count in reasons.items()),
        *(
            f"{n:,} {points_word(n)} broke a law of the simulation: {law}"
            for law, n in laws.items()
        ),
    ]


def points_word(count: int) -> str:
    """`point` or `points`."""
    return "point" if count == 1 else "points"


def cell(value: Value) -> str:
    """A value in a table: four digits of broken numbers, all of whole ones."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value


def varied(axes: Sequence[Axis]) -> list[str]:
    """Fields of more than one value, or the first."""
    return [axis.name for axis in axes if len(axis.values) > 1] or [axes[0].name]


def is_good(row: Row) -> bool:
    """Whether a point carries its load within its service levels."""
    if row["status"] != "done" or row.get("broken_laws"):
        return False
    return row["levels_met"] is not False and not row["is_saturated"] and not row["refused"]


def _number(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _cells(rows: Sequence[Row], name: str) -> list[str]:
    return [cell(row[name]) for row in rows]


def _left(rows: Sequence[Row], name: str) -> bool:
    return any(isinstance(row[name], str) for row in rows)


def _head(name: str) -> str:
    """The levels of a field below each other."""
    return "\n".join(
        line
        for level in name.split(".")
        for line in textwrap.wrap(level.replace("_", " "), _HEAD_WIDTH)
    )
