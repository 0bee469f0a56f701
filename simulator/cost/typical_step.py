"""The typical decode step: the mean over the steps in which compressed entries come to their end.

A request completes an entry of a pool every `ratio` tokens, so that steps differ by which entries
they complete: with ratios 4 and 128, 96 of 128 steps complete none, 31 a C4 entry, one both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.basis.assumptions import assumptions_of
from simulator.cost.machine_view import MachineView, mean_view
from simulator.cost.question import AskedStep
from simulator.cost.records import step_interval
from simulator.cost.result import KernelRecord, StepPeriod, StepResult
from simulator.cost.step import cost_step
from simulator.cost.step_timer import layer_places
from simulator.cost.timeline import Progress
from simulator.count.count import StepCount
from simulator.count.tally import Tally
from workloads.deepseek_v4.state import layer_name
from workloads.run_stats import RunStats

# Longer periods (ratios without common factors) are counted over so many tokens.
LONGEST_PERIOD = 2**18
_SUMS = (
    *("low_ps", "high_ps", "vector_ops", "special_ops", "weight_bytes", "activation_bytes"),
    *("cache_read_bytes", "cache_write_bytes", "dram_read_bytes", "dram_write_bytes"),
    "link_bytes",
)
_TALLIED = tuple(field.name for field in fields(Tally) if field.name != "flops")
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepClass:
    """Steps that complete the same entries: their share, and the one nearest to what was asked."""

    share: float
    context: int


def step_classes(ratios: Sequence[int], context: int) -> tuple[int, list[StepClass]]:
    """(tokens of the period, its classes of steps), those of the asked context last.

    The period ends at the context; where that is shorter, it begins with the first token.
    """
    distinct = sorted({ratio for ratio in ratios if ratio})
    period = min(math.lcm(*distinct), LONGEST_PERIOD) if distinct else 1
    last = max(context, period)
    tokens = np.arange(last - period + 1, last + 1)
    completes = np.zeros(period, dtype=np.int64)
    for place, ratio in enumerate(distinct):
        completes |= (tokens % ratio == 0).astype(np.int64) << place
    found = []
    for kind in np.unique(completes):
        members = tokens[completes == kind]
        nearest = int(members[np.abs(members - context).argmin()])
        found.append(StepClass(len(members) / period, nearest))
    return period, sorted(found, key=lambda one: one.context == context)


def typical_step(
    asked: AskedStep, stats: RunStats | None = None, progress: Progress | None = None
) -> StepResult:
    """Cost of a decode step as the mean over the period; of others, that step.

    A step that verifies drafts completes entries of CSA in most cases, and is costed as it is.

    Raises as `cost_step`.

    Assumes: all requests are at the same place of the period, and steps of the period that complete
        the same entries take as long as the one of them that is nearest to the context.
    """
    question = asked.question
    if question.phase != "decode" or question.draft_tokens:
        return cost_step(asked, stats, progress)
    ratios = [layer.ratio for layer in asked.config.layers]
    period, classes = step_classes(ratios, question.context)
    longest = asked.config.max_position_embeddings
    classes = [one for one in classes if one.context <= longest]
    exact = cost_step(asked.changed(context=classes[-1].context), stats, progress)
    others = [_like(exact, asked.changed(context=one.context), stats) for one in classes[:-1]]
    known = [other for other in others if other is not None]
    if not known or len(known) < len(others):
        return exact
    shares = np.array([one.share for one in classes])
    own = _Launches(exact.kernels, [record.start_ps for record in exact.kernels], exact.counts)
    return _mean(exact, [*known, own], shares / shares.sum(), asked, period)


@dataclass(frozen=True, slots=True)
class _Launches:
    """The launches of a step, by its place in the whole model: records, and where they start.

    Records of layers that cost the same may be one.
    """

    records: Sequence[KernelRecord]
    starts_ps: Sequence[int]
    counts: StepCount | None

    @property
    def total_ps(self) -> int:
        """Duration of the step."""
        pairs = zip(self.records, self.starts_ps, strict=True)
        return max(start + record.duration_ps for record, start in pairs)


def _like(exact: StepResult, asked: AskedStep, stats: RunStats | None) -> _Launches | None:
    """Another step of the deployment, of which one layer of each kind is costed.

    None where it launches other kernels, so that the two have no mean.
    """
    reduced, places = layer_places(asked.config)
    short = cost_step(asked.changed(config=reduced), stats, memory=exact.memory)
    place_of = {layer_name(i): layer_name(place) for i, place in enumerate(places)}
    launches = {(kernel.scope, kernel.name): kernel for kernel in short.kernels}
    begins, ends = _spans(short.kernels)
    records, starts = [], []
    offset, current = 0, exact.kernels[0].scope
    for record in exact.kernels:
        scope = place_of.get(record.scope, record.scope)
        own = launches.get((scope, record.name))
        if own is None:
            return None
        if record.scope != current:
            before = place_of.get(current, current)
            offset += ends[before] - begins[before]
            current = record.scope
        records.append(own)
        starts.append(own.start_ps - begins[scope] + offset)
    return _Launches(records, starts, _counts(exact.counts, short.counts, place_of))


def _counts(
    whole: StepCount | None, short: StepCount | None, place_of: Mapping[str, str]
) -> StepCount | None:
    """Counts of the whole model's nodes, each that of the layer which costs the same."""
    if whole is None or short is None:
        return None
    known = {node.path: node.tally for node in short.nodes}
    nodes = (
        replace(node, tally=known[f"{place_of.get(node.scope, node.scope)}/{node.local_path}"])
        for node in whole.nodes
    )
    return replace(whole, nodes=tuple(nodes))


