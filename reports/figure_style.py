"""The look that all figures share, as plain plotly dictionaries."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import Any

from reports.palette import GRID, INK, MUTED
from simulator.basis.units import format_rate

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def layout(*, height: int, x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    """Layout of one figure; its width is that of the page."""
    return {
        "height": height,
        "autosize": True,
        "margin": {"l": 58, "r": 18, "t": 12, "b": 84},
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "xaxis": x,
        "yaxis": y,
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "itemsizing": "constant",
        },
        "hoverlabel": {
            "bgcolor": "#ffffff",
            "bordercolor": MUTED,
            "font": {"family": FONT, "size": 12, "color": INK},
            "align": "left",
        },
    }


def axis(title: str, **options: Any) -> dict[str, Any]:
    """One axis with its title; ticks count in SI prefixes (k, M, G, T)."""
    return {
        "title": {"text": title, "font": {"size": 12, "color": MUTED}, "standoff": 8},
        "gridcolor": GRID,
        "linecolor": MUTED,
        "zeroline": False,
        "exponentformat": "SI",
        "minexponent": 0,
        "automargin": True,
        **options,
    }


def log_axis(title: str, unit: str, low: float, high: float) -> dict[str, Any]:
    """A logarithmic axis from `low` to `high` with a tick a decade."""
    # Plotly itself knows no prefix beyond T.
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    return axis(
        title,
        type="log",
        range=[log10(low), log10(high)],
        tickvals=[10.0**decade for decade in decades],
        ticktext=[
            format_rate(10.0**decade, unit) if unit else f"{10.0**decade:,g}" for decade in decades
        ],
    )
