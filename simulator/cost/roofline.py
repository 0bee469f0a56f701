"""The roofline: every resource at its peak, all overlapped; the slowest sets the time.

For one demand, and for many recorded ones as arrays with one value a demand.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.machine.live import PICOSECONDS, to_ps
from simulator.cost.collectives import link_seconds
from simulator.cost.math_rate import CONVERT_OPS_PER_WEIGHT, product_rate
from simulator.cost.price import Price, Target
from simulator.cost.recording import Recording
from simulator.cost.traffic import traffic
from simulator.engine.kernel import Demand, Operand
from simulator.kernels.causes import CAUSE_OF_RESOURCE

Floats = NDArray[np.float64]
# The pipes that kernels side by side share, in the order of `PIPES` but for the link.
RESOURCES = ("matrix", "vector", "special", "link", "memory", "llc")
# Rounding to a thousandth of a picosecond can only lower what lies so little above a whole one.
_LITTLE_PS = 0.002


def roofline_price(demand: Demand, target: Target) -> Price:
    """Launch gap + max(work / peak of each unit, memory bytes / bandwidth, link time).

    Assumes: all units, memory and links overlap perfectly within a kernel, and kernels of
        different streams share them without loss.
    Assumes: every kernel waits for one launch gap of a replayed graph on its stream.
    """
    chip = target.chip
    moved = traffic(demand, chip.llc_bytes)
    seconds = unit_seconds(demand, target)
    seconds["memory"] = moved.dram_bytes / chip.hbm_bandwidth_bytes_per_s
    seconds["llc"] = moved.llc_bytes / chip.llc_bandwidth_bytes_per_s
    busy = {resource: to_ps(duration) for resource, duration in seconds.items()}
    longest = max(busy, key=lambda resource: busy[resource])
    launch = to_ps(chip.launch_gap_s)
    causes = {"launch": launch, CAUSE_OF_RESOURCE[longest]: busy[longest]}
    busy["launch"] = launch
    return Price(
        run_ps=busy[longest],
        busy_ps=busy,
        traffic=moved,
        causes_ps={cause: part_ps for cause, part_ps in causes.items() if part_ps},
        priced_by="roofline",
        work={"macs": float(sum(product.macs for product in demand.products))},
    )


def unit_seconds(demand: Demand, target: Target) -> dict[str, float]:
    """Time of matrix, vector and special-function units and of the links, each at its peak."""
    chip = target.chip
    seconds = {
        "matrix": 0.0,
        "vector": demand.vector_ops / chip.vector_flops_per_s,
        "special": demand.special_ops / chip.special_ops_per_s,
        "link": link_seconds(demand, target.node, bound=True),
    }
    for product in demand.products:
        rate = product_rate(chip, product)
        seconds[rate.unit] += 2 * product.macs / rate.flops_per_s
        if rate.convert:
            converted = CONVERT_OPS_PER_WEIGHT * product.weight_elements
            seconds["vector"] += converted / chip.vector_flops_per_s
    return seconds


class NumberTable:
    """Numbers of a recording by row and demand, and their values in a replay."""

    def __init__(self, recording: Recording, rows: Sequence[Sequence[object]]) -> None:
        places = [recording.place(number) for row in rows for number in row]
        self.places = tuple(places)
        self._shape = (len(rows), len(rows[0]))
        self._values = operator.itemgetter(*places, places[0])

    def filled(self, values: Sequence[Any]) -> Floats:
        """Values of a replay, [rows, demands]."""
        return np.array(self._values(values)[:-1], dtype=np.float64).reshape(self._shape)


@dataclass(frozen=True, slots=True)
class Floors:
    """Bytes moved, and whole picoseconds by resource [resources, demands], each at its peak."""

    read_bytes: Floats
    written_bytes: Floats
    llc_bytes: Floats
    busy_ps: Floats

    @classmethod
    def of_prices(cls, prices: Sequence[Price]) -> Floors:
        """Those of demands whose rooflines are known."""
        read = [price.traffic.dram_read_bytes for price in prices]
        written = [price.traffic.dram_write_bytes for price in prices]
        llc = [price.traffic.llc_bytes for price in prices]
        busy = [[price.busy_ps[name] for price in prices] for name in RESOURCES]
        return cls(*(np.array(row, dtype=np.float64) for row in (read, written, llc, busy)))

    def of(self, own: NDArray[np.intp]) -> Floors:
        """Those of some of the demands."""
        read, written, llc = self.read_bytes, self.written_bytes, self.llc_bytes
        return Floors(read[own], written[own], llc[own], self.busy_ps[:, own])


class FloorBatch:
    """Rooflines of some demands; the same numbers as `roofline_price`, to the last digit."""

    def __init__(self, recording: Recording, demands: Sequence[Demand], target: Target) -> None:
        chip = target.chip
        self._rates = chip.hbm_bandwidth_bytes_per_s, chip.llc_bandwidth_bytes_per_s
        seconds = [unit_seconds(demand, target) for demand in demands]
        traffic = _Traffic(recording, chip.llc_bytes)
        rows: list[list[object]] = [[s[unit] for s in seconds] for unit in RESOURCES[:4]]
        rows.append([traffic.read(demand) for demand in demands])
        rows.append([traffic.written(demand) for demand in demands])
        rows.append([traffic.llc(demand) for demand in demands])
        self.table = NumberTable(recording, rows)

    def floors(self, values: Sequence[Any]) -> Floors:
        """Rooflines in a replay."""
        found = self.table.filled(values)
        read, written, llc = found[4:]
        seconds = np.vstack([found[:4], (read + written) / self._rates[0], llc / self._rates[1]])
        return Floors(read, written, llc, whole_ps(seconds))


class _Traffic:
    """Bytes of recorded demands as `traffic` counts them, without deciding what leaves the LLC."""

    def __init__(self, recording: Recording, llc_bytes: int) -> None:
        self._recording = recording

        def leaving(nbytes: int, reuse_bytes: int | None) -> int:
            return nbytes if reuse_bytes is None or 2 * reuse_bytes > llc_bytes else 0

        self._leaving = leaving

    def read(self, demand: Demand) -> Any:
        return demand.weight_bytes + demand.cache_read_bytes + self._left(demand.inputs)

    def written(self, demand: Demand) -> Any:
        return demand.cache_write_bytes + self._left(demand.outputs)

    def llc(self, demand: Demand) -> Any:
        touched = self._recording.apply(max, demand.cache_touch_bytes, demand.cache_read_bytes)
        return demand.weight_bytes + touched + demand.cache_write_bytes + demand.activation_bytes

    def _left(self, operands: Sequence[Operand]) -> Any:
        apply = self._recording.apply
        return sum(apply(self._leaving, o.nbytes, o.reuse_bytes) for o in operands)


def whole_ps(seconds: Floats) -> Floats:
    """`to_ps` of every value."""
    exact = seconds * PICOSECONDS
    whole = np.ceil(exact)
    doubtful = whole - exact > 1.0 - _LITTLE_PS
    if doubtful.any():
        whole[doubtful] = [to_ps(value) for value in seconds[doubtful].tolist()]
    return whole


def pipe_shares(run_ps: int, busy_ps: Sequence[int]) -> dict[str, float]:
    """Share of each pipe that is busy while a kernel runs; `busy_ps` by resource."""
    if not run_ps:
        return {}
    named = zip(RESOURCES, busy_ps, strict=True)
    return {pipe: min(1.0, busy / run_ps) for pipe, busy in named if busy}
