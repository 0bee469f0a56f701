"""State of one request in the evaluator's pools, as the packed rows that a cache stores.

Three kinds: `window` rows of every layer, `overlap` rows of the compressors of ratio-4 layers (the
4 tokens that the next block pools with its own), and `compressed` entries (index keys included).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.pools import RegionPool
from workloads.deepseek_v4.state import layer_name
from workloads.state_layout import Every

Kind = Literal["window", "overlap", "compressed"]
Rows = dict[str, NDArray[Any]]

FRESH = 0xFF
"""Every byte of a slot that holds nothing; eight of them read as NaN."""


class CachedState:
    """Reads and writes the rows of one request by logical index."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.pools = evaluator.pools
        overlapping = {
            f"{layer_name(layer)}/attn"
            for layer, attention in enumerate(evaluator.config.layers)
            if attention.indexed
        }
        self._names: dict[Kind, list[str]] = {"window": [], "overlap": [], "compressed": []}
        for name, pool in self.pools.items():
            if isinstance(pool.region.growth, Every):
                self._names["compressed"].append(name)
            elif pool.region.pool == "window":
                self._names["window"].append(name)
            elif name.rpartition("/")[0] in overlapping:
                self._names["overlap"].append(name)

    def read(self, kind: Kind, row: int, first: int, stop: int) -> Rows:
        """Packed rows of tokens `first` up to `stop` (of entries that end there), by region."""
        return {
            name: self.pools[name].data[self._slots(name, row, first, stop)].copy()
            for name in self._names[kind]
        }

    def write(self, kind: Kind, row: int, first: int, stop: int, rows: Mapping[str, Any]) -> None:
        """Put rows back to the same logical places, wherever those lie now."""
        for name in self._names[kind]:
            self.pools[name].data[self._slots(name, row, first, stop)] = rows[name]

    def values(self, kind: Kind, row: int, first: int, stop: int) -> dict[str, NDArray[Any]]:
        """Rows as numbers [rows, dim], by region."""
        packed = self.read(kind, row, first, stop)
        return {name: self.pools[name].format.decode(rows) for name, rows in packed.items()}

    def wipe(self) -> None:
        """Fill everything with NaN."""
        for pool in self.pools.values():
            pool.data[:] = FRESH

    def row_bytes(self, kind: Kind) -> int:
        """Bytes of one row of every region of a kind."""
        return sum(self.pools[name].format.nbytes for name in self._names[kind])

    def _slots(self, name: str, row: int, first: int, stop: int) -> NDArray[np.int64]:
        pool: RegionPool = self.pools[name]
        growth = pool.region.growth
        ratio = growth.tokens if isinstance(growth, Every) else 1
        return pool.slots(row, np.arange(first // ratio, stop // ratio))
