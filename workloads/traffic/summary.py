"""Figures of a trace: rows, span, sessions, lengths, ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.traffic.trace import NO_TIME, Ints, Trace

PERCENTILES = (50, 90, 99)


def trace_summary(trace: Trace) -> dict[str, Any]:
    """Figures by name, units in the names; lengths as mean, percentiles and maximum in tokens.

    `span_s`: from the first to the last absolute arrival. `wait_s`: of requests after a reply.
    """
    timed = trace.arrival_ns[trace.arrival_ns != NO_TIME]
    has_ids = trace.block_tokens > 0
    observed = trace.observed_cached_tokens
    return {
        "name": trace.name,
        "requests": len(trace),
        "sessions": trace.sessions,
        "requests_per_session_mean": len(trace) / trace.sessions if trace.sessions else 0.0,
        "span_s": float(timed.max() - timed.min()) / 1e9 if len(timed) else 0.0,
        "requests_after_a_reply": int((trace.arrival_ns == NO_TIME).sum()),
        "wait_s": lengths(trace.delay_ns[trace.arrival_ns == NO_TIME] / 1e9),
        "input_tokens": lengths(trace.input_tokens),
        "output_tokens": lengths(trace.output_tokens),
        "input_tokens_sum": int(trace.input_tokens.sum()),
        "longest_input_tokens_per_session_mean": float(longest_inputs(trace).mean()),
        "block_tokens": trace.block_tokens,
        "block_ids": int(trace.run_count.sum()) if has_ids else None,
        "distinct_block_ids": distinct_ids(trace) if has_ids else None,
        "shared_block_ids": shared_ids(trace) if has_ids else None,
        "id_runs": len(trace.run_count) if has_ids else None,
        "observed_cached_fraction": None
        if observed is None
        else float(observed[observed >= 0].sum() / trace.input_tokens[observed >= 0].sum()),
        "notes": list(trace.notes),
    }


def lengths(values: Any) -> dict[str, float] | None:
    """Mean, percentiles and maximum; None of nothing."""
    if not len(values):
        return None
    points = np.percentile(values, PERCENTILES)
    return {
        "mean": float(np.mean(values)),
        **{f"p{p}": float(v) for p, v in zip(PERCENTILES, points, strict=True)},
        "max": float(np.max(values)),
    }


def longest_inputs(trace: Trace) -> Ints:
    """Longest input of every session [sessions], in tokens: what its context grew to."""
    longest = np.zeros(trace.sessions, dtype=np.int64)
    np.maximum.at(longest, trace.session, trace.input_tokens)
    return longest


def distinct_ids(trace: Trace) -> int:
    """Ids that occur, each counted once: the length of the union of all runs."""
    order = np.argsort(trace.run_first, kind="stable")
    first = trace.run_first[order]
    end = first + trace.run_count[order]
    before = np.maximum.accumulate(np.concatenate([[0], end[:-1]])) if len(end) else end
    return int(np.maximum(0, end - np.maximum(first, before)).sum())


def shared_ids(trace: Trace) -> int:
    """Ids that occur in more than one run, each counted once."""
    edges = np.concatenate([trace.run_first, trace.run_first + trace.run_count])
    steps = np.repeat([1, -1], len(trace.run_first))
    order = np.argsort(edges, kind="stable")
    covered = np.cumsum(steps[order])
    return int(np.diff(edges[order], append=0)[covered > 1].sum()) if len(edges) else 0
