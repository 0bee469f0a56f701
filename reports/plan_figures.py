"""Plans and points of a sweep as a Pareto front: what a user gets against what a chip gives, and
against what tokens cost, by chip and engine, with the target drawn in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

from reports.figure_style import axis, layout
from reports.palette import INK
from reports.report import Figure

# Okabe-Ito without what is told apart badly on white.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8d95a1")
_PALE, _PALE_RING = 0.25, 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One plan: its chip and engine as `group`, `label` to be read when pointed at, `name` to stand
    beside it where it meets the targets, and what it reaches.

    `user_tokens_per_s` and `usd_per_million_tokens` are None where there is none.
    """

    group: str
    label: str
    name: str
    meets: bool
    user_tokens_per_s: float | None
    chip_tokens_per_s: float
    usd_per_million_tokens: float | None


def is_front(points: Sequence[tuple[float, float]], *, lower_is_better: bool) -> list[bool]:
    """Which points no other one beats in x (more is better) and in y, being better in one."""
    sign = -1.0 if lower_is_better else 1.0
    signed = [(x, sign * y) for x, y in points]
    return [not any(a >= x and b >= y and (a > x or b > y) for a, b in signed) for x, y in signed]


def pareto_figures(
    dots: Sequence[Dot],
    target: float | None,
    target_name: str,
    user_title: str = "tokens/s a user, at the percentile of the targets",
) -> list[Figure]:
    """The two figures, of those for which there are values; `target` in tokens/s a user."""
    found = []
    for name, title, y_title, value, lower in (
        ("pareto-rate", "What a user gets against what a chip gives", "output tokens/s a chip",
         lambda dot: dot.chip_tokens_per_s, False),
        ("pareto-cost", "What a user gets against what tokens cost",
         "$ per million tokens, input and output", lambda dot: dot.usd_per_million_tokens, True),
    ):  # fmt: skip
        drawn = _pareto(dots, value, lower, (user_title, y_title), target)
        if drawn is None:
            continue
        line = f" Dashed: {target_name}; to the right of it the target is met." if target else ""
        better = "lower" if lower else "upper"
        note = (
            f"Towards the {better} right is better. Dots meet every target, rings miss one; the "
            "line is the front of a chip and engine, and what another one of its kind beats in "
            f"both is pale.{line}"
        )
        found.append(Figure(id=name, title=title, note=note, drawing=drawn))
    return found


def _pareto(
    dots: Sequence[Dot],
    value: Callable[[Dot], float | None],
    lower: bool,
    titles: tuple[str, str],
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
    named: list[tuple[Dot, float, float]] = []
    for place, group in enumerate(groups):
        color = COLORS[place % len(COLORS)]
        own = [one for one in placed if one[0].group == group]
        if own:
            data += _group(group, color, own, lower)
            on = is_front([(x, y) for _, x, y in own], lower_is_better=lower)
            named += [one for one, is_on in zip(own, on, strict=True) if is_on and one[0].meets]
    xs, ys = [x for _, x, _ in placed], [y for _, _, y in placed]
    shape = layout(
        height=430,
        x=_ranged(titles[0], [*xs, target]),
        y=_ranged(titles[1], ys),
    )
    shape["annotations"] = [
        {
            "x": log10(x) if shape["xaxis"].get("type") == "log" else x,
            "y": log10(y) if shape["yaxis"].get("type") == "log" else y,
            "text": dot.name,
            "standoff": 9,
            "showarrow": False,
        }
        for dot, x, y in {(dot.name, x, y): (dot, x, y) for dot, x, y in named}.values()
    ]
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
    """The front as a line, then dots: on it or beaten, with all targets met or not."""
    on = is_front([(x, y) for _, x, y in own], lower_is_better=lower)
    front = sorted((one for one, is_on in zip(own, on, strict=True) if is_on), key=lambda o: o[1])
    beaten = [one for one, is_on in zip(own, on, strict=True) if not is_on]
    pale = f"rgba({','.join(str(int(color[n : n + 2], 16)) for n in (1, 3, 5))},{_PALE_RING})"
    dots = (
        ([one for one in beaten if not one[0].meets], _ring(pale, 8)),
        ([one for one in beaten if one[0].meets], {"color": color, "size": 8, "opacity": _PALE}),
        ([one for one in front if not one[0].meets], _ring(color, 9)),
        ([one for one in front if one[0].meets], {"color": color, "size": 11}),
    )
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": group,
        "showlegend": False,
        "x": [x for _, x, _ in front],
        "y": [y for _, _, y in front],
        "line": {"color": color, "width": 1.5},
    }
    shown = [(found, marker) for found, marker in dots if found]
    marks = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": group,
            "showlegend": place == len(shown) - 1,
            "x": [x for _, x, _ in found],
            "y": [y for _, _, y in found],
            "text": [dot.label for dot, _, _ in found],
            "marker": marker,
            "hovertemplate": "%{text}",
        }
        for place, (found, marker) in enumerate(shown)
    ]
    return [line, *marks] if len(front) > 1 else marks


def _ring(color: str, size: int) -> dict[str, Any]:
    line = {"color": color, "width": 1.5}
    return {"color": color, "size": size, "symbol": "circle-open", "line": line}
