"""Hits against the size of a pool: the whole curve as CSV, and a figure of it as SVG."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.figure_style import axis, layout
from reports.palette import POOL_COLORS
from reports.svg import standalone
from simulator.basis.atomic import write_text
from simulator.basis.errors import InputError

Ints = NDArray[np.int64]


def write_curves(path: Path, curves: Sequence[tuple[str, Ints, Ints, int]]) -> list[Path]:
    """Write CSV, and SVG beside it, of curves of (name, pool tokens, hit tokens, input tokens)."""
    figure = path.with_suffix(".svg")
    if figure == path:
        raise InputError(
            f"the curve's figures go to {path}, its picture too: give a name with .csv"
        )
    stream = io.StringIO(newline="")
    rows = csv.writer(stream)
    rows.writerow(["curve", "pool_tokens", "hit_tokens", "hit_fraction"])
    for name, pools, hits, inputs in curves:
        for pool, hit in zip(pools.tolist(), hits.tolist(), strict=True):
            rows.writerow([name, pool, hit, hit / max(1, inputs)])
    write_text(path, stream.getvalue())
    write_text(figure, curve_svg(curves))
    return [path, figure]


def curve_figure(curves: Sequence[tuple[str, Ints, Ints, int]]) -> dict[str, Any]:
    """Curves on a logarithmic axis of pool sizes, read off at 400 of them."""
    largest = max([2.0, *(float(pools.max()) for _, pools, _, _ in curves if len(pools))])
    sizes = np.unique(np.geomspace(max(1.0, largest / 1e6), largest, 400).round())
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": sizes.tolist(),
            "y": np.interp(sizes, pools, hits / max(1, inputs)).tolist(),
            "line": {"color": POOL_COLORS[place % len(POOL_COLORS)], "width": 2},
            "hovertemplate": "%{x:.3s} tokens: %{y:.2%}",
        }
        for place, (name, pools, hits, inputs) in enumerate(curves)
    ]
    shape = layout(
        height=320,
        x=axis("tokens of the pool", type="log"),
        y=axis("share of input tokens hit", range=[0, 1.02], tickformat=".0%"),
    )
    return {"data": data, "layout": {**shape, "showlegend": True}}


def curve_svg(curves: Sequence[tuple[str, Ints, Ints, int]]) -> str:
    """The figure as an SVG file."""
    title = "share of input tokens hit against tokens of the pool"
    return standalone(curve_figure(curves), title, 640) + "\n"
