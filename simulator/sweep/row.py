"""One run as one row: plain numbers with their units in the names."""

from __future__ import annotations

import numpy as np

from simulator.serve.run import ServingRun

Value = int | float | str | bool | None
_PERCENTILES = (50, 99)


def point_row(run: ServingRun) -> dict[str, Value]:
    """Figures of a run; None where a figure does not exist."""
    log = run.requests
    done = log.finished
    seconds = run.end_ns / 1e9
    tokens = int(log.column("output_tokens")[done].sum())
    row: dict[str, Value] = {
        "chips": run.chips,
        "requests": len(log),
        "finished": int(done.sum()),
        "refused": sum(run.refused.values()),
        "duration_s": seconds,
        "output_tokens": tokens,
        "output_tokens_per_s": tokens / seconds if seconds else None,
    }
    spans = {
        "ttft_ms": log.ttft_ns() / 1e6,
        "tpot_ms": log.tpot_ns() / 1e6,
        "queueing_ms": log.queueing_ns() / 1e6,
    }
    for name, values in spans.items():
        for percent in _PERCENTILES:
            found = float(np.percentile(values, percent)) if len(values) else None
            row[f"{name}_p{percent}"] = found
    row["preemptions"] = int(log.column("preemptions").sum())
    row["hit_tokens"] = int(log.column("hit_tokens").sum())
    return row
