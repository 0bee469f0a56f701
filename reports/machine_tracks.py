"""Kernels on the simulated machine as tracks of a trace: cores, cache slices, channels, links.

A process a kernel, which begins where the kernel does in its step. Cores and links have a bar for
every stretch, slices and channels a counter over equal bins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hwmodels.machine import words as w
from hwmodels.machine.lanes import (
    Floats,
    KernelLanes,
    Stretches,
    bins_of,
    busy_share,
    bytes_per_s,
    mean_open,
)
from reports.perfetto import Slice, Trace, lanes_of
from simulator.cost.machine_lanes import ShownKernel

# Bars of all kernels in one trace.
MOST_BARS = 200_000
BINS = 200
# Cores that are shown beside the fullest, and the most slices or channels that are all shown.
FIRST_CORES = 8
MOST_COUNTERS = 32
_UNITS = {
    "matrix": (w.Z_MATRIX,),
    "vector": (w.Z_VECTOR,),
    "wait": (w.Z_PROLOGUE, w.Z_WAIT, w.Z_EPILOGUE),
    "links": (w.Z_LINK,),
}
_Value = Callable[[Stretches, Stretches], Floats]


def add_kernels(trace: Trace, shown: Sequence[ShownKernel]) -> None:
    """A process for each kernel, all together with at most `MOST_BARS` bars."""
    left = MOST_BARS
    for number, kernel in enumerate(shown):
        left -= _add_kernel(trace, kernel, left // (len(shown) - number))


def _add_kernel(trace: Trace, kernel: ShownKernel, most: int) -> int:
    """The tracks of one kernel with at most so many bars; how many it has."""
    lanes = kernel.lanes
    cores = _shown_cores(lanes)
    bars = np.concatenate([_of_cores(lanes, cores), lanes.of(w.OF_LINK)])
    bars = bars[np.argsort(bars[:, w.N_FROM], kind="stable")]
    kept = bars[:most]
    name = f"machine: {kernel.record.path} ({kernel.record.priced_by})"
    process = trace.add_process(name, _about(kernel, cores, len(bars) - len(kept)))
    begin = kernel.record.start_ps
    for label, stretches in _bar_tracks(kept, cores):
        slices = [_bar(row, begin) for row in stretches.tolist()]
        for lane, members in enumerate(lanes_of([(s.start_ps, s.end_ps) for s in slices])):
            track = label if lane == 0 else f"{label} (overlap {lane})"
            trace.add_slices(process, track, (slices[i] for i in members))
    edges = bins_of(lanes.noted_to_ps, BINS)
    for label, unit, values in _counters(lanes, edges):
        points = [(begin + int(at), value) for at, value in zip(edges, values, strict=False)]
        trace.add_counter(process, f"{label} ({unit})", unit, [*points, (begin + edges[-1], 0.0)])
    return len(kept)


def _shown_cores(lanes: KernelLanes) -> list[int]:
    """The first cores and the one that is at work the longest."""
    found = lanes.of(w.OF_CORE)
    busy = np.bincount(
        found[:, w.N_WHO],
        weights=found[:, w.N_TO] - found[:, w.N_FROM],
        minlength=lanes.machine.cores,
    )
    first = range(min(FIRST_CORES, lanes.machine.cores))
    return list(dict.fromkeys([*first, int(np.argmax(busy))]))


def _of_cores(lanes: KernelLanes, cores: Sequence[int]) -> Stretches:
    found = lanes.of(w.OF_CORE)
    return found[np.isin(found[:, w.N_WHO], cores)]


def _bar_tracks(bars: Stretches, cores: Sequence[int]) -> Iterator[tuple[str, Stretches]]:
    """Names and stretches of the tracks that have any."""
    of_core = bars[:, w.N_SORT] == w.OF_CORE
    for core in cores:
        own = bars[of_core & (bars[:, w.N_WHO] == core)]
        for unit, states in _UNITS.items():
            found = own[np.isin(own[:, w.N_STATE], states)]
            if len(found):
                yield f"core {core} {unit}", found
    links = bars[bars[:, w.N_SORT] == w.OF_LINK]
    if len(links):
        yield "links of the chip", links


def _bar(row: list[int], begin_ps: int) -> Slice:
    start, end = row[w.N_FROM], row[w.N_TO]
    arguments: dict[str, int | str] = {
        "start_ps": begin_ps + start, "end_ps": begin_ps + end, "duration_ps": end - start,
    }  # fmt: skip
    name = w.STATE_NAMES[row[w.N_STATE]]
    if row[w.N_SORT] == w.OF_LINK:
        name = "sends"
        arguments["sent_bytes"] = row[w.N_BYTES]
    return Slice(
        name=name,
        category="machine",
        start_ps=begin_ps + start,
        end_ps=begin_ps + end,
        arguments=arguments,
    )


def _counters(lanes: KernelLanes, edges: Stretches) -> Iterator[tuple[str, str, Floats]]:
    """Names, units and values by bin: all together, then one by one."""
    slices, chunks = lanes.of(w.OF_SLICE), lanes.of(w.OF_CHUNK)
    machine = lanes.machine
    if len(slices):
        share = mean_open(slices, edges) / machine.slices
        yield "all cache slices busy", "%", 100 * share
        for who in _counted(slices, machine.slices):
            own = slices[slices[:, w.N_WHO] == who]
            yield f"cache slice {who} busy", "%", 100 * busy_share(own, edges)
    if len(chunks):
        yield "all memory channels", "GB/s", bytes_per_s(chunks, edges) / 1e9
        yield "all memory channels queue", "chunks", mean_open(chunks, edges)
        for who in _counted(chunks, machine.channels):
            own = chunks[chunks[:, w.N_WHO] == who]
            yield f"memory channel {who}", "GB/s", bytes_per_s(own, edges) / 1e9
            yield f"memory channel {who} queue", "chunks", mean_open(own, edges)


def _counted(stretches: Stretches, count: int) -> list[int]:
    """Numbers of those that have a counter: all, or the first and the fullest."""
    if count <= MOST_COUNTERS:
        return list(range(count))
    moved = np.bincount(stretches[:, w.N_WHO], weights=stretches[:, w.N_BYTES], minlength=count)
    return list(dict.fromkeys([*range(FIRST_CORES), int(np.argmax(moved))]))


def _about(kernel: ShownKernel, cores: Sequence[int], left_out: int) -> str:
    """What the tracks are of, and what they leave out."""
    lanes, chip = kernel.lanes, kernel.chip
    machine, run_us = lanes.machine, lanes.result.duration_ps / 1e6
    which = f"launch {lanes.launch + 1} of {lanes.launches}" if lanes.launches > 1 else "the launch"
    whole = machine.cores == chip.cores
    part = "" if whole else f" and {machine.stacks} of {chip.stacks} stacks of memory"
    parts = [
        f"{kernel.program}: {which}, {run_us:,.3f} us on {machine.cores} of {chip.cores} cores"
        f"{part}, {100 * lanes.kept:.0f} % of {'its' if whole else 'their'} work",
        f"cores {', '.join(map(str, cores))} are shown, the last the fullest"
        if cores[-1] >= FIRST_CORES
        else f"cores {', '.join(map(str, cores))} are shown",
        f"counters are means over {BINS} bins",
    ]
    if left_out or lanes.left_out:
        parts.append(
            f"{left_out:,} bars and {lanes.left_out:,} stretches of counters are left out, which "
            "are the last ones"
        )
    return "; ".join(parts) + "."
