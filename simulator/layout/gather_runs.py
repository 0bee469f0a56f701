"""Contiguous runs of bytes that a decode step reads from each pool, and how memory serves them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwmodels.bandwidth.efficiency import bursts_touched, memory_efficiency
from hwmodels.chip import ChipSpec
from simulator.engine.physical_layout import CacheGeometry, PoolGeometry
from simulator.layout.request_mix import Lengths, RequestMix, mean


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRuns:
    """Reads of one layer and request on average over a mix.

    A run spans `span_bytes` (its rows with the padding between them), of which `useful_bytes` are
    rows, and begins at multiples of `start_bytes`. `efficiency`: useful share of the chip's peak.
    """

    pool: str
    pattern: str
    layers: int
    runs: float
    rows: float
    useful_bytes: float
    span_bytes: float
    start_bytes: int
    efficiency: float

    @property
    def read_bytes(self) -> float:
        """Useful bytes of all runs."""
        return self.runs * self.useful_bytes


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Rows that a query of the last token reads."""

    ratio: int
    most: int

    def __call__(self, lengths: Lengths) -> Lengths:
        """Rows [n] of lengths [n]."""
        rows: Lengths = lengths // self.ratio
        return np.minimum(rows, self.most) if self.most else rows


@dataclass(frozen=True, slots=True)
class EntryPages:
    """Pages that hold finished entries: up to that of the last token which finished one."""

    ratio: int
    page_tokens: int

    def __call__(self, lengths: Lengths) -> Lengths:
        """Pages [n] of lengths [n]."""
        pages: Lengths = (lengths // self.ratio * self.ratio - 1) // self.page_tokens + 1
        return pages


@dataclass(frozen=True, slots=True)
class NextPicks:
    """Picks that follow another pick."""

    ratio: int
    most: int

    def __call__(self, lengths: Lengths) -> Lengths:
        """Picks but the first [n] of lengths [n]."""
        return np.maximum(np.minimum(lengths // self.ratio, self.most) - 1, 0)


def pool_runs(
    cut: CacheGeometry, mix: RequestMix, chip: ChipSpec, top_k: int, neighbours: float
) -> tuple[PoolRuns, ...]:
    """Runs of the window, C4 picks, C4 index scan and C128 of a decode step.

    Assumes: pages lie scattered over memory; a page's rows are read as one run, padding between
        rows with it, scales in the page beside their values.
    Assumes: C4 picks are entries apart, but for the stated chance that the next pick is the next
        entry; the two join where they are in one page.
    """
    found = []
    for one in cut.pools:
        runs = _runs(one, mix, top_k, neighbours)
        if runs is None:
            continue
        pattern, count, rows = runs
        each = rows / count if count else 0.0
        useful = each * one.row_bytes
        span = useful + max(0.0, each - 1) * (one.stride_bytes - one.row_bytes)
        start = one.start_bytes if pattern == "picks" else one.page_bytes
        efficiency = run_efficiency(chip, useful, span, start) if count else 1.0
        found.append(
            PoolRuns(
                pool=one.name, pattern=pattern, layers=one.layers, runs=count, rows=rows,
                useful_bytes=useful, span_bytes=span, start_bytes=start, efficiency=efficiency,
            )
        )  # fmt: skip
    return tuple(found)


def _runs(
    pool: PoolGeometry, mix: RequestMix, top_k: int, neighbours: float
) -> tuple[str, float, float] | None:
    """(pattern, runs, rows) of one layer and request; None for pools read row by row."""
    if pool.kind == "window":
        rows = mean(mix, ReadRows(1, pool.reach_tokens))
        return "window", _window_pieces(pool, rows), rows
    if pool.kind == "csa":
        joined = neighbours * (1 - 1 / pool.page_rows)
        rows = mean(mix, ReadRows(pool.ratio, top_k))
        return "picks", rows - joined * mean(mix, NextPicks(pool.ratio, top_k)), rows
    if pool.lives == "context":
        rows = mean(mix, ReadRows(pool.ratio, 0))
        return "pages", mean(mix, EntryPages(pool.ratio, pool.page_tokens)), rows
    return None


def _window_pieces(pool: PoolGeometry, rows: float) -> float:
    """A window that begins anywhere in a page reaches into (rows - 1) / page pages more."""
    return 1.0 if pool.lives != "sliding" else 1 + (rows - 1) / pool.page_tokens


def run_efficiency(
    chip: ChipSpec, useful_bytes: float, span_bytes: float, start_bytes: int
) -> float:
    """Useful share of the peak for scattered reads of a span that begins at multiples of a size.

    Assumes: the bank model's rate for runs at multiples of their own size holds for the bursts of
        runs that begin elsewhere: bytes fetched beside them cost as much as those asked for.
    """
    span = max(1, round(span_bytes))
    own = bursts_touched(span, span)
    share = memory_efficiency(chip, span) * own / bursts_touched(span, start_bytes)
    return min(1.0, share * useful_bytes / span_bytes) if span_bytes else 1.0


def read_bytes(runs: tuple[PoolRuns, ...]) -> float:
    """Useful bytes that a request reads in a decode step, over all layers."""
    return sum(run.layers * run.read_bytes for run in runs)


def read_efficiency(runs: tuple[PoolRuns, ...]) -> float:
    """Useful share of the peak over all reads of the cache, one pool after the other."""
    time = sum(run.layers * run.read_bytes / run.efficiency for run in runs)
    return read_bytes(runs) / time if time else 1.0
