"""The sizing rules of layouts, by kind: how many requests a budget holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.capacity.block_fit import fit_blocks
from simulator.capacity.exact_fit import fit_exact
from simulator.capacity.fit import Fit
from simulator.capacity.request_pages import Load
from simulator.capacity.window_fit import fit_window
from simulator.engine.physical_layout import CacheGeometry

SIZINGS: dict[str, Callable[[CacheGeometry, Any, int, Load], Fit]] = {
    "exact": fit_exact,
    "blocks": fit_blocks,
    "ratio": fit_window,
    "cap": fit_window,
}


def fit_requests(geometry: CacheGeometry, budget_bytes: int, load: Load) -> Fit:
    """Requests of `load` that a budget of cache bytes holds under the layout's rule."""
    rule = geometry.layout.sizing
    return SIZINGS[rule.kind](geometry, rule, budget_bytes, load)
