"""Which requests of a trace are asked, in which order and at which concurrency.

Every transform says what it did in `Trace.notes`; the order that requests meet a cache in is also
in `Trace.order`, which the first line of a study begins with.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace

import numpy as np

from simulator.basis.errors import InputError
from workloads.traffic.draft import counted
from workloads.traffic.trace import NO_TIME, Ints, Trace

LONGEST_GAP_NS = 300 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Transforms:
    """What is done to a trace, in this order; the defaults leave it as it is.

    `window_s`: requests that arrive in [begin, end), with all that follow their replies.
    `sample`: share of the sessions, drawn with `sample_seed`. `rate`: sessions start so many times
    as fast, at their own pace inside. `live`: sessions open at once, the next begins when one ends.
    `warm_up`: leading requests that fill the cache and are not counted.
    """

    window_s: tuple[float, float] | None = None
    sample: float | None = None
    sample_seed: int = 0
    rate: float = 1.0
    live: int | None = None
    warm_up: int = 0

    def __post_init__(self) -> None:
        if self.window_s is not None and not 0 <= self.window_s[0] < self.window_s[1]:
            begin, end = self.window_s
            raise InputError(
                f"a window from {begin:g} to {end:g} s is empty: give 0 <= begin < end"
            )
        if self.sample is not None and not 0 < self.sample <= 1:
            raise InputError(
                f"a sample of {self.sample:g} of the sessions: give above 0, at most 1"
            )
        if not (math.isfinite(self.rate) and 0 < self.rate <= 1e6):
            raise InputError(f"a rate of {self.rate:g} times: give above 0 and at most 1e6")
        if self.live is not None and self.live < 1:
            raise InputError(f"{self.live} live sessions: give at least 1")
        if self.live is not None and self.rate != 1:
            raise InputError(
                f"sessions that begin when another ends have no rate of their own: give --live "
                f"{self.live} or --rate {self.rate:g}"
            )
        if self.warm_up < 0:
            raise InputError(f"a warm-up of {self.warm_up} requests: give at least 0")

    def apply(self, trace: Trace) -> Trace:
        """The trace that is asked; raises InputError where nothing is left of it."""
        if self.window_s is not None:
            trace = within(trace, *self.window_s)
        if self.sample is not None:
            trace = sample_sessions(trace, self.sample, self.sample_seed)
        if self.rate != 1:
            trace = faster(trace, self.rate)
        if self.live is not None:
            trace = live_sessions(trace, self.live)
        return warmed(trace, self.warm_up) if self.warm_up else trace


def recorded_starts(trace: Trace) -> Ints:
    """When each request started, from its session's start [N], ns; waits where nothing is recorded.

    Assumes: where a source records waits alone, a request starts its wait after the one before it,
    as if service took no time.
    """
    start = trace.arrival_ns.copy()
    recorded = trace.start_ns
    if recorded is not None:
        start = np.where(recorded >= 0, recorded, start)
    waiting = start == NO_TIME
    if waiting.any():
        parent, delay = trace.parent.tolist(), trace.delay_ns.tolist()
        values = start.tolist()
        for request in np.flatnonzero(waiting).tolist():  # parents stand before their children
            values[request] = values[parent[request]] + delay[request]
        start = np.array(values, dtype=np.int64)
    return start


def live_sessions(trace: Trace, live: int) -> Trace:
    """`live` sessions open at once from time 0 on, in order of their first requests.

    The requests of a session, sub-agents among them, follow each other by time after the recorded
    difference of their starts, cut to 0 to 300 s. When the last one of a session is issued the
    next session starts at that instant; of requests at one instant those of the session that was
    admitted first come first.

    Assumes: where sessions are admitted by their number live, service takes no time: a session
    moves at the pace that its source recorded.
    """
    starts = recorded_starts(trace)
    by_session = np.lexsort((np.arange(len(trace)), starts, trace.session))
    firsts = np.full(trace.sessions, len(trace), dtype=np.int64)
    np.minimum.at(firsts, trace.session, np.arange(len(trace)))
    edges = np.searchsorted(trace.session[by_session], np.arange(trace.sessions + 1))
    gaps = np.diff(starts[by_session], prepend=0).clip(0, LONGEST_GAP_NS)
    gaps[edges[:-1]] = 0
    order, times = _issued(by_session.tolist(), gaps.tolist(), edges.tolist(), firsts, live)
    taken = replace(trace.take(np.array(order, dtype=np.int64)), start_ns=starts[order])
    text = f"{min(live, trace.sessions):,} of {counted(trace.sessions, 'session')} live at once"
    return replace(
        taken,
        arrival_ns=np.array(times, dtype=np.int64),
        delay_ns=np.zeros(len(trace), dtype=np.int64),
        order=text,
        notes=(
            *trace.notes,
            f"{text}: the next begins when one ends; requests follow each other at the recorded "
            "difference of their starts, cut to 0 to 300 s; service takes no time",
        ),
    )


def _issued(
    requests: list[int], gaps: list[int], edges: list[int], firsts: Ints, live: int
) -> tuple[list[int], list[int]]:
    """Requests in the order of their issue, and when, in ns."""
    waiting = np.argsort(firsts, kind="stable").tolist()
    events: list[tuple[int, int, int, int]] = []  # time, admission, place, end of the session
    admitted = 0

    def admit(now_ns: int) -> None:
        nonlocal admitted
        if admitted < len(waiting):
            session = waiting[admitted]
            heapq.heappush(events, (now_ns, admitted, edges[session], edges[session + 1]))
            admitted += 1

    for _ in range(live):
        admit(0)
    order, times = [], []
    while events:
        now_ns, admission, place, end = heapq.heappop(events)
        order.append(requests[place])
        times.append(now_ns)
        if place + 1 < end:
            heapq.heappush(events, (now_ns + gaps[place + 1], admission, place + 1, end))
        else:
            admit(now_ns)
    return order, times


def within(trace: Trace, begin_s: float, end_s: float) -> Trace:
    """Requests that arrive in [begin, end), with those that follow their replies; times from begin.

    A session that began before and goes on at times of its own begins with its first request there.
    """
    begin, end = round(begin_s * 1e9), round(min(end_s, 9e8) * 1e9)
    arrival, parent = trace.arrival_ns.tolist(), trace.parent.tolist()
    kept: list[bool] = []
    for request, at in enumerate(arrival):
        kept.append(kept[parent[request]] if at == NO_TIME else begin <= at < end)
    rows = np.flatnonzero(kept)
    if not len(rows):
        timed = trace.arrival_ns[trace.arrival_ns != NO_TIME]
        raise InputError(
            f"no request of {trace.name} arrives from {begin_s:g} to {end_s:g} s: its arrivals are "
            f"at {timed.min() / 1e9:g} to {timed.max() / 1e9:g} s"
        )
    taken = trace.take(rows)
    times = np.where(taken.arrival_ns == NO_TIME, NO_TIME, taken.arrival_ns - begin)
    note = (
        f"{len(rows):,} of {counted(len(trace), 'request')} arrive from {begin_s:g} to {end_s:g} s"
    )
    return replace(taken, arrival_ns=times, notes=(*trace.notes, note))


def sample_sessions(trace: Trace, share: float, seed: int) -> Trace:
    """A share of the sessions, at least one, all equally likely; the others are left out."""
    number = max(1, round(share * trace.sessions))
    drawn = np.random.default_rng(seed).permutation(trace.sessions)[:number]
    rows = np.flatnonzero(np.isin(trace.session, drawn))
    note = (
        f"{number:,} of {counted(trace.sessions, 'session')} drawn with seed {seed}: {len(rows):,} "
        f"of {counted(len(trace), 'request')}"
    )
    return replace(trace.take(rows), notes=(*trace.notes, note))


def faster(trace: Trace, rate: float) -> Trace:
    """Sessions start `rate` times as fast; inside, requests keep the differences of their times."""
    arrival = trace.arrival_ns
    timed = arrival != NO_TIME
    begin = np.full(trace.sessions, np.iinfo(np.int64).max)
    np.minimum.at(begin, trace.session[timed], arrival[timed])
    own = begin[trace.session]
    moved = np.where(timed, np.rint(own / rate).astype(np.int64) + arrival - own, NO_TIME)
    note = f"sessions start at {rate:g} times the recorded rate, at their own pace inside"
    taken = replace(trace, arrival_ns=moved, notes=(*trace.notes, note))
    root = moved.copy()
    for request in np.flatnonzero(~timed).tolist():
        root[request] = root[trace.parent[request]]
    # In order of arrival again, as far as the trace was: files of whole sessions stay as they are.
    first = arrival.copy()
    for request in np.flatnonzero(~timed).tolist():
        first[request] = first[trace.parent[request]]
    return taken.take(np.argsort(root, kind="stable")) if (np.diff(first) >= 0).all() else taken


def warmed(trace: Trace, warm_up: int) -> Trace:
    """Leave the first requests, in the order that they meet a cache in, out of its figures."""
    if warm_up >= len(trace):
        raise InputError(
            f"a warm-up of {warm_up:,} requests leaves none of the {len(trace):,} of {trace.name} "
            f"to count: give at most {len(trace) - 1:,}"
        )
    note = f"the first {counted(warm_up, 'request')} fill the cache and are not counted"
    return replace(trace, warm_up=warm_up, notes=(*trace.notes, note))


def open_sessions(trace: Trace, order: Ints | None = None) -> tuple[float, int]:
    """Sessions open at once when requests meet a cache in `order` (default: the trace's).

    A session is open from its first request to its last. Mean over requests, and the most.
    """
    session = trace.session if order is None else trace.session[order]
    place = np.arange(len(session))
    first = np.full(trace.sessions, len(session), dtype=np.int64)
    last = np.full(trace.sessions, -1, dtype=np.int64)
    np.minimum.at(first, session, place)
    np.maximum.at(last, session, place)
    seen = last >= 0
    changes = np.bincount(first[seen], minlength=len(session) + 1)
    changes[1:] -= np.bincount(last[seen], minlength=len(session) + 1)[:-1]
    live = np.cumsum(changes[: len(session)])
    return (float(live.mean()), int(live.max())) if len(live) else (0.0, 0)


def order_text(trace: Trace, order: Ints | None = None) -> str:
    """In which order, and at which concurrency, requests meet a cache; one clause.

    `order` [N]: of a clock's; without it requests are taken as the trace has them.
    """
    mean, most = open_sessions(trace, order)
    how = trace.order or ("in file order" if order is None else "in order of time")
    if trace.order:
        how = f"with {how}, in order of time"
    sessions = f"{mean:,.1f} sessions open at once in the mean, {most:,} at most"
    return f"requests meet the cache {how} ({sessions})"
