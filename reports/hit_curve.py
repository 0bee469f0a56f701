"""Hits against the size of a pool: the whole curve as CSV, and a figure of it as SVG."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError

Ints = NDArray[np.int64]
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 360, 60, 50


def write_curves(path: Path, curves: Sequence[tuple[str, Ints, Ints, int]]) -> list[Path]:
    """Write CSV, and SVG beside it, of curves of (name, pool tokens, hit tokens, input tokens)."""
    figure = path.with_suffix(".svg")
    if figure == path:
        raise InputError(
            f"the curve's figures go to {path}, its picture too: give a name with .csv"
        )
    try:
        with path.open("w", newline="", encoding="utf-8") as stream:
            rows = csv.writer(stream)
            rows.writerow(["curve", "pool_tokens", "hit_tokens", "hit_fraction"])
            for name, pools, hits, inputs in curves:
                for pool, hit in zip(pools.tolist(), hits.tolist(), strict=True):
                    rows.writerow([name, pool, hit, hit / max(1, inputs)])
        figure.write_text(curve_svg(curves), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    return [path, figure]


def curve_svg(curves: Sequence[tuple[str, Ints, Ints, int]]) -> str:
    """A figure with a logarithmic axis of pool sizes; the curves' names beside their ends."""
    largest = max([2.0, *(float(pools.max()) for _, pools, _, _ in curves if len(pools))])
    least = max(1.0, largest / 1e6)
    decades = math.log10(largest / least)

    def place(pool: float, share: float) -> tuple[float, float]:
        x = math.log10(max(pool, least) / least) / decades
        return _LEFT + x * (_WIDTH - _LEFT - 20), (_HEIGHT - _BOTTOM) - share * (_HEIGHT - 80)

    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        _, y = place(least, share)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        )
    for power in range(math.ceil(math.log10(least)), math.floor(math.log10(largest)) + 1):
        x, y = place(10**power, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">1e{power}</text>')
    for number, (name, pools, hits, inputs) in enumerate(curves):
        xs = np.unique(np.geomspace(least, largest, 400).round())
        shares = np.interp(xs, pools, hits / max(1, inputs))
        points = [place(float(x), float(y)) for x, y in zip(xs, shares, strict=True)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        hue = 210 + 75 * number
        parts.append(
            f'<polyline fill="none" stroke="hsl({hue % 360},60%,40%)" stroke-width="2" '
            f'points="{line}"/><text x="{_LEFT + 8}" y="{24 + 16 * number}" '
            f'fill="hsl({hue % 360},60%,40%)">{escape(name)}</text>'
        )
    parts.append(
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 10}" text-anchor="middle">tokens of the pool</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="12" role="img" '
        'aria-label="share of input tokens hit against tokens of the pool">'
        f"{''.join(parts)}</svg>\n"
    )
