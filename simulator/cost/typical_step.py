"""The typical decode step: the mean over the steps in which compressed entries come to their end.

A request completes an entry of a pool every `ratio` tokens, so that steps differ by which entries
they complete: with ratios 4 and 128, 96 of 128 steps complete none, 31 a C4 entry, one both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from simulator.basis.assumptions import assumptions_of
from simulator.cost.question import AskedStep
from simulator.cost.records import step_interval
from simulator.cost.result import KernelRecord, StepPeriod, StepResult
from simulator.cost.step import cost_step
from simulator.cost.timeline import Progress
from simulator.count.count import StepCount
from simulator.count.tally import Tally
from workloads.run_stats import RunStats

# Longer periods (ratios without common factors) are counted over so many tokens.
LONGEST_PERIOD = 2**18
_SUMS = (
    *("start_ps", "end_ps", "low_ps", "high_ps", "vector_ops", "special_ops", "weight_bytes"),
    *("activation_bytes", "cache_read_bytes", "cache_write_bytes", "dram_read_bytes"),
    *("dram_write_bytes", "link_bytes"),
)


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
    """Cost of a decode step as the mean over the period; of a prefill step, that step.

    Raises as `cost_step`.

    Assumes: all requests are at the same place of the period, and steps of the period that complete
        the same entries take as long as the one of them that is nearest to the context.
    """
    question = asked.question
    if question.phase != "decode":
        return cost_step(asked, stats, progress)
    ratios = [layer.ratio for layer in asked.config.layers]
    period, classes = step_classes(ratios, question.context)
    longest = asked.config.max_position_embeddings
    classes = [one for one in classes if one.context <= longest]
    results = [cost_step(asked.changed(context=one.context), stats, progress) for one in classes]
    exact = results[-1]
    paths = [[kernel.path for kernel in result.kernels] for result in results]
    if len(results) == 1 or any(own != paths[0] for own in paths):
        return exact
    weights = np.array([one.share for one in classes])
    return _mean(asked, results, weights / weights.sum(), period)


def _mean(
    asked: AskedStep, results: Sequence[StepResult], shares: np.ndarray, period: int
) -> StepResult:
    main = results[int(shares.argmax())]
    counts = _mean_counts([result.counts for result in results], shares)
    flops = {node.path: node.tally.flops for node in counts.nodes} if counts else {}
    rows = zip(*(result.kernels for result in results), strict=True)
    kernels = tuple(_mean_record(row, shares, flops) for row in rows)
    total_ps = max(kernel.end_ps for kernel in kernels)
    low_ps, high_ps = step_interval(kernels, total_ps)
    totals = [result.total_ps for result in results]
    notes = dict.fromkeys(note for result in results for note in result.notes)
    return replace(
        main,
        question=asked.question,
        kernels=kernels,
        total_ps=total_ps,
        low_ps=low_ps,
        high_ps=high_ps,
        memory=results[-1].memory,
        counts=counts,
        notes=tuple(notes),
        assumptions=(*main.assumptions, *assumptions_of([typical_step])),
        period=StepPeriod(tokens=period, shortest_ps=min(totals), longest_ps=max(totals)),
    )


def _mean_counts(counts: Sequence[StepCount | None], shares: np.ndarray) -> StepCount | None:
    """Counts of every node, each the mean."""
    whole = [own for own in counts if own is not None]
    if len(whole) < len(counts):
        return None
    nodes = []
    for row in zip(*(own.nodes for own in whole), strict=True):
        tallies = [node.tally for node in row]
        means = {
            field.name: round(float(shares @ np.array([getattr(t, field.name) for t in tallies])))
            for field in fields(Tally)
            if field.name != "flops"
        }
        mean = Tally(flops=_mean_of([t.flops for t in tallies], shares), **means)
        nodes.append(replace(row[0], tally=mean))
    return replace(whole[0], nodes=tuple(nodes))


def _mean_record(
    records: Sequence[KernelRecord],
    shares: np.ndarray,
    flops_of_node: Mapping[str, Mapping[str, int]],
) -> KernelRecord:
    """The mean of a launch; its FLOP are those of its nodes, where it multiplies in their class."""
    main = records[int(shares.argmax())]
    values = np.array([[getattr(record, name) for name in _SUMS] for record in records])
    sums = dict(zip(_SUMS, (round(float(mean)) for mean in shares @ values), strict=True))
    duration = sums["end_ps"] - sums["start_ps"]
    return replace(
        main,
        **sums,  # type: ignore[arg-type]
        flops=_flops(records, shares, flops_of_node),
        busy_ps=_mean_of([record.busy_ps for record in records], shares),
        causes_ps=_causes([record.causes_ps for record in records], shares, duration),
        stretches=_moved(main, sums["start_ps"], duration),
    )


def _flops(
    records: Sequence[KernelRecord],
    shares: np.ndarray,
    flops_of_node: Mapping[str, Mapping[str, int]],
) -> dict[str, int]:
    mean = _mean_of([record.flops for record in records], shares)
    summed: dict[str, int] = {}
    for path in records[0].nodes:
        for math_class, amount in flops_of_node.get(path, {}).items():
            summed[math_class] = summed.get(math_class, 0) + amount
    return summed if summed.keys() == mean.keys() else mean


def _mean_of(values: Sequence[Mapping[str, int]], shares: np.ndarray) -> dict[str, int]:
    names = dict.fromkeys(name for own in values for name in own)
    return {
        name: round(float(shares @ np.array([own.get(name, 0) for own in values])))
        for name in names
    }


def _causes(
    values: Sequence[Mapping[str, int]], shares: np.ndarray, duration_ps: int
) -> dict[str, int]:
    """Means that add up to the duration: what rounding leaves goes to the largest."""
    found = _mean_of(values, shares)
    if found:
        largest = max(found, key=lambda name: found[name])
        found[largest] += duration_ps - sum(found.values())
    return found


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
