"""A run over time, in bins of equal length: what steps did, and how many requests were where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.serve.request_log import RequestLog
from simulator.serve.step_log import StepLog

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BINS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """One value a bin. `start_s`: its beginning on the run's clock; bins last `bin_s`.

    `busy_share`: of all lanes; `decoding`, `queued` (not admitted) and `in_prefill` (admitted, no
    first token): mean numbers of requests; tokens and requests a second.
    """

    bin_s: float
    start_s: Floats
    busy_share: Floats
    decoding: Floats
    queued: Floats
    in_prefill: Floats
    prompt_tokens_per_s: Floats
    output_tokens_per_s: Floats
    arrivals_per_s: Floats
    finished_per_s: Floats

    def columns(self) -> dict[str, Floats]:
        """All columns by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "bin_s"}


def over_time(
    steps: Sequence[StepLog], requests: RequestLog, start_ns: int, end_ns: int, bins: int = BINS
) -> OverTime:
    """Bins from `start_ns` to `end_ns`; finished requests only.

    Assumes: within a record of steps, work is spread evenly.
    """
    edges = np.linspace(start_ns, max(end_ns, start_ns + bins), bins + 1)
    width_ns = edges[1] - edges[0]
    done = requests.finished
    times = {
        name: requests.column(name)[done]
        for name in ("arrival_ns", "admitted_ns", "first_token_ns", "finish_ns")
    }
    busy, decoding, prompts, outputs = (np.zeros(bins) for _ in range(4))
    for log in steps:
        columns = log.columns()
        busy += spread_over(columns, columns["duration_ns"], edges)
        decoding += spread_over(columns, columns["decoding"] * columns["duration_ns"], edges)
        prompts += spread_over(columns, columns["prompt_tokens"], edges)
        outputs += spread_over(columns, columns["decoding"] * columns["steps"], edges)
    firsts = _counted(times["first_token_ns"], edges)
    tokens = requests.column("output_tokens")[done]
    further = int(tokens.sum() - len(tokens))
    # With drafts a step yields more than a token a request: the answers say how many.
    outputs *= further / outputs.sum() if outputs.sum() else 1.0
    per_s = 1e9 / width_ns
    return OverTime(
        bin_s=float(width_ns / 1e9),
        start_s=edges[:-1] / 1e9,
        busy_share=busy / width_ns / max(1, len(steps)),
        decoding=decoding / width_ns,
        queued=_mean_between(times["arrival_ns"], times["admitted_ns"], edges),
        in_prefill=_mean_between(times["admitted_ns"], times["first_token_ns"], edges),
        prompt_tokens_per_s=prompts * per_s,
        output_tokens_per_s=(outputs + firsts) * per_s,
        arrivals_per_s=_counted(times["arrival_ns"], edges) * per_s,
        finished_per_s=_counted(times["finish_ns"], edges) * per_s,
    )


def time_integral(begin: ArrayLike, end: ArrayLike, until: ArrayLike) -> Floats:
    """Time that intervals have covered up to each moment of `until`, summed over the intervals."""
    return _elapsed(begin, until) - _elapsed(end, until)


def _elapsed(since: ArrayLike, until: ArrayLike) -> Floats:
    """Sum of what has passed at each moment since those moments of `since` that lie before it."""
    moments = np.sort(np.asarray(since, dtype=np.float64))
    at = np.asarray(until, dtype=np.float64)
    passed = np.searchsorted(moments, at, side="right")
    total = np.concatenate([[0.0], np.cumsum(moments)])[passed]
    found: Floats = passed * at - total
    return found


def _mean_between(begin: Ints, end: Ints, edges: Floats) -> Floats:
    covered = time_integral(begin - edges[0], end - edges[0], edges - edges[0])
    return np.maximum(np.diff(covered), 0.0) / (edges[1] - edges[0])


def spread_over(columns: dict[str, Ints], amounts: Ints, edges: Floats) -> Floats:
    """Amounts of records, spread evenly over their duration, by bin."""
    if not len(amounts):
        return np.zeros(len(edges) - 1)
    start = columns["start_ns"].astype(np.float64)
    moments = np.stack([start, start + columns["duration_ns"]], axis=1).ravel()
    sums = np.cumsum(amounts, dtype=np.float64)
    reached = np.stack([sums - amounts, sums], axis=1).ravel()
    return np.diff(np.interp(edges, moments, reached))


def _counted(moments: Ints, edges: Floats) -> Floats:
    return np.histogram(moments, bins=edges)[0].astype(np.float64)
