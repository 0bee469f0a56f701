"""The tile model for many recorded demands at once: `price_by_tiles` to the last picosecond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.cost.batch_floor import RESOURCES, Floats, Floors, NumberTable, pipe_shares, whole_ps
from simulator.cost.batch_memory import MemoryBatch
from simulator.cost.batch_plans import PlanBatch, Products, Ways
from simulator.cost.collective import link_seconds
from simulator.cost.layer_time import Cost
from simulator.cost.math_rate import CONVERT_OPS_PER_WEIGHT, MathRate, product_rate
from simulator.cost.price import Target
from simulator.cost.recording import Recording
from simulator.cost.tile import pipelined_ps
from simulator.cost.tile_buffers import running_cores
from simulator.engine.kernel import Demand, Product

_NO_PRODUCT = MathRate("matrix", 1.0)


@dataclass(frozen=True, slots=True)
class _Seconds:
    """Time by resource, one value a way; `waves` are those of its blocks."""

    units: dict[str, Floats]
    loads: dict[str, Floats]
    waves: Floats


class TileBatch:
    """Prices of some demands by tiles."""

    def __init__(self, recording: Recording, demands: Sequence[Demand], target: Target) -> None:
        chip = target.chip
        self._plans = PlanBatch(recording, demands, target)
        self._memory = MemoryBatch(recording, demands, chip)
        cores = [running_cores(demand, chip) for demand in demands]
        self._cores, self._buffer_bytes = np.array(cores, dtype=np.float64).T
        self._cube_clocks_per_s = chip.core_count * chip.clock_hz
        self._latency_s = chip.dram_latency_s
        self._llc_bytes_per_s = chip.llc_bandwidth_bytes_per_s
        self._latencies = whole_ps(np.array([chip.llc_latency_s, chip.dram_latency_s]))
        self._elementwise = chip.vector_flops_per_s / 2
        self._special = chip.special_ops_per_s
        slower = min(1.0, chip.clock_hz / chip.peak_clock_hz)
        rates = [[_rate(p, target) for p in products] for products in self._plans.products]
        self._on_matrix = [np.array([r.unit == "matrix" for r in slot]) for slot in rates]
        self._flops = [
            np.array([r.flops_per_s * (slower if r.unit == "matrix" else 1.0) for r in slot])
            for slot in rates
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
        """Price of each demand in a replay; `floors` are those of the same demands."""
        ways, products = self._plans.ways(values)
        dense = self._table.filled(values)
        full = self._memory.bytes_per_s(floors, values)
        best = self._best(ways, products, floors, dense, full)
        ways = ways.chosen(best)
        seconds = self._seconds(ways, products, floors, dense, full)
        named = {**seconds.units, **seconds.loads}
        busy = whole_ps(np.vstack([named[name] for name in RESOURCES]))
        busy = np.maximum(busy, floors.busy_ps).astype(np.int64)
        far = floors.read_bytes + floors.written_bytes > 0
        latency = self._latencies[far.astype(np.intp)].astype(np.int64)
        chunks = seconds.waves * ways.steps
        columns = zip(busy.T.tolist(), latency.tolist(), chunks.tolist(), far.tolist(), strict=True)
        return [_cost(launch_ps, *column) for column in columns]

    def _best(
        self, ways: Ways, products: list[Products], floors: Floors, dense: Floats, full: Floats
    ) -> NDArray[np.intp]:
        """The fastest way of each demand, the first of equals."""
        seconds = self._seconds(ways, products, floors, dense, full)
        least = (floors.busy_ps * 1e-12)[:, ways.demand]
        named = {**seconds.units, **seconds.loads}
        stages = np.maximum(np.vstack([named[name] for name in RESOURCES]), least)
        chunks = seconds.waves * ways.steps
        # Summed in the order of `tile`: loads, then units.
        added = np.add.reduce(np.vstack([stages[4:], stages[:4]]), axis=0)
        run = (added + (chunks - 1) * stages.max(axis=0)) / chunks
        starts = np.searchsorted(ways.demand, np.arange(dense.shape[1]))
        fastest = np.flatnonzero(run == np.minimum.reduceat(run, starts)[ways.demand])
        return fastest[np.searchsorted(ways.demand[fastest], np.arange(dense.shape[1]))]

    def _seconds(
        self, ways: Ways, products: list[Products], floors: Floors, dense: Floats, full: Floats
    ) -> _Seconds:
        """Time by resource of some ways, as `tile` has it for those of one demand."""
        of = ways.demand
        waves = np.ceil(ways.units / self._cores[of])
        idle = waves * self._cores[of] / ways.units
        vector_ops, special_ops, link = dense[:, of]
        matrix, vector = np.zeros(len(of)), idle * vector_ops / self._elementwise
        for i, sizes in enumerate(products):
            macs = np.maximum(ways.padded_macs[i], sizes.macs[of])
            multiplied = idle * 2 * macs / self._flops[i][of]
            on_matrix = self._on_matrix[i][of]
            matrix = matrix + np.where(on_matrix, multiplied, 0.0)
            vector = vector + np.where(on_matrix, 0.0, multiplied)
            if self._converts[i].any():
                weights = sizes.weight_elements[of] * np.maximum(ways.weight_uses[i], 1.0)
                converted = idle * CONVERT_OPS_PER_WEIGHT * weights / self._elementwise
                vector = vector + np.where(self._converts[i][of], converted, 0.0)
        units = {
            "matrix": np.maximum(matrix, idle * ways.feed_clocks / self._cube_clocks_per_s),
            "vector": vector,
            "special": idle * special_ops / self._special,
            "link": link,
        }
        return _Seconds(units, self._loads(ways, floors, full), waves)

    def _loads(self, ways: Ways, floors: Floors, full: Floats) -> dict[str, Floats]:
        """Time of memory and of last-level cache, with only as many cores as have a block."""
        of = ways.demand
        cores = np.minimum(ways.units, self._cores[of])
        in_flight = cores * self._buffer_bytes[of] / 2
        dram = np.minimum(full[of], in_flight / self._latency_s)
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
