"""Times between tokens of an answer (inter-token latency), from the steps that made them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.serve.request_log import RequestLog
from simulator.serve.step_log import StepLog

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def token_gaps(steps: Sequence[StepLog], requests: RequestLog) -> tuple[Floats, Ints]:
    """Gaps in ns and how many there are of each: one for a decoding request and step.

    Where prompts run alone (prefill-first), the step after them has waited for them.

    Assumes: steps that are one record take equally long; with drafts, the tokens of a step arrive
        together, so gaps are those between steps; the gap while a request that gave way waits and
        is computed again is not among them (its time per output token has it).
    """
    values, weights = [np.empty(0)], [np.empty(0, dtype=np.int64)]
    for place, log in enumerate(steps):
        for gaps, counts in _lane(log.columns(), _answers(requests, place)):
            values.append(gaps)
            weights.append(counts)
    return np.concatenate(values), np.concatenate(weights)


def _answers(requests: RequestLog, lane: int) -> tuple[Ints, Ints]:
    """First and last token of the requests of a lane, by the first."""
    mine = requests.finished & (requests.column("replica") == lane)
    first, last = requests.column("first_token_ns")[mine], requests.column("finish_ns")[mine]
    order = np.argsort(first, kind="stable")
    return first[order], last[order]


def _lane(columns: dict[str, Ints], answers: tuple[Ints, Ints]) -> list[tuple[Floats, Ints]]:
    rows = np.flatnonzero(columns["decoding"] > 0)
    start, count = columns["start_ns"][rows], columns["steps"][rows]
    each = columns["duration_ns"][rows] / count
    decoding = columns["decoding"][rows]
    # Ends of the steps before; those who decode in the first have all had a first token since -1.
    before = np.concatenate([[-1], (start + columns["duration_ns"][rows])[:-1]])
    late = start > before
    found = [(each, decoding * (count - late))]
    for row in np.flatnonzero(late).tolist():
        found.append(_stalled(before[row], start[row], each[row], int(decoding[row]), answers))
    return found


def _stalled(
    stopped: int, resumed: int, step: float, decoding: int, answers: tuple[Ints, Ints]
) -> tuple[Floats, Ints]:
    """Gaps that end with the first step after a pause: since then, or since a first token in it."""
    first, last = answers
    among = slice(*np.searchsorted(first, (stopped, resumed), side="right"))
    fresh = first[among][last[among] > resumed]
    since = resumed + step - fresh
    waited = max(0, decoding - len(fresh))
    counts = np.concatenate([np.ones(len(fresh), dtype=np.int64), [waited]])
    return np.concatenate([since, [resumed + step - stopped]]), counts
