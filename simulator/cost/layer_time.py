"""Duration of a layer whose kernels' costs are known: what `simulate_layer` gives, without SimPy.

A timer asks for nothing but the end of the last kernel, so that a plain loop over starts and ends
takes the place of processes and events.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# What binary fractions leave of a finished kernel, as `SharedPipes` has it.
_ROUNDING_PS = 1e-6


@dataclass(frozen=True, slots=True)
class Cost:
    """A kernel alone: `run_ps` after its launch; `shares` are the parts of pipes that it takes."""

    launch_ps: int
    run_ps: int
    shares: Mapping[str, float]


@dataclass(slots=True)
class _Running:
    kernel: int
    shares: Mapping[str, float]
    left_ps: float
    slowdown: float = 1.0


def layer_ps(
    costs: Sequence[Cost], streams: Sequence[int], after: Sequence[tuple[int, ...]]
) -> int:
    """End of the last kernel of a layer that starts at 0; `after` as in `Kernel`."""
    if len(set(streams)) == 1:
        return sum(cost.launch_ps + cost.run_ps for cost in costs)
    return _Layer(costs, streams, after).run()


class _Layer:
    """Streams launch their kernels in order; those that run share the pipes."""

    def __init__(
        self, costs: Sequence[Cost], streams: Sequence[int], after: Sequence[tuple[int, ...]]
    ) -> None:
        self._costs = costs
        self._after = after
        queues: dict[int, list[int]] = {}
        for i in range(len(costs) - 1, -1, -1):
            queues.setdefault(streams[i], []).append(i)
        # Next kernels of the streams that launch nothing and run nothing, the very next last.
        self._idle = [queues[stream] for stream in sorted(queues)]
        self._launching: list[tuple[int, list[int]]] = []
        self._running: list[_Running] = []
        self._queue_of = {i: queue for queue in self._idle for i in queue}
        self._ended: set[int] = set()
        self._now_ps = self._since_ps = 0
        self._wake_ps: int | None = None

    def run(self) -> int:
        """Time at which nothing is left."""
        while True:
            self._launch()
            if len(self._launching) == 1 and not self._running:
                self._run_alone()
                continue
            times = [at for at, _ in self._launching]
            if self._wake_ps is not None:
                times.append(self._wake_ps)
            if not times:
                return self._now_ps
            self._now_ps = min(times)
            ended = self._wake_ps == self._now_ps and self._end()
            if self._submit() or ended:
                self._plan()

    def _launch(self) -> None:
        """Launches of the streams whose next kernel waits for nobody."""
        idle = []
        for queue in self._idle:
            if queue and self._ended.issuperset(self._after[queue[-1]]):
                self._launching.append((self._now_ps + self._costs[queue[-1]].launch_ps, queue))
            elif queue:
                idle.append(queue)
        self._idle = idle

    def _run_alone(self) -> None:
        """The only kernel that is under way: nothing starts before it ends, nothing slows it."""
        ((at, queue),) = self._launching
        kernel = queue.pop()
        self._launching = []
        self._now_ps = self._since_ps = at + max(self._costs[kernel].run_ps, 0)
        self._wake_ps = None
        self._ended.add(kernel)
        self._idle.append(queue)

    def _submit(self) -> bool:
        """Put what has been launched on the pipes; whether there was any work."""
        launching, worked = [], False
        for at, queue in self._launching:
            if at > self._now_ps:
                launching.append((at, queue))
                continue
            kernel = queue.pop()
            cost = self._costs[kernel]
            if cost.run_ps <= 0:
                self._done(kernel)
                continue
            self._advance()
            self._running.append(_Running(kernel, cost.shares, float(cost.run_ps)))
            worked = True
        self._launching = launching
        return worked

    def _end(self) -> bool:
        """Take those that have finished off the pipes."""
        self._advance()
        for running in self._running:
            if running.left_ps < _ROUNDING_PS:
                self._done(running.kernel)
        self._running = [r for r in self._running if r.left_ps >= _ROUNDING_PS]
        return True

    def _done(self, kernel: int) -> None:
        self._ended.add(kernel)
        self._idle.append(self._queue_of[kernel])

    def _advance(self) -> None:
        """Bring the remaining work up to now."""
        passed, self._since_ps = self._now_ps - self._since_ps, self._now_ps
        if passed:
            for running in self._running:
                running.left_ps -= min(passed / running.slowdown, running.left_ps)

    def _plan(self) -> None:
        """Slow-downs of those that run now, and the next end."""
        asked: dict[str, float] = {}
        if len(self._running) > 1:
            for running in self._running:
                for pipe, share in running.shares.items():
                    asked[pipe] = asked.get(pipe, 0.0) + share
        for running in self._running:
            # Alone, a kernel asks for no more than all of a pipe.
            used = [asked[pipe] for pipe in running.shares] if asked else []
            running.slowdown = max(1.0, *used) if used else 1.0
        self._wake_ps = None
        if self._running:
            left_ps = min(math.ceil(r.left_ps * r.slowdown) for r in self._running)
            self._wake_ps = self._now_ps + max(left_ps, 0)
