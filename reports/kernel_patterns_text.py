"""What memory makes of an engine's kernels: rows for JSON and a table for terminal and page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from reports.memory_text import TextTable, gigabytes, percent

if TYPE_CHECKING:
    from simulator.cost.kernel_patterns import KernelPattern
    from simulator.cost.result import StepQuestion


def pattern_row(found: KernelPattern) -> dict[str, Any]:
    """Everything that was found, flat, units in names; what knows no memory has no latency."""
    row = asdict(found)
    latency_s = row.pop("latency_s")
    return {**row, "mean_latency_ns": latency_s * 1e9 if latency_s else None}


def patterns_table(found: Sequence[KernelPattern], question: StepQuestion) -> TextTable:
    """A line a kernel and state of the cache."""
    return TextTable(
        title=f"Kernels of {question.engine}",
        note=f"Of a decode step of {question.model} with {question.batch // question.count:,} "
        f"requests a chip at {question.context:,} tokens: the longest launch of each kernel on the "
        "simulated machine, from its first block to its last. Warm: data are cached as far as the "
        "kernel's price takes them to be; cold: nothing is at its start, and hits are on what "
        "several blocks load. Row hits, mean latency at the channel and balance (mean channel over "
        "the fullest) are those of memory. Went on: share of the work that was not simulated but "
        "taken to go on as the rest did.",
        headings=(
            "pattern", "kernel", "cache", "GB/s of\nmemory", "of\npeak", "GB/s\nloaded",
            "LLC\nhits", "row\nhits", "mean\nns", "balance", "page\ntokens", "run\nB", "us",
            "went\non",
        ),
        rows=tuple(map(_cells, found)),
    )  # fmt: skip


def _cells(one: KernelPattern) -> tuple[str, ...]:
    touched = one.latency_s > 0
    return (
        one.pattern,
        one.kernel,
        "warm" if one.cached else "cold",
        gigabytes(one.bytes_per_s),
        percent(one.peak_share),
        gigabytes(one.loaded_bytes_per_s),
        percent(one.llc_hit_rate),
        percent(one.row_hit_rate) if touched else "-",
        f"{one.latency_s * 1e9:,.0f}" if touched else "-",
        f"{one.channel_balance:.2f}" if touched else "-",
        f"{one.page_tokens:,}" if one.page_tokens else "-",
        f"{one.run_bytes:,}" if one.run_bytes else "whole",
        f"{one.seconds * 1e6:,.1f}",
        percent(one.extrapolated),
    )


def patterns_answer(found: Sequence[KernelPattern], engine: str, chip: str) -> str:
    """What matters most, in a sentence."""
    cold = [one for one in found if not one.cached]
    best = max(cold, key=lambda one: one.peak_share)
    least = min(cold, key=lambda one: one.peak_share)
    return (
        f"With nothing cached, kernels of {engine} draw {percent(least.peak_share)} "
        f"({least.pattern}) to {percent(best.peak_share)} ({best.pattern}) of {chip}'s peak "
        "bandwidth."
    )
