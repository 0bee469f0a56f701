"""How fast device memory serves kernels, by the table of efficiencies; many demands at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.bandwidth import efficiency
from hwmodels.chip import ChipSpec
from simulator.cost.recording import Recording
from simulator.cost.roofline import Floats, Floors, NumberTable
from simulator.engine.kernel import Demand

_NO_RUN = efficiency.STREAM_FROM_BYTES  # streams are asked for anyway


class MemoryRates:
    """Bytes a second that memory gives each demand's mix, with enough in flight.

    Assumes: device memory delivers the share of its peak that the burst-level model gives to
        streams, gathers and mixes of reads and writes like the kernel's.
    Assumes: patterns side by side do not disturb each other beyond their common share of writes.
    Assumes: too few bytes in flight take the latency of an idle memory, and no more.
    """

    def __init__(self, recording: Recording, demands: Sequence[Demand], chip: ChipSpec) -> None:
        self._peak = chip.hbm_bandwidth_bytes_per_s
        self._sizes = _Sizes(chip)
        # Runs of one demand stand in the order of their sizes, those that are read first.
        most = max((len(demand.cache_runs) for demand in demands), default=0)
        slots = [
            [d.cache_runs[i] if i < len(d.cache_runs) else None for d in demands]
            for i in range(most)
        ]
        self._written = np.array(
            [[run is not None and run.written for run in s] for s in slots], dtype=bool
        )
        self._at = [
            self._sizes.places([run.run_bytes if run else _NO_RUN for run in s]) for s in slots
        ]
        self.table: NumberTable | None = None
        if slots:
            rows = [[run.nbytes if run else 0 for run in slot] for slot in slots]
            self.table = NumberTable(recording, rows)

    def bytes_per_s(self, floors: Floors, values: Sequence[Any]) -> Floats:
        """Rates with enough bytes in flight, one a demand."""
        runs = self.table.filled(values) if self.table else np.zeros((0, len(floors.read_bytes)))
        written = self._written.reshape(runs.shape)
        read_runs, written_runs = (np.where(side, runs, 0.0) for side in (~written, written))
        reads = np.maximum(0.0, floors.read_bytes - read_runs.sum(axis=0))
        writes = np.maximum(0.0, floors.written_bytes - written_runs.sum(axis=0))
        total = reads + writes + runs.sum(axis=0)
        some = np.where(total > 0, total, 1.0)
        row = self._sizes.row(np.where(total > 0, (writes + written_runs.sum(axis=0)) / some, 0.0))
        stream = self._sizes.streams(row)
        time = reads / stream + writes / stream
        for nbytes, places in zip(runs, self._at, strict=True):
            time = time + nbytes / self._sizes.shares(row, places)
        share = np.where(total > 0, some / np.where(total > 0, time, 1.0), stream)
        return share * self._peak


@dataclass(frozen=True, slots=True)
class _Row:
    """Entries of the table below and above shares of writes, and how far between them."""

    low: NDArray[np.intp]
    high: NDArray[np.intp]
    way: Floats


@dataclass(frozen=True, slots=True)
class _Places:
    """Sizes of the table below and above sizes of runs, and how far between them."""

    low: NDArray[np.intp]
    high: NDArray[np.intp]
    way: Floats


class _Sizes:
    """The chip's part of the table: shares of the peak [sizes, shares of writes]."""

    def __init__(self, chip: ChipSpec) -> None:
        self._shares = efficiency.chip_shares(chip)
        self._writes = np.array(efficiency.WRITE_FRACTIONS)

    def row(self, written: Floats) -> _Row:
        """Where shares of writes are in the table; what counts nothing stands for itself."""
        above = np.searchsorted(self._writes, written, side="right")
        above = np.clip(above, 1, len(self._writes) - 1)
        low, high = self._writes[above - 1], self._writes[above]
        way = np.minimum(1.0, np.maximum(0.0, (written - low) / (high - low)))
        return _Row(above - 1, np.where(way > 0, above, above - 1), way)

    def places(self, sizes: Sequence[int]) -> _Places:
        """Where sizes of runs are in the table."""
        found = [efficiency.place_of(size) for size in sizes]
        low, high, way = zip(*found, strict=True)
        return _Places(np.array(low), np.array(high), np.array(way, dtype=np.float64))

    def streams(self, row: _Row) -> Floats:
        """Shares of streams."""
        return self._mixed(np.full_like(row.low, len(efficiency.RUNS)), row)

    def shares(self, row: _Row, places: _Places) -> Floats:
        """Shares of runs."""
        low, high = self._mixed(places.low, row), self._mixed(places.high, row)
        return low + places.way * (high - low)

    def _mixed(self, sizes: NDArray[np.intp], row: _Row) -> Floats:
        low, high = self._shares.shares(sizes, row.low), self._shares.shares(sizes, row.high)
        mixed: Floats = low + row.way * (high - low)
        return mixed
