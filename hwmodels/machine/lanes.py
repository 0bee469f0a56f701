"""What the parts of a machine do over the time of one kernel: stretches of cores, slices, channels.

Assumes: a launch too long to be followed whole is told by a run of one stack of memory with its
share of the chip, of fewer waves of blocks and shorter loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hwmodels.machine import words as w
from hwmodels.machine.program import KernelProgram, Launch
from hwmodels.machine.simulation import MachineResult, blocks_at_once, depth_of, noted_run
from hwmodels.machine.spec import MachineSpec
from hwmodels.machine.steady import cost_of, cut_launch, launch_time, of_stack, whole_waves

# Stretches that a kernel's lanes hold at most, and the cost of the run that they are of; see
# `steady.BUDGET`. A request notes up to three stretches for about ten of its cost.
MOST_STRETCHES = 200_000
LANES_BUDGET = 500_000
_WAVES = 2
_FEWEST_LOOPS = 4
Stretches = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class KernelLanes:
    """A run of a kernel's longest launch, on `machine`, which may be a part of the chip.

    `launch` of `launches` was run, `kept` is the share of its work that the run has. A row of
    `stretches` is as `words.N_...` says, times in picoseconds; `left_out` of them had no room.
    """

    launch: int
    launches: int
    machine: MachineSpec
    result: MachineResult
    kept: float
    stretches: Stretches
    left_out: int

    def of(self, sort: int) -> Stretches:
        """Stretches of one sort, in order of their begin."""
        own = self.stretches[self.stretches[:, w.N_SORT] == sort]
        return own[np.argsort(own[:, w.N_FROM], kind="stable")]

    @property
    def noted_to_ps(self) -> int:
        """Until when stretches are noted: the whole run, where none was left out."""
        if not self.left_out:
            return self.result.duration_ps
        chunks = self.stretches[self.stretches[:, w.N_SORT] == w.OF_CHUNK]
        # A chunk is noted when it is back.
        last = chunks[-1:, w.N_TO] if len(chunks) else self.stretches[-1:, w.N_FROM]
        return int(last.max(initial=1))


def kernel_lanes(
    program: KernelProgram, machine: MachineSpec, most: int = MOST_STRETCHES
) -> KernelLanes:
    """Lanes of the launch of a kernel that takes the longest."""
    times = [launch_time(program, i, machine).duration_ps for i in range(len(program.launches))]
    number = int(np.argmax(times))
    launch = program.launches[number]
    own = replace(program, launches=(launch,))
    short, part = _followed(own, machine)
    whole = cost_of(launch, program.regions) * part.peak_bytes_per_s / machine.peak_bytes_per_s
    noted = noted_run(short, part, most)
    return KernelLanes(
        launch=number,
        launches=len(program.launches),
        machine=part,
        result=noted.result,
        kept=min(1.0, cost_of(short.launches[0], program.regions) / whole) if whole else 1.0,
        stretches=noted.stretches,
        left_out=noted.left_out,
    )


def _followed(program: KernelProgram, machine: MachineSpec) -> tuple[KernelProgram, MachineSpec]:
    """The program and the part of the machine whose run can be followed stretch by stretch."""
    (launch,) = program.launches
    if cost_of(launch, program.regions) <= LANES_BUDGET:
        return program, machine
    if machine.stacks > 1:
        return _followed(of_stack(program, launch, machine), machine.slice_of_stack())
    return replace(program, launches=(_shortened(program, machine),)), machine


def _shortened(program: KernelProgram, machine: MachineSpec) -> Launch:
    """Two waves of a launch's blocks, or one, with loops as long as the budget allows."""
    (launch,) = program.launches
    at_once = blocks_at_once(launch.kinds, machine) * machine.cores
    waves = max(1, min(_WAVES, whole_waves(launch, at_once)))
    cut = cut_launch(launch, waves, 1.0, at_once)
    longest = int(cut.stages.max())
    depth = max(depth_of(kind, machine) for kind in cut.kinds)
    least = min(1.0, (depth + _FEWEST_LOOPS) / max(longest, 1))
    share = max(min(1.0, LANES_BUDGET / cost_of(cut, program.regions)), least)
    return cut_launch(launch, waves, share, at_once)


def bins_of(end_ps: int, count: int) -> Stretches:
    """Edges of equal parts of a run, at most one a picosecond."""
    count = max(1, min(count, end_ps))
    return np.rint(np.linspace(0, max(end_ps, 1), count + 1)).astype(np.int64)


def spread(stretches: Stretches, amounts: Sequence[int] | Stretches, edges: Stretches) -> Floats:
    """Amounts spread evenly over their stretches, summed in bins."""
    start, end = (stretches[:, c].astype(np.float64) for c in (w.N_FROM, w.N_TO))
    rates = np.asarray(amounts, dtype=np.float64) / np.maximum(end - start, 1.0)
    # The integral of all rates up to a time: what had begun by then, less what went beyond it.
    order = np.argsort(np.concatenate([start, end]), kind="stable")
    at = np.concatenate([start, end])[order]
    change = np.concatenate([rates, -rates])[order]
    first = np.concatenate([[0.0], np.cumsum(change)])
    moment = np.concatenate([[0.0], np.cumsum(change * at)])
    place = np.searchsorted(at, edges, side="right")
    return np.asarray(np.diff(first[place] * edges - moment[place]))


def busy_share(stretches: Stretches, edges: Stretches) -> Floats:
    """Share of every bin that stretches which do not overlap cover, 0 to 1."""
    busy = spread(stretches, stretches[:, w.N_TO] - stretches[:, w.N_FROM], edges)
    return np.clip(busy / np.diff(edges), 0.0, 1.0)


def mean_open(stretches: Stretches, edges: Stretches) -> Floats:
    """Stretches that are open at once, mean over every bin."""
    open_ps = spread(stretches, stretches[:, w.N_TO] - stretches[:, w.N_FROM], edges)
    return np.maximum(open_ps / np.diff(edges), 0.0)


def bytes_per_s(stretches: Stretches, edges: Stretches) -> Floats:
    """Bytes a second in every bin, a stretch's bytes counted where it ends."""
    found, _ = np.histogram(stretches[:, w.N_TO], bins=edges, weights=stretches[:, w.N_BYTES])
    return np.asarray(found / np.diff(edges) * 1e12)
