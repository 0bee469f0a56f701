"""DRAM bandwidth over the step: bytes per second of all streams together, against the peak.

The whole step shows each layer's mean and spread; a layer on its own shows every launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from reports.figure_style import axis, layout
from reports.palette import INK, MUTED, RESOURCE_COLORS
from reports.quantity import share_text, traffic_text
from reports.rates import RateSeries, mean_rates, rate_quantiles, rate_series
from reports.report import View
from simulator.basis.units import format_rate, format_time_ps
from simulator.cost.result import StepResult

LAYERS, LAUNCHES = "layers", "launches"
_LOW, _HIGH = 0.1, 0.9
_SHADE = "rgba(0,114,178,0.18)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """The figure, its sentence, and its views, the first of which is shown at first."""

    figure: dict[str, Any]
    caption: str
    views: tuple[View, ...]


def bandwidth(result: StepResult) -> Bandwidth | None:
    """Figure of one step; None where the step takes no time."""
    if not result.total_ps:
        return None
    amounts = [kernel.dram_bytes for kernel in result.kernels]
    series = rate_series(result.kernels, amounts, result.total_ps)
    peak = result.peaks.dram_bytes_per_s
    data = [
        *_layer_traces(series, result),
        *_launch_traces(series, result),
        _peak(result, peak),
    ]
    top = max(peak, *series.per_second) * 1.12
    figure = {
        "data": data,
        "layout": layout(
            height=360,
            x=axis("time in the step", ticksuffix="s", range=[0, _seconds(result.total_ps)]),
            y=axis("DRAM traffic", ticksuffix="B/s", range=[0, top], fixedrange=True),
        ),
    }
    return Bandwidth(
        figure=figure, caption=_caption(result, series, sum(amounts)), views=_views(result)
    )


def _layer_traces(series: RateSeries, result: StepResult) -> list[dict[str, Any]]:
    """Mean and spread from the start of each layer to that of the next."""
    scopes: dict[int, str] = {}
    seen: set[str] = set()
    for kernel in sorted(result.kernels, key=lambda kernel: kernel.start_ps):
        if kernel.scope not in seen:
            seen.add(kernel.scope)
            name = f"{kernel.scope} ({kernel.kind})" if kernel.kind != kernel.scope else kernel.kind
            scopes.setdefault(kernel.start_ps, name)
    edges = sorted({0, result.total_ps, *scopes})
    means = mean_rates(series, edges)
    low, high = (rate_quantiles(series, edges, share) for share in (_LOW, _HIGH))
    floor = {**_steps("", edges, [*low, low[-1]]), "line": {"width": 0, "shape": "hv"}}
    band = {
        **_steps("range in 80 % of the layer's time", edges, [*high, high[-1]]),
        "fill": "tonexty",
    }
    band |= {"line": {"width": 0, "shape": "hv"}, "fillcolor": _SHADE}
    mean = _steps("mean of each layer", edges, [*means, means[-1]])
    mean["line"] = {"color": INK, "width": 2, "shape": "hv"}
    texts = [
        f"{escape(scopes.get(edge, 'before the first launch'))}<br><b>{format_rate(mean_rate)}</b> "
        f"on average<br>{format_rate(lowest)} to {format_rate(highest)} in 80 % of its time"
        for edge, mean_rate, lowest, highest in zip(edges, means, low, high, strict=False)
    ]
    hover = _hover(edges, means, texts, "%{text}<extra></extra>")
    shown = {"meta": LAYERS}
    return [{**floor, **shown, "showlegend": False}, {**band, **shown}, mean, {**hover, **shown}]


def _launch_traces(series: RateSeries, result: StepResult) -> list[dict[str, Any]]:
    exact = {
        **_steps("each launch", series.start_ps, series.per_second),
        "line": {"color": RESOURCE_COLORS["memory"], "width": 0.7, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": _SHADE,
    }
    texts = [
        "<br>".join([escape(result.kernels[i].path) for i in running] or ["no launch"])
        for running in series.running[:-1]
    ]
    template = "%{text}<br><b>%{y:.4s}B/s</b> at %{x:.5s}s<extra></extra>"
    hover = _hover(series.start_ps, series.per_second, texts, template)
    return [{**trace, "meta": LAUNCHES, "visible": False} for trace in (exact, hover)]


def _peak(result: StepResult, peak: float) -> dict[str, Any]:
    return {
        **_steps(f"peak {format_rate(peak)}", (0, result.total_ps), (peak, peak)),
        "line": {"color": RESOURCE_COLORS["link"], "width": 1.5, "dash": "dash"},
    }


def _hover(
    edges_ps: Sequence[int], rates: Sequence[float], texts: Sequence[str], template: str
) -> dict[str, Any]:
    """Invisible points in the middle of every stretch, which carry the hover text."""
    middles = [(low + high) / 2 for low, high in pairwise(edges_ps)]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [_seconds(middle) for middle in middles],
        "y": [round(rate) for rate in rates[: len(middles)]],
        "text": texts,
        "hovertemplate": template,
        "marker": {"opacity": 0, "color": MUTED},
        "showlegend": False,
    }


def _steps(name: str, times_ps: Sequence[float], rates: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [_seconds(time_ps) for time_ps in times_ps],
        "y": [round(rate) for rate in rates],
        "hoverinfo": "skip",
    }


def _caption(result: StepResult, series: RateSeries, moved_bytes: int) -> str:
    peak_bytes = result.peaks.dram_bytes_per_s * result.seconds
    text = (
        f"One chip moves {traffic_text(moved_bytes)} in {format_time_ps(result.total_ps)}: "
        f"{format_rate(moved_bytes / result.seconds)} on average, "
        f"{share_text(moved_bytes, peak_bytes)} of the peak. "
        "The shade leaves out the lowest and the highest tenth of a layer's time; "
        "the buttons show every launch of one layer of each kind."
    )
    if series.unplaced:
        text += f" {traffic_text(series.unplaced)} of launches that take no time are not drawn."
    return text


def _views(result: StepResult) -> tuple[View, ...]:
    """The whole step, and the middle one of the layers of each kind."""
    whole = View(name="whole step", start=0.0, end=_seconds(result.total_ps), meta=LAYERS)
    views = [whole]
    scopes: dict[str, dict[str, tuple[int, int]]] = {}
    for kernel in result.kernels:
        of_kind = scopes.setdefault(kernel.kind, {})
        start, end = of_kind.get(kernel.scope, (kernel.start_ps, kernel.end_ps))
        of_kind[kernel.scope] = min(start, kernel.start_ps), max(end, kernel.end_ps)
    for kind, of_kind in scopes.items():
        scope = list(of_kind)[len(of_kind) // 2]
        start, end = of_kind[scope]
        if end > start:
            margin = (end - start) // 20
            view = View(
                name=scope if scope == kind else f"{scope} ({kind})",
                start=_seconds(start - margin),
                end=_seconds(end + margin),
                meta=LAUNCHES,
            )
            views.append(view)
    return tuple(views)


def _seconds(time_ps: float) -> float:
    return time_ps / 10**12