def _spans(records: Sequence[KernelRecord]) -> tuple[dict[str, int], dict[str, int]]:
    """First start and last end of each layer."""
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for record in records:
        begins[record.scope] = min(begins.get(record.scope, record.start_ps), record.start_ps)
        ends[record.scope] = max(ends.get(record.scope, 0), record.end_ps)
    return begins, ends


def _mean(
    exact: StepResult,
    steps: Sequence[_Launches],
    shares: Floats,
    asked: AskedStep,
    period: int,
) -> StepResult:
    counts = _mean_counts([step.counts for step in steps], shares)
    kernels = _mean_records(exact.kernels, steps, shares, counts)
    total_ps = max(kernel.end_ps for kernel in kernels)
    low_ps, high_ps = step_interval(kernels, total_ps, exact.standing)
    totals = [step.total_ps for step in steps]
    return replace(
        exact,
        question=asked.question,
        kernels=kernels,
        total_ps=total_ps,
        low_ps=low_ps,
        high_ps=high_ps,
        counts=counts,
        assumptions=(*exact.assumptions, *assumptions_of([typical_step])),
        period=StepPeriod(tokens=period, shortest_ps=min(totals), longest_ps=max(totals)),
    )


def _mean_counts(counts: Sequence[StepCount | None], shares: Floats) -> StepCount | None:
    """Counts of every node, each the mean; equal layers have the same tallies."""
    whole = [own for own in counts if own is not None]
    if len(whole) < len(counts):
        return None
    means: dict[tuple[int, ...], Tally] = {}
    nodes = []
    for row in zip(*(own.nodes for own in whole), strict=True):
        tallies = [node.tally for node in row]
        key = tuple(map(id, tallies))
        if key not in means:
            numbers = {
                name: round(float(shares @ np.array([getattr(t, name) for t in tallies])))
                for name in _TALLIED
            }
            flops = _mean_of([tally.flops for tally in tallies], shares)
            means[key] = Tally(flops=flops, **numbers)
        nodes.append(replace(row[0], tally=means[key]))
    return replace(whole[0], nodes=tuple(nodes))


def _mean_records(
    launches: Sequence[KernelRecord],
    steps: Sequence[_Launches],
    shares: Floats,
    counts: StepCount | None,
) -> tuple[KernelRecord, ...]:
    """The mean of every launch; its FLOP are those of its nodes, in whose class it multiplies."""
    starts = np.array([step.starts_ps for step in steps])
    durations = np.array([[r.duration_ps for r in step.records] for step in steps])
    begins = np.rint(shares @ starts).astype(np.int64).tolist()
    stops = np.rint(shares @ (starts + durations)).astype(np.int64).tolist()
    of_node = {node.path: node.tally.flops for node in counts.nodes} if counts else {}
    known: dict[tuple[int, ...], dict[str, Any]] = {}
    found = []
    for i, launch in enumerate(launches):
        records = [step.records[i] for step in steps]
        begin, stop = begins[i], stops[i]
        # The asked step has a record of its own for each of equal layers.
        key = (*map(id, records[:-1]), records[-1].duration_ps, stop - begin)
        if key not in known:
            values = np.array([[getattr(record, name) for name in _SUMS] for record in records])
            known[key] = {
                **dict(zip(_SUMS, np.rint(shares @ values).astype(np.int64).tolist(), strict=True)),
                "flops": _flops(launch, records, shares, of_node),
                "busy_ps": _mean_of([record.busy_ps for record in records], shares),
                "causes_ps": _causes([r.causes_ps for r in records], shares, stop - begin),
                "work": _mean_of([record.work for record in records], shares),
                "machine": _machine([r.machine for r in records], shares, stop - begin),
            }
        stretches = _moved(launch, begin, stop - begin)
        found.append(
            replace(launch, start_ps=begin, end_ps=stop, stretches=stretches, **known[key])
        )
    return tuple(found)


def _flops(
    launch: KernelRecord,
    records: Sequence[KernelRecord],
    shares: Floats,
    of_node: Mapping[str, Mapping[str, int]],
) -> dict[str, int]:
    mean = _mean_of([record.flops for record in records], shares)
    summed: dict[str, int] = {}
    for path in launch.nodes:
        for math_class, amount in of_node.get(path, {}).items():
            summed[math_class] = summed.get(math_class, 0) + amount
    return summed if summed.keys() == mean.keys() else mean


def _mean_of(values: Sequence[Mapping[str, float]], shares: Floats) -> dict[str, int]:
    names = dict.fromkeys(name for own in values for name in own)
    return {
        name: round(sum(s * own.get(name, 0) for s, own in zip(shares, values, strict=True)))
        for name in names
    }


def _causes(
    values: Sequence[Mapping[str, int]], shares: Floats, duration_ps: int
) -> dict[str, int]:
    """Means that add up to the duration: what rounding leaves goes to the largest."""
    found = _mean_of(values, shares)
    if found:
        largest = max(found, key=lambda name: found[name])
        found[largest] += duration_ps - sum(found.values())
    return found


def _machine(
    views: Sequence[MachineView | None], shares: Floats, duration_ps: int
) -> MachineView | None:
    """What machines saw on average; None where one of the steps has a launch without."""
    known = [view for view in views if view is not None]
    if len(known) < len(views):
        return None
    states = _causes([view.states_ps for view in known], shares, duration_ps)
    return replace(mean_view(known, shares.tolist()), states_ps=states)


def _moved(
    record: KernelRecord, start_ps: int, duration_ps: int
) -> tuple[tuple[int, int, float], ...]:
    """Stretches of a launch, at the place and length of the mean one."""
    if not record.duration_ps:
        return ()
    factor = duration_ps / record.duration_ps
    return tuple(
        (
            start_ps + round((first - record.start_ps) * factor),
            start_ps + round((last - record.start_ps) * factor),
            share,
        )
        for first, last, share in record.stretches
    )
