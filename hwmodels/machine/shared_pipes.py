"""Pipes of a chip that kernels running side by side share, on a SimPy clock of picoseconds.

A job states how long it takes alone and what share of each pipe it keeps busy meanwhile. While the
shares of all running jobs add up to at most one nothing slows down; a pipe asked for more slows
all its users by the same factor. One event per start and end, however long the jobs are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import simpy

# What binary fractions leave of a finished job.
_ROUNDING_PS = 1e-6


@dataclass(frozen=True, slots=True)
class Job:
    """Work of one kernel: picoseconds alone, and shares of pipes in 0..1 by name."""

    alone_ps: int
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a job's time in which it went at one speed: from, to, and the share of its work."""

    start_ps: int
    end_ps: int
    share: float


@dataclass(slots=True, eq=False)
class _Running:
    job: Job
    left_ps: float
    slowdown: float
    done: simpy.Event
    stretches: list[Stretch]


class SharedPipes:
    """Serves jobs side by side; `submit` returns the event of a job's end.

    The event's value is the list of the job's stretches, whose shares add up to 1.

    Assumes: a pipe that is asked for more than it has serves its users in proportion, and a
        kernel slows down as a whole by its scarcest pipe.
    """

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self._running: list[_Running] = []
        self._since_ps = 0
        self._round = 0

    def submit(self, job: Job) -> simpy.Event:
        """Start a job now; the event fires at its end, a whole picosecond."""
        done = self.env.event()
        if job.alone_ps <= 0:
            return done.succeed([])
        self._advance()
        self._running.append(_Running(job, float(job.alone_ps), 1.0, done, []))
        self._replan()
        return done

    def _advance(self) -> None:
        """Bring the remaining work up to now."""
        since, now = self._since_ps, int(self.env.now)
        self._since_ps = now
        if now == since:
            return
        for running in self._running:
            worked_ps = min((now - since) / running.slowdown, running.left_ps)
            running.left_ps -= worked_ps
            share = worked_ps / running.job.alone_ps
            running.stretches.append(Stretch(since, now, share))

    def _replan(self) -> None:
        """Slow-downs for those that run now, and the next end."""
        asked: dict[str, float] = {}
        for running in self._running:
            for pipe, share in running.job.shares.items():
                asked[pipe] = asked.get(pipe, 0.0) + share
        for running in self._running:
            used = (asked[pipe] for pipe, share in running.job.shares.items() if share > 0.0)
            running.slowdown = max(1.0, *used) if running.job.shares else 1.0
        self._round += 1
        if self._running:
            next_ps = min(math.ceil(r.left_ps * r.slowdown) for r in self._running)
            self.env.process(self._wake(max(next_ps, 0), self._round))

    def _wake(self, delay_ps: int, planned: int) -> simpy.events.ProcessGenerator:
        yield self.env.timeout(delay_ps)
        if planned != self._round:
            return  # another start or end came first and planned anew
        self._advance()
        ended = [r for r in self._running if r.left_ps < _ROUNDING_PS]
        self._running = [r for r in self._running if r.left_ps >= _ROUNDING_PS]
        for running in ended:
            running.done.succeed(running.stretches)
        self._replan()
