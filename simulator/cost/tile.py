"""The tile model: blocks on cores in waves, loads and units in a pipeline, latency exposed once.

Every term is at least its roofline counterpart, so no kernel is faster than its roofline. All ways
to cut many demands are compared at once, as arrays; a single demand is a batch of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.cost.collectives import link_seconds
from simulator.cost.layer_time import Cost
from simulator.cost.math_rate import CONVERT_OPS_PER_WEIGHT, MathRate, product_rate
from simulator.cost.memory_rate import MemoryRates
from simulator.cost.price import Price, Target
from simulator.cost.recording import Recording
from simulator.cost.roofline import (
    RESOURCES,
    Floats,
    Floors,
    NumberTable,
    pipe_shares,
    roofline_price,
    whole_ps,
)
from simulator.cost.tile_buffers import running_cores
from simulator.cost.tile_rates import TileRates
from simulator.cost.tile_ways import Products, TileWays, Ways
from simulator.engine.kernel import Demand, Product
from simulator.kernels.causes import CAUSE_OF_RESOURCE

# Bytes per second of memory for numbers of bytes in flight over the whole chip.
MemoryRate = Callable[[Floats], Floats]
# The same of many demands, for bytes in flight of the demands at some places.
RateOf = Callable[[NDArray[np.intp], Floats], Floats]
_UNITS = RESOURCES[:4]
_NO_PRODUCT = MathRate("matrix", 1.0)


def tile_price(demand: Demand, target: Target) -> Price:
    """Price by tiles, with memory as the table of its efficiency by pattern has it."""
    return tile_prices([demand], target)[0]


def tile_prices(
    demands: Sequence[Demand],
    target: Target,
    rates: Sequence[MemoryRate] | None = None,
    priced_by: str = "tile",
) -> list[Price]:
    """Prices by tiles; `rates` of memory for each demand, by the table of efficiencies if None."""
    if not demands:
        return []
    floors = [roofline_price(demand, target) for demand in demands]
    recording = Recording()
    batch = TileBatch(recording, demands, target)
    tiled = batch.tiled(Floors.of_prices(floors), recording.values, rates)
    return [
        batch.rates.priced(i, _price(demand, tiled, i, floor, target, priced_by))
        for i, (demand, floor) in enumerate(zip(demands, floors, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class _Seconds:
    """Time by resource, one value a way; `waves` are those of its blocks."""

    units: dict[str, Floats]
    loads: dict[str, Floats]
    waves: Floats
    feed: Floats


@dataclass(frozen=True, slots=True)
class Tiled:
    """The best way of each demand: whole picoseconds by resource, and how they overlap."""

    ways: Ways
    busy_ps: NDArray[np.int64]
    feed_ps: NDArray[np.int64]
    latency_ps: NDArray[np.int64]
    chunks: Floats
    far: NDArray[np.bool_]
    rates: TileRates

    def costs(self, launch_ps: int) -> list[Cost]:
        """Launch and run of each demand, and what it takes of the pipes."""
        columns = (self.busy_ps.T, self.latency_ps, self.chunks, self.far)
        listed = zip(*(column.tolist() for column in columns), strict=True)
        starts = self.rates.starts_ps(launch_ps)
        return [_cost(start, *column) for start, column in zip(starts, listed, strict=True)]


class TileBatch:
    """Some demands whose numbers are recorded, priced by tiles for any replay.

    Assumes: blocks of a kernel are equal and start wave by wave; the last wave may be partly empty.
    Assumes: the engine picks the fastest of its tile sizes and splits for every kernel.
    Assumes: a core keeps at most half its software-managed memory in flight, and has its even
        share of the last-level cache's bandwidth.
    Assumes: elementwise operations do not fuse into multiply-adds: half the vector peak.
    Assumes: matrix units slow down with the clock below the one their peak assumes.
    """

    def __init__(self, recording: Recording, demands: Sequence[Demand], target: Target) -> None:
        chip = target.chip
        self._plans = TileWays(recording, demands, target)
        self._memory = MemoryRates(recording, demands, chip)
        cores = [running_cores(demand, chip) for demand in demands]
        self._cores, self._buffer_bytes = np.array(cores, dtype=np.float64).T
        self._cube_clocks_per_s = chip.core_count * chip.clock_hz
        self._latency_s = chip.dram_latency_s
        self._llc_bytes_per_s = chip.llc_bandwidth_bytes_per_s
        self._latencies = whole_ps(np.array([chip.llc_latency_s, chip.dram_latency_s]))
        self.rates = TileRates(demands, target)
        self._elementwise = chip.vector_flops_per_s / 2 * self.rates.vector
        self._special = chip.special_ops_per_s * self.rates.vector
        slower = min(1.0, chip.clock_hz / chip.peak_clock_hz)
        rates = [[_rate(p, target) for p in products] for products in self._plans.products]
        self._on_matrix = [np.array([r.unit == "matrix" for r in slot]) for slot in rates]
        self._flops = [
            np.array([r.flops_per_s * (slower if r.unit == "matrix" else 1.0) for r in slot])
            * np.where(on_matrix, self.rates.cube, self.rates.vector)
            for slot, on_matrix in zip(rates, self._on_matrix, strict=True)
        ]
        self._converts = [np.array([r.convert for r in slot]) for slot in rates]
        self._table = NumberTable(
            recording,
            [
                [demand.vector_ops for demand in demands],
                [demand.special_ops for demand in demands],
                [link_seconds(demand, target.node) for demand in demands],
            ],
        )
        tables = [self._plans.table, self._memory.table, self._table]
        self.places = [place for table in tables if table for place in table.places]

    def costs(self, floors: Floors, launch_ps: int, values: Sequence[Any]) -> list[Cost]:
        """Cost of each demand in a replay; `floors` are those of the same demands."""
        return self.tiled(floors, values).costs(launch_ps)

    def tiled(
        self, floors: Floors, values: Sequence[Any], rates: Sequence[MemoryRate] | None = None
    ) -> Tiled:
        """The best way of each demand with these values."""
        ways, products = self._plans.ways(values)
        dense = self._table.filled(values)
        if rates is None:
            rate = self._table_rate(self._memory.bytes_per_s(floors, values))
        else:
            rate = _rate_of(rates)
        best = self._best(ways, products, floors, dense, rate)
        ways = ways.chosen(best)
        seconds = self._seconds(ways, products, floors, dense, rate)
        named = {**seconds.units, **seconds.loads}
        whole = whole_ps(np.vstack([named[name] for name in RESOURCES]))
        busy = np.maximum(whole, floors.busy_ps).astype(np.int64)
        far = floors.read_bytes + floors.written_bytes > 0
        latency = self._latencies[far.astype(np.intp)].astype(np.int64)
        feed = whole_ps(seconds.feed).astype(np.int64)
        chunks = seconds.waves * ways.steps
        return Tiled(ways, busy, feed, latency, chunks, far, self.rates)

    def _table_rate(self, full: Floats) -> RateOf:
        def rate(of: NDArray[np.intp], in_flight_bytes: Floats) -> Floats:
            return np.minimum(full[of], in_flight_bytes / self._latency_s)

        return rate

    def _best(
        self, ways: Ways, products: list[Products], floors: Floors, dense: Floats, rate: RateOf
    ) -> NDArray[np.intp]:
        """The fastest way of each demand, the first of equals."""
        seconds = self._seconds(ways, products, floors, dense, rate)
        least = (floors.busy_ps * 1e-12)[:, ways.demand]
        named = {**seconds.units, **seconds.loads}
        stages = np.maximum(np.vstack([named[name] for name in RESOURCES]), least)
        chunks = seconds.waves * ways.steps
        added = np.add.reduce(np.vstack([stages[4:], stages[:4]]), axis=0)
        run = (added + (chunks - 1) * stages.max(axis=0)) / chunks
        starts = np.searchsorted(ways.demand, np.arange(dense.shape[1]))
        fastest = np.flatnonzero(run == np.minimum.reduceat(run, starts)[ways.demand])
        return fastest[np.searchsorted(ways.demand[fastest], np.arange(dense.shape[1]))]

    def _seconds(
        self, ways: Ways, products: list[Products], floors: Floors, dense: Floats, rate: RateOf
    ) -> _Seconds:
        """Time by resource: padding, empty places in the last wave and repeated conversions."""
        of = ways.demand
        waves = np.ceil(ways.units / self._cores[of])
        idle = waves * self._cores[of] / ways.units
        vector_ops, special_ops, link = dense[:, of]
        matrix, vector = np.zeros(len(of)), idle * vector_ops / self._elementwise[of]
        for i, sizes in enumerate(products):
            macs = np.maximum(ways.padded_macs[i], sizes.macs[of])
            multiplied = idle * 2 * macs / self._flops[i][of]
            on_matrix = self._on_matrix[i][of]
            matrix = matrix + np.where(on_matrix, multiplied, 0.0)
            vector = vector + np.where(on_matrix, 0.0, multiplied)
            if self._converts[i].any():
                weights = sizes.weight_elements[of] * np.maximum(ways.weight_uses[i], 1.0)
                converted = idle * CONVERT_OPS_PER_WEIGHT * weights / self._elementwise[of]
                vector = vector + np.where(self._converts[i][of], converted, 0.0)
        # Cube cores fill their L0 buffers while they multiply.
        feed = idle * ways.feed_clocks / self._cube_clocks_per_s
        units = {
            "matrix": np.maximum(matrix, feed),
            "vector": vector,
            "special": idle * special_ops / self._special[of],
            "link": link / self.rates.link[of],
        }
        return _Seconds(units, self._loads(ways, floors, rate), waves, feed)

    def _loads(self, ways: Ways, floors: Floors, rate: RateOf) -> dict[str, Floats]:
        """Time of memory and of last-level cache, with only as many cores as have a block."""
        of = ways.demand
        cores = np.minimum(ways.units, self._cores[of])
        in_flight = cores * self._buffer_bytes[of] / 2
        dram = rate(of, in_flight) * self.rates.memory[of]
        llc = self._llc_bytes_per_s * cores / self._cores[of]
        return {
            "memory": (floors.read_bytes + floors.written_bytes)[of] / dram,
            "llc": (floors.llc_bytes[of] + ways.extra_llc_bytes) / llc,
        }


def _rate(product: Product | None, target: Target) -> MathRate:
    return product_rate(target.chip, product) if product else _NO_PRODUCT


def _cost(launch_ps: int, busy: list[int], latency: int, chunks: float, far: bool) -> Cost:
    """Latency, then the pipeline of loads and units."""
    run_ps = latency + pipelined_ps(busy, chunks)
    busy[4 if far else 5] += latency
    return Cost(launch_ps, run_ps, pipe_shares(run_ps, busy))


def _rate_of(rates: Sequence[MemoryRate]) -> RateOf:
    """Rates of demands one by one, where each has its own rule."""

    def rate(of: NDArray[np.intp], in_flight_bytes: Floats) -> Floats:
        found = np.empty(len(of))
        for i, own in enumerate(rates):
            ways = np.flatnonzero(of == i)
            found[ways] = own(in_flight_bytes[ways])
        return found

    return rate


def _price(
    demand: Demand, tiled: Tiled, at: int, floor: Price, target: Target, priced_by: str
) -> Price:
    """The price of one demand among those that were tiled."""
    latency, chunks = int(tiled.latency_ps[at]), float(tiled.chunks[at])
    far = bool(tiled.far[at])
    stages = dict(zip(RESOURCES, tiled.busy_ps[:, at].tolist(), strict=True))
    pipelined = pipelined_ps(list(stages.values()), chunks)
    causes = tile_causes(pipelined, stages, chunks, floor, int(tiled.feed_ps[at]))
    cause, source = ("dram_latency", "memory") if far else ("llc", "llc")
    causes[cause] = causes.get(cause, 0) + latency
    launch = floor.busy_ps["launch"]
    return Price(
        run_ps=latency + pipelined,
        busy_ps={**stages, source: stages[source] + latency, "launch": launch},
        traffic=floor.traffic,
        causes_ps=causes,
        priced_by=priced_by,
        cut=tiled.ways.cut(at),
        work=_work(demand, tiled.ways, at, target),
    )


def _work(demand: Demand, ways: Ways, at: int, target: Target) -> dict[str, float]:
    """Multiply-adds with filled tiles, bytes that tiles fetch again, and converted values."""
    useful = padded = converted = 0.0
    for i, product in enumerate(demand.products):
        useful += product.macs
        padded += max(float(ways.padded_macs[i][at]), product.macs)
        if product_rate(target.chip, product).convert:
            converted += product.weight_elements * max(float(ways.weight_uses[i][at]), 1.0)
    return {
        "macs": padded,
        "tile_padding_macs": padded - useful,
        "reread_bytes": float(ways.extra_llc_bytes[at]),
        "converted_values": converted,
    }


def tile_causes(
    pipelined: int, stages: Mapping[str, int], chunks: float, floor: Price, fed_ps: int
) -> dict[str, int]:
    """Launch, and of the pipeline the longest stage and the share of a chunk of every other one.

    Of a unit's time, what exceeds its roofline is padding and idle cores: `tail`; where filling L0
    buffers (`fed_ps`) takes a cube core longest, it is `l0`.
    """
    longest = max(stages, key=lambda name: stages[name])
    shown = {name: int(busy / chunks) for name, busy in stages.items()}
    shown[longest] = pipelined - sum(part for name, part in shown.items() if name != longest)
    found = {"launch": floor.busy_ps["launch"]}
    for name, part in shown.items():
        useful = part
        if name in _UNITS and part:
            useful = min(part, part * floor.busy_ps[name] // stages[name])
            waiting = "l0" if name == "matrix" and 0 < fed_ps == stages[name] else "tail"
            found[waiting] = found.get(waiting, 0) + part - useful
        cause = CAUSE_OF_RESOURCE[name]
        found[cause] = found.get(cause, 0) + useful
    return {cause: part_ps for cause, part_ps in found.items() if part_ps}


def pipelined_ps(stages_ps: Sequence[int], chunks: float) -> int:
    """Stages over equal chunks: of all but the longest, one chunk is exposed.

    Between the longest stage and the sum of all, and never less when one of them grows.
    """
    longest = max(stages_ps)
    return longest + math.ceil((sum(stages_ps) - longest) / chunks)
