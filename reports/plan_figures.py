"""Plans and points of a sweep as a Pareto front: what a user gets against what a chip gives, and
against what tokens cost, by chip and engine, with the target drawn in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reports.figure_style import axis, layout
from reports.palette import INK
from reports.report import Figure

# Okabe-Ito without what is told apart badly on white.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8d95a1")
_PALE = 0.22


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One plan: its chip and engine as `group`, `label` to be read when pointed at, and what it
    reaches. `user_tokens_per_s` and `usd_per_million_tokens` None where there is none."""

    group: str
    label: str
    meets: bool
    user_tokens_per_s: float | None
    chip_tokens_per_s: float
    usd_per_million_tokens: float | None


def is_front(points: Sequence[tuple[float, float]], *, lower_is_better: bool) -> list[bool]:
    """Which points no other one beats in x (more is better) and in y, being better in one."""
    sign = -1.0 if lower_is_better else 1.0
    signed = [(x, sign * y) for x, y in points]
    return [not any(a >= x and b >= y and (a > x or b > y) for a, b in signed) for x, y in signed]


def pareto_figures(dots: Sequence[Dot], target: float | None, target_name: str) -> list[Figure]:
    """The two figures, of those for which there are values."""
    found = []
    for name, title, y_title, value, lower in (
        ("pareto-rate", "What a user gets against what a chip gives", "output tokens/s a chip",
         lambda dot: dot.chip_tokens_per_s, False),
        ("pareto-cost", "What a user gets against what tokens cost",
         "$ per million tokens, input and output", lambda dot: dot.usd_per_million_tokens, True),
    ):  # fmt: skip
        drawn = _pareto(dots, value, lower, y_title, target)
        if drawn is None:
            continue
        line = f" Dashed: {target_name}; to the right of it the target is met." if target else ""
        better = "lower" if lower else "upper"
        note = (
            f"Towards the {better} right is better. Full dots meet every target and are beaten by "
            "no other one of their chip and engine, whose front is the line; pale dots are beaten, "
            f"rings miss a target.{line}"
        )
        found.append(Figure(id=name, title=title, note=note, drawing=drawn))
    return found


def _pareto(
    dots: Sequence[Dot],
    value: Callable[[Dot], float | None],
    lower: bool,
    y_title: str,
    target: float | None,
) -> dict[str, Any] | None:
    placed = [
        (dot, float(dot.user_tokens_per_s), float(y))
        for dot in dots
        if dot.user_tokens_per_s and (y := value(dot))
    ]
    if not placed:
        return None
    data: list[dict[str, Any]] = []
    groups = list(dict.fromkeys(dot.group for dot in dots))
    for place, group in enumerate(groups):
        color = COLORS[place % len(COLORS)]
        own = [one for one in placed if one[0].group == group]
        if own:
            data += _group(group, color, own, lower)
    xs, ys = [x for _, x, _ in placed], [y for _, _, y in placed]
    shape = layout(
        height=430,
        x=_ranged(
            "tokens/s a user, at the percentile of the targets", [*xs, *([target] * bool(target))]
        ),
        y=_ranged(y_title, ys),
    )
    if target:
        line = {"color": INK, "width": 1.5, "dash": "dash"}
        ends = {"x0": target, "x1": target, "y0": 0, "y1": 1, "yref": "paper"}
        shape["shapes"] = [{"type": "line", "layer": "below", "line": line, **ends}]
    return {"data": data, "layout": {**shape, "showlegend": True}}


def _ranged(title: str, values: Sequence[float | None]) -> dict[str, Any]:
    """From zero, or by decades where values lie far apart."""
    known = [value for value in values if value]
    if min(known) > 0 and max(known) / min(known) > 30:
        return axis(title, type="log", tickformat=",")
    return axis(title, rangemode="tozero", tickformat=",~r", exponentformat="none")


def _group(
    group: str, color: str, own: Sequence[tuple[Dot, float, float]], lower: bool
) -> list[dict[str, Any]]:
    """Front as a line with full dots, then those it beats, then those that miss a target."""
    good = [one for one in own if one[0].meets]
    marks = is_front([(x, y) for _, x, y in good], lower_is_better=lower)
    front = sorted((one for one, on in zip(good, marks, strict=True) if on), key=lambda o: o[1])
    beaten = [one for one, on in zip(good, marks, strict=True) if not on]
    missed = [one for one in own if not one[0].meets]
    ring = {"color": color, "size": 8, "symbol": "circle-open", "opacity": 0.6,
            "line": {"color": color, "width": 1.2}}  # fmt: skip
    parts = (
        ("markers", missed, ring),
        ("markers", beaten, {"color": color, "size": 8, "opacity": _PALE}),
        ("lines+markers", front, {"color": color, "size": 11}),
    )
    shown = [(mode, found, marker) for mode, found, marker in parts if found]
    return [
        {
            "type": "scatter",
            "mode": mode,
            "name": group,
            "showlegend": place == len(shown) - 1,
            "x": [x for _, x, _ in found],
            "y": [y for _, _, y in found],
            "text": [dot.label for dot, _, _ in found],
            "marker": marker,
            "line": {"color": color, "width": 1.5},
            "hovertemplate": "%{text}",
        }
        for place, (mode, found, marker) in enumerate(shown)
    ]
