"""DRAM bandwidth over the step: bytes per second of all streams together, against the peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from reports.figure_style import axis, layout
from reports.palette import INK, MUTED, RESOURCE_COLORS
from reports.quantity import share_text, traffic_text
from reports.rates import RateSeries, mean_rates, rate_series
from simulator.basis.units import format_rate, format_time_ps
from simulator.cost.result import StepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """The figure, its sentence, and stretches of the step to zoom to: name, start and end in s."""

    figure: dict[str, Any]
    caption: str
    views: tuple[tuple[str, float, float], ...]


def bandwidth(result: StepResult) -> Bandwidth | None:
    """Figure of one step; None where the step takes no time."""
    if not result.total_ps:
        return None
    amounts = [kernel.dram_bytes for kernel in result.kernels]
    series = rate_series(result.kernels, amounts, result.total_ps)
    peak = result.peaks.dram_bytes_per_s
    data = [_exact(series), _mean(series, result), _peak(result, peak), _hover(series, result)]
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


def _exact(series: RateSeries) -> dict[str, Any]:
    color = RESOURCE_COLORS["memory"]
    return {
        **_steps("each launch", series.start_ps, series.per_second),
        "line": {"color": color, "width": 0.7, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": "rgba(0,114,178,0.18)",
    }


def _mean(series: RateSeries, result: StepResult) -> dict[str, Any]:
    """Mean from the start of each layer to that of the next."""
    starts: dict[str, int] = {}
    for kernel in result.kernels:
        starts[kernel.scope] = min(starts.get(kernel.scope, kernel.start_ps), kernel.start_ps)
    edges = sorted({0, result.total_ps, *starts.values()})
    means = mean_rates(series, edges)
    return {
        **_steps("mean of each layer", edges, [*means, means[-1]]),
        "line": {"color": INK, "width": 2, "shape": "hv"},
    }


def _peak(result: StepResult, peak: float) -> dict[str, Any]:
    return {
        **_steps(f"peak {format_rate(peak)}", (0, result.total_ps), (peak, peak)),
        "line": {"color": RESOURCE_COLORS["link"], "width": 1.5, "dash": "dash"},
    }


def _hover(series: RateSeries, result: StepResult) -> dict[str, Any]:
    """Invisible points in the middle of every stretch, which carry the hover text."""
    middles, texts = [], []
    for index, running in enumerate(series.running[:-1]):
        start, end = series.start_ps[index], series.start_ps[index + 1]
        middles.append(_seconds((start + end) / 2))
        paths = [escape(result.kernels[i].path) for i in running] or ["no launch"]
        texts.append("<br>".join(paths))
    return {
        "type": "scatter",
        "mode": "markers",
        "x": middles,
        "y": [round(rate) for rate in series.per_second[:-1]],
        "text": texts,
        "hovertemplate": "%{text}<br><b>%{y:.4s}B/s</b> at %{x:.5s}s<extra></extra>",
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
        f"One rank moves {traffic_text(moved_bytes)} in {format_time_ps(result.total_ps)}: "
        f"{format_rate(moved_bytes / result.seconds)} on average, "
        f"{share_text(moved_bytes, peak_bytes)} of the peak."
    )
    if series.unplaced:
        text += f" {traffic_text(series.unplaced)} of launches that take no time are not drawn."
    return text


def _views(result: StepResult) -> tuple[tuple[str, float, float], ...]:
    """The whole step, and the middle one of the layers of each kind."""
    views = [("whole step", 0.0, _seconds(result.total_ps))]
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
            name = scope if scope == kind else f"{scope} ({kind})"
            views.append((name, _seconds(start - margin), _seconds(end + margin)))
    return tuple(views)


def _seconds(time_ps: float) -> float:
    return time_ps / 10**12
