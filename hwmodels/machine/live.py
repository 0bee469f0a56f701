"""The live twin of a chip: its clock, and the pipes that kernels on different streams share.

Times are whole picoseconds. A step is not simulated transfer by transfer: a kernel's own time comes
from a cost model, the machine decides what running side by side makes of it.
"""

from __future__ import annotations

import math

import simpy

from hwmodels.chip import ChipSpec
from hwmodels.machine.shared_pipes import Job, SharedPipes

PICOSECONDS = 10**12


def to_ps(seconds: float) -> int:
    """Whole picoseconds of a duration, rounded up; the noise of binary fractions is not."""
    return math.ceil(round(seconds * PICOSECONDS, 3))


class Machine:
    """One chip in simulated time, starting at zero."""

    def __init__(self, chip: ChipSpec) -> None:
        self.chip = chip
        self.env = simpy.Environment()
        self.pipes = SharedPipes(self.env)

    @property
    def now_ps(self) -> int:
        """Current time."""
        return int(self.env.now)

    def run(self, launch_ps: int, job: Job) -> simpy.events.ProcessGenerator:
        """Process of one kernel: the gap of its launch, then its work on the shared pipes.

        Returns the stretches of the work.
        """
        yield self.env.timeout(launch_ps)
        stretches = yield self.pipes.submit(job)
        return stretches
