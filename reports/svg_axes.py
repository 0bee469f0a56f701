"""Axes of a figure: where values lie between its ends, and the ticks that have room there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any

# Widths of letters differ by font; no text is wider than this on average, in parts of its height.
_LETTER_EM = 0.6
_LINE_EM = 1.25
_PREFIXES = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
_STEPS = (1, 2, 2.5, 5, 10)
_LOG_MARKS = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class Tick:
    """A marked value and its text."""

    value: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Ends in the axis' own measure (exponents of a logarithmic one), ticks, and the title."""

    logarithmic: bool
    low: float
    high: float
    ticks: tuple[Tick, ...]
    title: str
    names: tuple[str, ...] = ()

    def at(self, value: Any) -> float:
        """Part of the way from the low end to the high one."""
        if self.names and isinstance(value, str):
            value = self.names.index(value)
        measure = log10(value) if self.logarithmic else float(value)
        return (measure - self.low) / ((self.high - self.low) or 1.0)

    def has(self, value: Any) -> bool:
        """Whether there is a place for the value at all."""
        if value is None or (self.names and isinstance(value, str)):
            return value in self.names
        return isfinite(value) and not (self.logarithmic and value <= 0)


def apart(
    ticks: Sequence[Tick], places: Sequence[float], half_px: Sequence[float], gap_px: float
) -> tuple[Tick, ...]:
    """Ticks whose texts keep a gap, from the first on; `half_px`: half of what each text takes."""
    kept: list[int] = []
    for index in sorted(range(len(ticks)), key=lambda i: places[i]):
        before = kept[-1] if kept else None
        if (
            before is None
            or places[index] - half_px[index] >= places[before] + half_px[before] + gap_px
        ):
            kept.append(index)
    return tuple(ticks[index] for index in kept)


def text_px(text: str, size: float) -> float:
    """Width that a line of text takes at most."""
    return max((len(line) for line in text.split("\n")), default=0) * size * _LETTER_EM


def line_px(size: float) -> float:
    """Height of a line of text."""
    return size * _LINE_EM


def si_text(value: float, unit: str = "", digits: int = 4, prefix: int | None = None) -> str:
    """A number to so many digits with a decimal prefix: `1.2 ms`, `340 GB/s`."""
    if not value:
        return "0"
    if prefix is None:
        rounded = float(f"{abs(value):.{digits}g}")
        prefix = max(-12, min(15, 3 * floor(log10(rounded) / 3)))
    number = f"{value / 10.0**prefix:,.{digits}g}"
    if "e" in number:
        number = f"{value / 10.0**prefix:,.0f}"
    unit = _PREFIXES[prefix] + unit
    return f"{number} {unit}".rstrip() if len(unit) > 1 else f"{number}{unit and ' '}{unit}"


def formatted(value: float, form: str) -> str:
    """A number in one of d3's forms that the figures use: `.1%`, `.3s`, `,`, `.4g`, `,.2f`."""
    if not isinstance(value, int | float):
        return str(value)
    if match := re.fullmatch(r"\.(\d)s", form):
        return si_text(value, digits=int(match.group(1)))
    if form in (",", ",~r"):
        return f"{value:,.10g}"
    return f"{value:{form}}" if form else f"{value:,.4g}"


def make_axis(
    spec: Mapping[str, Any], values: Sequence[Any], room_px: float, gap_px: float, *, zero: bool
) -> Axis:
    """The axis of a plotly dictionary for values, at most a tick every `gap_px`.

    `zero`: bars stand on the axis, so that it begins at 0.
    """
    title = spec.get("title", {}).get("text", "")
    told = [value for value in values if isinstance(value, str)]
    names = tuple(dict.fromkeys((*spec.get("categories", ()), *told)))
    if names:
        ticks = tuple(Tick(place, name) for place, name in enumerate(names))
        return Axis(
            logarithmic=False, low=-0.5, high=len(names) - 0.5, ticks=ticks, title=title,
            names=names,
        )  # fmt: skip
    logarithmic = spec.get("type") == "log"
    low, high = _ends(spec, [v for v in values if v is not None], logarithmic, zero)
    most = max(2, int(room_px / gap_px))
    return Axis(
        logarithmic=logarithmic,
        low=low,
        high=high,
        ticks=tuple(_ticks(spec, low, high, logarithmic, most)),
        title=title,
    )


def _ends(
    spec: Mapping[str, Any], values: Sequence[float], logarithmic: bool, zero: bool
) -> tuple[float, float]:
    if "range" in spec:
        low, high = map(float, spec["range"])
        return low, high
    if logarithmic:
        measures = [log10(value) for value in values if value > 0] or [0.0]
    else:
        measures = [float(value) for value in values] or [0.0]
    low, high = min(measures), max(measures)
    if spec.get("rangemode") == "tozero" or zero:
        low, high = min(low, 0.0), max(high, 0.0)
    span = (high - low) or abs(high) or 1.0
    margin = 0.04 * span
    at_zero = (spec.get("rangemode") == "tozero" or zero) and not logarithmic
    return (low if at_zero and low == 0 else low - margin), high + margin


def _ticks(
    spec: Mapping[str, Any], low: float, high: float, logarithmic: bool, most: int
) -> Iterable[Tick]:
    if "tickvals" in spec:
        return [
            Tick(value, str(text))
            for value, text in zip(spec["tickvals"], spec["ticktext"], strict=True)
            if low <= (log10(value) if logarithmic else value) <= high
        ]
    marks = _log_marks(low, high, most) if logarithmic else _marks(low, high, most)
    return _named(marks, spec, logarithmic)


def _marks(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / most or 1.0
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in _STEPS if factor * power >= rough * 0.999)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def _log_marks(low: float, high: float, most: int) -> list[float]:
    powers = range(floor(low), ceil(high) + 1)
    if high - low < 0.8:
        return [mark for mark in _marks(10.0**low, 10.0**high, most) if mark > 0]
    if 3 * (high - low) <= most:
        found = [mark * 10.0**power for power in powers for mark in _LOG_MARKS]
    else:
        every = max(1, -(-2 * len(powers) // (3 * most)))  # a decade's text is short
        found = [10.0**power for power in powers if power % every == 0]
    return [value for value in found if low - 1e-9 <= log10(value) <= high + 1e-9]


def _named(marks: Sequence[float], spec: Mapping[str, Any], logarithmic: bool) -> list[Tick]:
    """Texts with as few digits as tell the marks apart."""
    form, unit = spec.get("tickformat", ""), spec.get("ticksuffix", "")
    largest = max((abs(mark) for mark in marks), default=0.0)

    def text(value: float, digits: int) -> str:
        if form.endswith("%"):
            return f"{100 * value:.{digits}f}%"
        if form or spec.get("exponentformat") == "none":
            return f"{value:,.10g}{unit}"
        if unit or largest >= 1e5:
            prefix = None if logarithmic or not largest else 3 * floor(log10(largest * 1.0001) / 3)
            return si_text(value, unit, digits + 2, prefix)
        return f"{value:,.{digits + 2}g}" if abs(value) < 1000 else f"{value:,.0f}"

    def exact(value: float, digits: int) -> bool:
        if form.endswith("%"):
            return abs(round(100 * value, digits) - 100 * value) < 1e-7
        return abs(float(f"{value:.{digits + 2}g}") - value) <= 1e-9 * abs(value)

    for digits in range(6):
        texts = [text(value, digits) for value in marks]
        if len(set(texts)) == len(texts) and all(exact(value, digits) for value in marks):
            break
    return [Tick(value, name) for value, name in zip(marks, texts, strict=True)]
