"""Whether requests came faster than they could be served: then waiting grows with time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.serve.request_log import RequestLog

_LEAST_REQUESTS = 40
_LEAST_GROWTH = 0.05
_LEAST_RATIO = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """`growth`: seconds by which TTFT grows in a second of arrivals, over their second half.

    `offered_per_s`: arrivals of that half a second; `served_per_s`: first tokens meanwhile;
    `waiting`: requests without a first token when the last one arrived.
    """

    growth: float
    offered_per_s: float
    served_per_s: float
    waiting: int

    @property
    def sentence(self) -> str:
        """What is wrong, and what to try."""
        return (
            f"saturated: {self.offered_per_s:.3g} requests arrive a second and "
            f"{self.served_per_s:.3g} are begun; TTFT grows by {self.growth:.2f} s every second, "
            f"and {self.waiting:,} wait when the last arrives, so percentiles only say how long "
            "the run was; add replicas or lower the rate"
        )


def saturation_of(requests: RequestLog) -> Saturation | None:
    """None where the load is carried, or too few requests came to tell.

    Assumes: a run is saturated where TTFT in the last tenth of arrivals is 1.5 times that just
        after their middle and has grown by 0.05 s a second or more in between.
    """
    done = requests.finished
    arrival, first = requests.column("arrival_ns")[done], requests.column("first_token_ns")[done]
    if len(arrival) < _LEAST_REQUESTS:
        return None
    order = np.argsort(arrival, kind="stable")
    arrival, first = arrival[order], first[order]
    middle, tenth = len(arrival) // 2, max(4, len(arrival) // 10)
    waits = (first - arrival) / 1e9
    early, late = slice(middle, middle + tenth), slice(-tenth, None)
    before, after = float(np.median(waits[early])), float(np.median(waits[late]))
    span_s = float(arrival[late].mean() - arrival[early].mean()) / 1e9
    half_s = float(arrival[-1] - arrival[middle]) / 1e9
    if span_s <= 0 or half_s <= 0:
        return None
    growth = (after - before) / span_s
    if growth < _LEAST_GROWTH or after < _LEAST_RATIO * before:
        return None
    begun = np.count_nonzero((first > arrival[middle]) & (first <= arrival[-1]))
    return Saturation(
        growth=growth,
        offered_per_s=(len(arrival) - 1 - middle) / half_s,
        served_per_s=begun / half_s,
        waiting=int(np.count_nonzero(first > arrival[-1])),
    )
