"""Timed kernels as flat records, with where their time went and how sure it is.

Assumes: what a kernel loses to others beside it belongs to the pipe that it uses most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simulator.cost.critical_path import critical_ps_of
from simulator.cost.machine_view import MachineView
from simulator.cost.price import Price
from simulator.cost.result import KernelRecord
from simulator.cost.timeline import Timed
from simulator.engine.shape_text import program_text, shape_text
from simulator.kernels.causes import CAUSE_OF_RESOURCE
from simulator.kernels.interval import Interval, interval_of_sum


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


def step_interval(records: Sequence[KernelRecord], total_ps: int) -> tuple[int, int]:
    """p10 and p90 of a step, from those of the launches that its end waits for.

    Assumes: the same launches decide the step when some are faster or slower.
    """
    critical_ps, between_ps = critical_ps_of(records, total_ps)
    seconds: dict[str, float] = {"": float(between_ps)}
    low: dict[str, float] = {"": float(between_ps)}
    high: dict[str, float] = {"": float(between_ps)}
    for record, part_ps in zip(records, critical_ps, strict=True):
        if part_ps:
            name = record.priced_by
            seconds[name] = seconds.get(name, 0.0) + part_ps
            share = part_ps / record.duration_ps
            low[name] = low.get(name, 0.0) + share * record.low_ps
            high[name] = high.get(name, 0.0) + share * record.high_ps
    families = {name: time for name, time in seconds.items() if time}
    if not families:
        return total_ps, total_ps
    intervals = {
        name: Interval(low[name] / time, high[name] / time) for name, time in families.items()
    }
    below, above = interval_of_sum(families, intervals)
    return round(below), round(above)
