"""One session of an agent trace in the Weka form: a main chain of requests and sub-agent chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from workloads.traffic.draft import Draft, counted
from workloads.traffic.trace import NO_REQUEST, NO_TIME, SESSION_STRIDE

MAIN = ""


@dataclass(slots=True)
class WekaRequest:
    """One request: chain ("" is the main one), recorded start, service and wait or None."""

    line: int
    agent: str
    t_ns: int | None
    service_ns: int | None
    think_ns: int | None
    input_tokens: int
    output_tokens: int
    ids: list[Any]

    @property
    def start_ns(self) -> int:
        """Recorded start from the session's, 0 if unknown."""
        return self.t_ns or 0


@dataclass(slots=True)
class Repairs:
    """Requests of a file without a start, without a wait, or out of order in their chain."""

    untimed: int = 0
    unthought: int = 0
    moved: int = 0
    agents: set[tuple[int, str]] = field(default_factory=set)


def add_session(
    draft: Draft,
    session: int,
    requests: Sequence[WekaRequest],
    repairs: Repairs,
    *,
    ranges: bool,
    private: bool = True,
    start_ns: int = 0,
) -> None:
    """Append a session's requests in order of the file, chained to the replies they wait for.

    Assumes: a request waits for the reply before it in its own chain (main or one sub-agent) and
    then for its recorded think time, with no other join; the first request of a sub-agent follows
    the main request before it by the recorded gap.
    """
    requests = _in_order(requests, repairs)
    offset = session * SESSION_STRIDE if private else 0
    last: dict[str, tuple[int, WekaRequest]] = {}
    for request in requests:
        before = last.get(request.agent) or last.get(MAIN)
        if request.agent != MAIN:
            repairs.agents.add((session, request.agent))
        arrival, delay, parent = start_ns + request.start_ns, 0, NO_REQUEST
        if before is not None:
            arrival, parent = NO_TIME, before[0]
            delay = _delay_ns(request, before[1], request.agent in last, repairs)
        number = draft.add(
            request.line,
            request.input_tokens,
            request.output_tokens,
            arrival_ns=arrival,
            delay_ns=delay,
            session=session,
            parent=parent,
            id_tokens=request.input_tokens,
            start_ns=request.start_ns,
        )
        if not ranges:
            draft.ids.add_list(request.ids, offset, private)
        last[request.agent] = (number, request)
    if ranges:
        draft.ids.add_ranges([request.ids for request in requests], offset, private)


def _delay_ns(request: WekaRequest, before: WekaRequest, same: bool, repairs: Repairs) -> int:
    """Recorded wait in a chain; at its beginning, or unrecorded, the gap since the reply before."""
    if same and request.think_ns is not None:
        return request.think_ns
    repairs.unthought += same
    return max(0, request.start_ns - before.start_ns - (before.service_ns or 0))


def _in_order(requests: Sequence[WekaRequest], repairs: Repairs) -> Sequence[WekaRequest]:
    """The requests with every chain sorted by start, in the places that the chain has.

    A request without a start gets that of the one before it in its chain.
    """
    chains: dict[str, list[int]] = {}
    for place, request in enumerate(requests):
        chains.setdefault(request.agent, []).append(place)
    ordered = list(requests)
    for places in chains.values():
        latest = 0
        for place in places:
            if requests[place].t_ns is None:
                repairs.untimed += 1
                requests[place].t_ns = latest
            latest = requests[place].start_ns
        by_start = sorted(places, key=lambda place: requests[place].start_ns)
        for place, source in zip(places, by_start, strict=True):
            repairs.moved += place != source
            ordered[place] = requests[source]
    return ordered


def say(draft: Draft, repairs: Repairs, started: int = 0) -> None:
    """Notes of a whole file, `started` of whose sessions have a start of their own."""
    sessions = draft.sessions
    some = "all" if not started else f"{sessions - started:,} of them"
    start = (
        "with their starts"
        if started == sessions
        else f"{some} starting at 0 as the source gives no start"
    )
    draft.notes.append(
        f"{counted(sessions, 'session')}, {start}; requests follow the reply before them after the "
        "recorded wait"
    )
    if repairs.agents:
        draft.notes.append(
            f"{counted(len(repairs.agents), 'sub-agent')}: each starts after the recorded gap, as "
            "no join is recorded"
        )
    if repairs.untimed:
        draft.doubts.append(
            f"{counted(repairs.untimed, 'request')} without a time set to that of the request "
            "before, or 0"
        )
    if repairs.unthought:
        draft.notes.append(
            f"{counted(repairs.unthought, 'wait')} not recorded, taken from starts and services"
        )
    if repairs.moved:
        draft.doubts.append(
            f"{counted(repairs.moved, 'request')} out of order of time within a session: sorted"
        )
