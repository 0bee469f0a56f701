"""Timed kernels as flat records, with where their time went and how sure it is.

Assumes: what a kernel loses to others beside it belongs to the pipe that it uses most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from simulator.cost.critical_path import critical_ps_of
from simulator.cost.machine_view import MachineView
from simulator.cost.price import Price
from simulator.cost.result import KernelRecord
from simulator.cost.timeline import Timed
from simulator.engine.shape_text import program_text, shape_text
from simulator.kernels.causes import CAUSE_OF_RESOURCE
from simulator.kernels.interval import Share, interval_of_sum, least_deviation
from simulator.kernels.standing import Standing


def records_of(timed: Iterable[Timed]) -> tuple[KernelRecord, ...]:
    """A record of every launch; equal launches share their mappings."""
    known: dict[int, tuple[dict[str, int], tuple[str, str]]] = {}
    causes: dict[tuple[int, int], tuple[Mapping[str, int], MachineView | None]] = {}
    records = []
    for t in timed:
        key = (id(t.price), t.end_ps - t.start_ps)
        if key not in causes:
            causes[key] = _spent(t.price, t.end_ps - t.start_ps)
        demand = t.kernel.demand
        if id(demand) not in known:
            known[id(demand)] = (demand.flops, (program_text(demand), shape_text(demand)))
        records.append(_record(t, *known[id(demand)], *causes[key]))
    return tuple(records)


def _spent(price: Price, duration_ps: int) -> tuple[Mapping[str, int], MachineView | None]:
    """Causes of a launch that took this long, and what a machine saw of it."""
    lost = duration_ps - price.alone_ps
    if not lost:
        return price.causes_ps, price.machine
    pipe = max(price.shares, key=lambda pipe: price.shares[pipe])
    cause = CAUSE_OF_RESOURCE[pipe]
    causes = {**price.causes_ps, cause: price.causes_ps.get(cause, 0) + lost}
    return causes, price.machine and price.machine.beside(pipe, lost)


def _record(
    timed: Timed,
    flops: dict[str, int],
    texts: tuple[str, str],
    causes: Mapping[str, int],
    machine: MachineView | None,
) -> KernelRecord:
    kernel, price, demand = timed.kernel, timed.price, timed.kernel.demand
    duration = timed.end_ps - timed.start_ps
    return KernelRecord(
        path=kernel.path,
        name=kernel.name,
        family=demand.family,
        scope=kernel.scope,
        kind=kernel.kind,
        stream=kernel.stream,
        start_ps=timed.start_ps,
        end_ps=timed.end_ps,
        nodes=kernel.nodes,
        flops=flops,
        vector_ops=demand.vector_ops,
        special_ops=demand.special_ops,
        weight_bytes=demand.weight_bytes,
        activation_bytes=demand.activation_bytes,
        cache_read_bytes=demand.cache_read_bytes,
        cache_write_bytes=demand.cache_write_bytes,
        dram_read_bytes=price.traffic.dram_read_bytes,
        dram_write_bytes=price.traffic.dram_write_bytes,
        link_bytes=demand.link_bytes,
        busy_ps=price.busy_ps,
        causes_ps=causes,
        low_ps=round(duration * price.low),
        high_ps=round(duration * price.high),
        calibrated=price.calibrated,
        priced_by=price.priced_by,
        program=texts[0],
        shapes=texts[1],
        stretches=tuple((s.start_ps, s.end_ps, s.share) for s in timed.stretches),
        cut=price.cut,
        work=price.work,
        machine=machine,
    )


# Beyond this factor between p10 and p90 an interval says no more than that nothing is known.
WIDEST = 4.0


def step_interval(
    records: Sequence[KernelRecord], total_ps: int, standing: Standing
) -> tuple[int, int]:
    """p10 and p90 of a step, from those of the launches that its end waits for.

    Assumes: the same launches decide the step when some are faster or slower.
    Assumes: no step is more than a factor of 4 wide between p10 and p90; what is wider by its
        kernels is drawn in at both ends.
    """
    critical_ps, _ = critical_ps_of(records, total_ps)
    shares = [
        _share(record, part_ps, standing)
        for record, part_ps in zip(records, critical_ps, strict=True)
        if part_ps
    ]
    if not shares or not total_ps:
        return total_ps, total_ps
    low, high = interval_of_sum(shares)
    between = total_ps - sum(share.seconds for share in shares)
    every = [
        _share(record, record.duration_ps, standing) for record in records if record.duration_ps
    ]
    below = max(
        1 - (low + between) / total_ps, least_deviation([(s.seconds, s.below) for s in every])
    )
    above = max(
        (high + between) / total_ps - 1, least_deviation([(s.seconds, s.above) for s in every])
    )
    return _drawn_in(total_ps, 1 - below, 1 + above)


def _share(record: KernelRecord, part_ps: float, standing: Standing) -> Share:
    duration = record.duration_ps
    low, high = standing.reaches(duration * 1e-12)
    return Share(
        family=record.priced_by,
        seconds=float(part_ps),
        below=1 - record.low_ps / duration,
        above=record.high_ps / duration - 1,
        common_below=1 - math.exp(-low),
        common_above=math.exp(high) - 1,
    )


def _drawn_in(total_ps: int, low: float, high: float) -> tuple[int, int]:
    """An interval around a time, given as factors, no wider than the widest."""
    low = max(low, 1e-3)
    whole = math.log(high / low)
    part = min(1.0, math.log(WIDEST) / whole) if whole > 0 else 1.0
    return round(total_ps * low**part), round(total_ps * high**part)
