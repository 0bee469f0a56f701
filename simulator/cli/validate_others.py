"""Prints tables of DRAM runs and published figures beside ours, and returns them as data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.cli.options import console, error_console

if TYPE_CHECKING:
    from hwmodels.dram.table import RowPrediction
    from simulator.calibration.published import Comparison

WORST = 10


def validate_dram(path: Path) -> dict[str, Any]:
    """Runs the rows of a table, prints how far off they are, and returns that as data.

    Bandwidth errors are shares of the peak, latency errors shares of the measured median.
    """
    from hwmodels.dram.table import predict_row, read_table

    rows = read_table(path)
    predictions: list[RowPrediction] = []
    with error_console().status("") as status:
        for number, row in enumerate(rows, start=1):
            status.update(f"{path.name}: row {number} of {len(rows)}")
            predictions.append(predict_row(row))
    what = f"{path.name}: configuration, channels, pattern"
    _say(
        f"\n{what:<60} {'rows':>5} {'bandwidth: median':>18} {'worst':>7} "
        f"{'p50 latency: median':>20} {'worst':>7}"
    )
    groups: dict[tuple[str, int, str], list[RowPrediction]] = {}
    for found in predictions:
        key = (found.row.config, found.row.channels, found.row.pattern)
        groups.setdefault(key, []).append(found)
    report: dict[str, Any] = {"file": path.name, "n": len(predictions), "groups": [], "worst": []}
    for (config, channels, pattern), group in sorted(groups.items()):
        line = _print_group(f"{config}, {channels}, {pattern}", group)
        report["groups"].append(
            {"config": config, "channels": channels, "pattern": pattern, **line}
        )
    if predictions:
        report["all"] = _print_group("all rows", predictions)
    for found in sorted(predictions, key=lambda p: -abs(p.useful_error))[:WORST]:
        report["worst"].append(_print_worst_windows(path, found))
    return report


def _print_group(name: str, group: list[RowPrediction]) -> dict[str, Any]:
    import numpy as np

    bandwidth = np.abs([found.useful_error for found in group])
    latency = np.abs([found.p50_error for found in group])
    _say(
        f"{name:<60} {len(group):>5} {np.median(bandwidth):>18.4f} {bandwidth.max():>7.4f} "
        f"{np.median(latency):>20.2%} {latency.max():>7.2%}"
    )
    return {
        "n": len(group),
        "median_abs_useful_error": float(np.median(bandwidth)),
        "worst_abs_useful_error": float(bandwidth.max()),
        "median_abs_p50_error": float(np.median(latency)),
        "worst_abs_p50_error": float(latency.max()),
    }


def _print_worst_windows(path: Path, found: RowPrediction) -> dict[str, Any]:
    row, result = found.row, found.result
    _say(
        f"  {path.name}:{row.line} {row.config}, {row.channels} channels, {row.pattern} of "
        f"{row.chunk_bytes} B at {row.align_bytes} B, {row.write_frac:.0%} writes: predicted "
        f"{result.useful_fraction:.4f} of peak, measured {row.frac_peak_useful:.4f}; p50 "
        f"{result.latency_p50_ns:,.1f} ns, measured {row.lat_p50_ns:,.1f}; mostly {_cause(found)}"
    )
    return {
        "line": row.line,
        "config": row.config,
        "channels": row.channels,
        "pattern": row.pattern,
        "predicted_useful_fraction": result.useful_fraction,
        "measured_useful_fraction": row.frac_peak_useful,
        "predicted_p50_ns": result.latency_p50_ns,
        "measured_p50_ns": row.lat_p50_ns,
        "cause": _cause(found),
    }


def _cause(found: RowPrediction) -> str:
    """What the data buses wait for most, beside moving data."""
    waits = {name: share for name, share in found.result.time_parts.items() if name != "data"}
    return max(waits, key=lambda name: waits[name])


def print_published() -> dict[str, Any]:
    """Prints published figures beside ours, and why the others have none."""
    from simulator.calibration.published import compared, read_published

    content = read_published()
    report: dict[str, Any] = {"compared": [], "not_covered": []}
    _say(f"{'kernel, shape, hardware':<78} {'published':>10} {'ours':>10} {'time':>6}  p10 to p90")
    for found in (found for row in content.rows for found in compared(row)):
        row = found.row
        what = ", ".join(word for word in (row.kernel, row.shape, row.hardware) if word)
        _say(
            f"{what:<78} {row.value:>10,.5g} {found.predicted:>10,.4g} "
            f"{found.time_difference:>+6.0%}  {found.low:,.4g} to {found.high:,.4g} {row.unit}; "
            f"{found.call.family}{'; ' + row.remark if row.remark else ''}"
        )
        report["compared"].append(_published_line(found))
    left = [row for row in content.rows if row.not_covered]
    _say(f"\nPublished figures that no kernel family covers: {len(left)} of {len(content.rows)}")
    for reason, words in content.reasons.items():
        rows = [row for row in left if row.not_covered == reason]
        kernels = ", ".join(dict.fromkeys(row.kernel for row in rows))
        _say(f"  {len(rows)}: {kernels}: {words}")
        report["not_covered"].append({"n": len(rows), "kernels": kernels, "reason": words})
    return report


def _published_line(found: Comparison) -> dict[str, Any]:
    row = found.row
    return {
        "kernel": row.kernel,
        "shape": row.shape,
        "hardware": row.hardware,
        "unit": row.unit,
        "published": row.value,
        "predicted": found.predicted,
        "predicted_p10": found.low,
        "predicted_p90": found.high,
        "time_difference": found.time_difference,
        "family": found.call.family,
        "source": row.source,
        "remark": row.remark,
    }


def _say(text: str) -> None:
    console().print(text, soft_wrap=True, markup=False)
